"""What nodes are called: ids are found, whatever they are, and come back as they were."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import Columns, Contents, as_text
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.node_files.text_tables import IsData

_SHOWN = 3
_NO_IDS = ", because the logits have no column 'id' (name it with --id-column, or give --ids)"


@dataclass(frozen=True)
class Nodes:
    """The nodes of a problem in the order of their rows, and what they and the classes are called.

    ``ids`` [n] of NumPy or Arrow are as they were given, or None if nodes are their row numbers,
    which they always are if ``rows_only``. ``classes`` is None if these are numbers.
    """

    count: int
    ids: Any = None
    id_name: str = "id"
    classes: tuple[str, ...] | None = None
    rows_only: bool = False

    def __post_init__(self) -> None:
        if self.ids is None:
            return
        rising = pc.all(pc.less(self._text[:-1], self._text[1:])).as_py()  # seen at a glance
        if not rising and len(pc.unique(self._text)) < self.count:
            counts = pc.value_counts(self._text)
            twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
            raise ValueError(f"two rows have the {self.id_name} {quoted(twice)}: ids name one node")
        if pc.any(pc.equal(self._text, "")).as_py():
            raise ValueError(f"a row has no {self.id_name}: every node needs one, or none")

    @cached_property
    def _text(self) -> Any:
        return as_text(self.ids)

    @property
    def texts(self) -> Any:
        """Ids as text, by which nodes are known again in other files; None if there are none."""
        if self.ids is None:
            return None
        return np.asarray(self._text.to_numpy(zero_copy_only=False), dtype=np.str_)

    @property
    def are_numbered(self) -> bool:
        """Whether ids, if there are any, are whole numbers."""
        if self.ids is None:
            return True
        return bool(pc.all(pc.match_substring_regex(self._text, r"^-?\d+$")).as_py())

    def shown(self) -> Array:
        """Ids as they were given, or row numbers."""
        return np.arange(self.count) if self.ids is None else np.asarray(self.ids)

    def named(self, rows: Ints) -> str:
        """The first of some nodes by their ids, as a message tells them."""
        told = ", ".join(self.text(rows[:_SHOWN]).to_pylist())
        return told + (", …" if len(rows) > _SHOWN else "")

    def text(self, rows: Ints) -> Any:
        """Ids of some nodes as text."""
        return pa.array(rows).cast(pa.string()) if self.ids is None else self._text.take(rows)

    def knows(self, cells: Sequence[str]) -> bool:
        """Whether a row begins with the name of a node, or is that of a class."""
        if self.ids is None:
            return len(cells) == 1 and cells[0] in (self.classes or ())
        return bool(pc.index(self._text, cells[0]).as_py() >= 0)

    def find(self, given: Any, where: object) -> Ints:
        """Rows of the nodes that are named; unknown names are refused."""
        if self.ids is None:
            counted = isinstance(given, np.ndarray) and given.dtype.kind in "iu"
            rows = given.astype(np.int64) if counted else whole(as_text(given), where)
            outside = rows[(rows < 0) | (rows >= self.count)]
            if outside.size:
                raise ValueError(
                    f"{where}: there is no node {quoted(pa.array(outside))}; nodes are rows, "
                    f"numbered 0..{self.count - 1}" + ("" if self.rows_only else _NO_IDS)
                )
            return rows
        text = as_text(given)
        place = pc.index_in(text, value_set=self._text)
        if place.null_count:
            unknown = pc.unique(text.filter(pc.is_null(place)))
            raise ValueError(
                f"{where}: there is no node {quoted(unknown)} among the {self.count:,} nodes of "
                f"the logits (the first is {self._text[0].as_py()!r})"
            )
        return np.asarray(place.to_numpy(), dtype=np.int64)


class Reader:
    """Reads each file once, and knows what the user calls the column of ids."""

    def __init__(self, id_column: str | None, encoding: str | None = None) -> None:
        self.id_column, self.encoding = id_column, encoding
        self.learned: str | None = None  # what the first file calls it
        self.nodes: Nodes | None = None  # once they are known
        self._read: dict[Path, Contents] = {}

    def __call__(self, path: Path, names: Collection[str] | None = None) -> Contents:
        """What a file holds; of a list with such ``names`` for a header, nothing else is one."""
        if path not in self._read:
            header = [name for name in (self.id_column, self.learned) if name is not None]
            is_data = self._is_data(names, header)
            self._read[path] = read_file(
                path, header=header, is_data=is_data, encoding=self.encoding
            )
        return self._read[path]

    def _is_data(self, names: Collection[str] | None, header: Sequence[str]) -> IsData:
        if names is not None:
            return lambda cells: len(cells) == 1 and cells[0].lower() not in (*names, *header)
        return lambda cells: self.nodes is not None and self.nodes.knows(cells)

    def first_name(self, path: Path) -> str | None:
        """Header of the first column of a file whose nodes are not known yet."""
        contents = read_file(path, encoding=self.encoding)
        return contents.names[0] if isinstance(contents, Columns) else None

    def id_of(self, table: Columns, *, needed: bool = False) -> int | None:
        """Position of the column of ids; that of a name the user gave must be there if needed."""
        if self.id_column is None:
            return table.id_column(() if self.learned is None else (self.learned,))
        found = table.find([self.id_column])
        if found is None and self.id_column.isdecimal() and not table.has_header:
            found = int(self.id_column) - 1
        if found is None or not 0 <= found < len(table.values):
            if not needed:
                return table.id_column()
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


def whole(text: Any, where: object) -> Ints:
    """Text as whole numbers."""
    plain = pc.replace_substring_regex(text, r"^\+", "")
    try:
        return np.asarray(plain.cast(pa.int64()), dtype=np.int64)
    except pa.ArrowInvalid:
        is_whole = pc.match_substring_regex(plain, r"^-?\d+$")
        wrong = pc.unique(text.filter(pc.invert(is_whole)))
        raise ValueError(
            f"{where}: {quoted(wrong)} is not a whole number, and the logits have no ids: give "
            "them a column 'id', or give --ids"
        ) from None


def quoted(values: Any) -> str:
    """The first of some values, as a message shows them."""
    shown = ", ".join(repr(value) for value in values[:_SHOWN].to_pylist())
    return shown + (f" (and {len(values) - _SHOWN:,} more)" if len(values) > _SHOWN else "")
