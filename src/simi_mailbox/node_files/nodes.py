"""What nodes are called: ids are found, whatever they are, and come back as they were."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import ID_NAMES, Columns, Contents
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.node_files.text_tables import IsData


@dataclass(frozen=True)
class Nodes:
    """The nodes of a problem in the order of their rows, and what they and the classes are called.

    Attributes
    ----------
    count : int
    ids : array [n] or None
        Names as they were given; None if nodes are their row numbers.
    id_name : str
        What the column of names is called.
    classes : tuple of str or None
        Names of the classes in the order of the columns; None if they are numbers.
    """

    count: int
    ids: Array | None = None
    id_name: str = "id"
    classes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.ids is not None:
            order = self._order
            same = self._text[order][1:] == self._text[order][:-1]
            if same.any():
                twice = self._text[order][1:][same][0]
                raise ValueError(
                    f"two rows have the {self.id_name} {str(twice)!r}: ids name one node"
                )

    @cached_property
    def _text(self) -> Array:
        assert self.ids is not None
        return as_text(self.ids)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self._text, kind="stable")

    @property
    def are_numbered(self) -> bool:
        """Whether ids, if there are any, are whole numbers."""
        return self.ids is None or bool(np.char.isdecimal(np.char.lstrip(self._text, "-")).all())

    def shown(self) -> Array:
        """Ids as they were given, or row numbers."""
        return np.arange(self.count) if self.ids is None else self.ids

    def knows(self, cells: Sequence[str]) -> bool:
        """Whether a row begins with the name of a node, or is that of a class."""
        if self.ids is None:
            return len(cells) == 1 and cells[0] in (self.classes or ())
        place = int(np.searchsorted(self._text, cells[0], sorter=self._order))
        return place < self.count and str(self._text[self._order[place]]) == cells[0]

    def find(self, given: Array, where: object) -> Ints:
        """Rows of the nodes that are named; an unknown name is refused."""
        text = as_text(given)
        if self.ids is None:
            rows = whole(text, where)
            outside = (rows < 0) | (rows >= self.count)
            if outside.any():
                raise ValueError(
                    f"{where}: there is no node {rows[outside][0]}; nodes are rows, numbered "
                    f"0..{self.count - 1}, because the logits have no column 'id' (name it with "
                    "--id-column, or give --ids)"
                )
            return rows
        place = np.searchsorted(self._text, text, sorter=self._order)
        rows = self._order[np.minimum(place, self.count - 1)]
        unknown = self._text[rows] != text
        if unknown.any():
            raise ValueError(
                f"{where}: there is no node {str(text[unknown][0])!r} among the "
                f"{self.count:,} nodes of the logits (the first is {str(self._text[0])!r})"
            )
        return rows


class Reader:
    """Reads each file once, and knows what the user calls the column of ids."""

    def __init__(self, id_column: str | None) -> None:
        self.id_column = id_column
        self.learned: str | None = None  # what the first file calls it
        self.nodes: Nodes | None = None  # once they are known
        self._read: dict[Path, Contents] = {}

    def __call__(self, path: Path, names: Collection[str] | None = None) -> Contents:
        """What a file holds; of a list with such ``names`` for a header, nothing else is one."""
        if path not in self._read:
            header = [name for name in (self.id_column, self.learned) if name is not None]
            self._read[path] = read_file(path, header=header, is_data=self._is_data(names, header))
        return self._read[path]

    def _is_data(self, names: Collection[str] | None, header: Sequence[str]) -> IsData:
        if names is not None:
            return lambda cells: len(cells) == 1 and cells[0].lower() not in (*names, *header)
        return lambda cells: self.nodes is not None and self.nodes.knows(cells)

    def id_of(self, table: Columns, *, needed: bool = False) -> int | None:
        """Position of the column of ids; that of a name the user gave must be there if needed."""
        if self.id_column is None:
            return table.find(ID_NAMES if self.learned is None else (*ID_NAMES, self.learned))
        found = table.find([self.id_column])
        if found is None and self.id_column.isdecimal() and not table.has_header:
            found = int(self.id_column) - 1
        if found is None or not 0 <= found < len(table.values):
            if not needed:
                return table.find(ID_NAMES)
            columns = ", ".join(table.names) if table.has_header else f"1 to {len(table.values)}"
            raise ValueError(
                f"{table.path}: there is no column {self.id_column!r} for --id-column; "
                f"its columns: {columns}"
            )
        return found


def one(contents: dict[str, Any], path: Path, names: Sequence[str]) -> Any:
    """The array that has one of the names, or the only one there is."""
    found = [name for name in names if name in contents]
    if len(found) > 1:
        raise FileFormatError(
            f"{path}: it holds both {found[0]!r} and {found[1]!r}: keep one of them"
        )
    if found:
        return contents[found[0]]
    if len(contents) == 1:
        return next(iter(contents.values()))
    wanted = " or ".join(repr(name) for name in names)
    raise FileFormatError(
        f"{path}: it has no array {wanted}; it has: {', '.join(contents) or 'nothing'}"
    )


def as_text(given: Array) -> Array:
    """Names as text; whole numbers in floating point lose their ``.0``.

    Examples
    --------
    >>> as_text(np.array([1.0, 2.0])).tolist()
    ['1', '2']
    """
    if given.dtype.kind == "f" and np.array_equal(given, np.rint(given)):
        given = given.astype(np.int64)
    return given.astype(np.str_)


def whole(text: Array, where: object) -> Ints:
    """Text as whole numbers."""
    try:
        return text.astype(np.int64)
    except ValueError:
        wrong = next(cell for cell in text if not str(cell).lstrip("+-").isdigit())
        raise ValueError(
            f"{where}: {str(wrong)!r} is not a whole number, and the logits have no ids: give them "
            "a column 'id', or give --ids"
        ) from None
