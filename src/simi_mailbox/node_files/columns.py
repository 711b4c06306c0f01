"""What a file of nodes holds: named columns or named arrays, and the names that are understood."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox.bundles import NAMES
from simi_mailbox.exceptions import FileFormatError

ID_NAMES = ("id", "ids", "node", "node_id", "nodeid", "__index_level_0__")
"""Columns that name nodes; the last is what pandas calls an index without a name."""
LABEL_NAMES = (*NAMES["labels"], "label", "class", "target")
EDGE_NAMES = (
    *(("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail")),
    *(("node1", "node2"), ("id1", "id2")),
)
PROBABILITY_NAMES = ("probabilities", "probs", "prob")
CALLED = {*ID_NAMES, *chain(*EDGE_NAMES)}
"""Columns whose cells are what nodes are called."""
KNOWN = {*CALLED, *LABEL_NAMES, *PROBABILITY_NAMES, *chain(*NAMES.values())}
KNOWN |= {"predicted", "confidence", "split", "name", "adj_t"}
"""All names that are understood."""


@dataclass(frozen=True)
class Columns:
    """A table: columns of one length, numbers as float64 or integers, everything else as text.

    Attributes
    ----------
    path : Path
    names : tuple of str
        Header, or ``""`` for every column of a file that has none.
    values : tuple of array
        Usually [rows]; [rows, width] where a column of a Parquet file holds lists.
    """

    path: Path
    names: tuple[str, ...]
    values: tuple[Array, ...]

    @property
    def rows(self) -> int:
        return len(self.values[0])

    @property
    def has_header(self) -> bool:
        return any(self.names)

    def find(self, names: Iterable[str]) -> int | None:
        """Position of the column that has one of the names; two such columns are refused."""
        wanted = {name.lower() for name in names}
        found = [k for k, name in enumerate(self.names) if name.lower() in wanted]
        if len(found) > 1:
            raise FileFormatError(
                f"{self.path}: it has both a column {self.names[found[0]]!r} and "
                f"{self.names[found[1]]!r}: keep one of them"
            )
        return found[0] if found else None

    def measures(self, position: int) -> bool:
        """Whether a column holds numbers with fractions, which no label, mask or id is."""
        column = self.values[position]
        if column.dtype.kind == "U":  # a word that also names ends of edges: see `CALLED`
            try:
                column = np.where(column == "", "nan", column).astype(np.float64)
            except ValueError:
                return False
        return column.dtype.kind == "f" and bool((np.nan_to_num(column) % 1 != 0).any())


Contents = Columns | dict[str, Any]
