"""What nodes are called, and their labels, sets, edges and features: from files to one order."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simi_mailbox._arrays import Array, Bools, Ints
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import (
    LABEL_NAMES,
    NAMES,
    Columns,
    Contents,
    as_text,
    edge_columns,
)
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.node_files.text_tables import IsData

_SHOWN = 3
_NO_IDS = ", because the logits have no column 'id' (name it with --id-column, or give --ids)"


@dataclass(frozen=True)
class NodeNames:
    """The nodes of a problem in the order of their rows, and what they and the classes are called.

    ``ids`` [n] of NumPy or Arrow are as they were given, or None if nodes are their row numbers,
    which they always are if ``rows_only``. ``classes`` is None if these are numbers. ``dropped``
    counts names of other nodes by file, where these are dropped; else they are refused.
    """

    count: int
    ids: Any = None
    id_name: str = "id"
    classes: tuple[str, ...] | None = None
    rows_only: bool = False
    dropped: dict[str, int] | None = None

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
        """Rows of the nodes that are named; unknown names are refused, or −1 and counted."""
        if self.ids is None:
            counted = isinstance(given, np.ndarray) and given.dtype.kind in "iu"
            rows = given.astype(np.int64) if counted else whole(as_text(given), where)
            outside = rows[(rows < 0) | (rows >= self.count)]
            if outside.size and self.dropped is not None:
                return self._without(np.where((rows < 0) | (rows >= self.count), -1, rows), where)
            if outside.size:
                raise ValueError(
                    f"{where}: there is no node {quoted(pa.array(outside))}; nodes are rows, "
                    f"numbered 0..{self.count - 1}" + ("" if self.rows_only else _NO_IDS)
                )
            return rows
        text = as_text(given)
        place = pc.index_in(text, value_set=self._text)
        if place.null_count and self.dropped is not None:
            found = np.asarray(pc.fill_null(place, -1).to_numpy(zero_copy_only=False))
            return self._without(found.astype(np.int64), where)
        if place.null_count:
            unknown = pc.unique(text.filter(pc.is_null(place)))
            raise ValueError(
                f"{where}: there is no node {quoted(unknown)} among the {self.count:,} nodes of "
                f"the logits (the first is {self._text[0].as_py()!r})"
            )
        return np.asarray(place.to_numpy(), dtype=np.int64)

    def _without(self, rows: Ints, where: object) -> Ints:
        assert self.dropped is not None
        self.dropped[str(where)] = self.dropped.get(str(where), 0) + int((rows < 0).sum())
        return rows


class Reader:
    """Reads each file once, and knows what the user calls the column of ids."""

    def __init__(self, id_column: str | None, encoding: str | None = None) -> None:
        self.id_column, self.encoding = id_column, encoding
        self.learned: str | None = None  # what the first file calls it
        self.nodes: NodeNames | None = None  # once they are known
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


SETS = ("calibration", "test", "train")
_TRUE = pa.array(["1", "1.0", "true", "yes", "t"])
_FALSE = pa.array(["0", "0.0", "false", "no", "f", ""])
_UNKNOWN = pa.array(["", "-1", "nan", "none", "null", "na"])


def holds(contents: Contents, part: str) -> bool:
    """Whether the first file has this part besides its values."""
    if isinstance(contents, Columns):
        names = LABEL_NAMES if part == "labels" else NAMES[part] if part in SETS else ()
        found = contents.find(names)
        return found is not None and not contents.measures(found)
    return any(name in contents for name in NAMES[part])


def labelled_rows(
    contents: Contents, path: Path, nodes: NodeNames, read: Reader
) -> tuple[Ints, Ints]:
    """Nodes that a file of labels names, each once, and their classes; −1 is unknown."""
    rows, text = _label_texts(contents, path, nodes, read)
    return rows, _class_numbers(text, path, nodes, rows)


def binary_names(
    contents: Contents, path: Path, nodes: NodeNames, read: Reader, positive: str | None
) -> tuple[str, str] | None:
    """Names of the two classes of one score, by the labels; None if these are 0 and 1."""
    quiet = replace(nodes, dropped={})  # what is unknown is told where labels are read
    text = _label_texts(contents, path, quiet, read)[1]
    known = text.filter(pc.invert(pc.is_in(pc.utf8_lower(text), value_set=_UNKNOWN)))
    names = pc.unique(known).to_pylist()
    if set(names) <= {"0", "1"}:
        return None
    if positive is None or positive not in names or len(names) > 2:
        raise ValueError(
            f"{path}: of the labels {quoted(pa.array(names))} one must be the class of the score, "
            "and one the other: say --positive NAME, or give --classes FILE with both names"
        )
    return next((name for name in names if name != positive), f"not {positive}"), positive


def _label_texts(
    contents: Contents, path: Path, nodes: NodeNames, read: Reader
) -> tuple[Ints, Any]:
    if isinstance(contents, Columns):
        rows, given = _label_columns(contents, nodes, read)
    else:
        given = np.asarray(one(contents, path, LABEL_NAMES))
        given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
        if given.shape != (nodes.count,):
            hint = "; of one column per class take argmax(axis=1)" if given.ndim == 2 else ""
            raise ValueError(
                f"{path}: labels have shape {list(given.shape)}; expected one per node, "
                f"[{nodes.count}], −1 where a label is not known{hint}"
            )
        rows = np.arange(nodes.count)
    return rows, as_text(given)


def _labels(contents: Contents, path: Path, nodes: NodeNames, read: Reader, _part: str) -> Ints:
    rows, classes = labelled_rows(contents, path, nodes, read)
    labels = np.full(nodes.count, -1, dtype=np.int64)
    labels[rows] = classes
    return labels


def _label_columns(table: Columns, nodes: NodeNames, read: Reader) -> tuple[Ints, Any]:
    position, count = read.id_of(table), len(table.values)
    column = table.find(LABEL_NAMES)
    if position is None and column is None and count == 2:
        position, column = 0, 1
    if column is None:
        others = [k for k in range(count) if k != position]
        if len(others) != 1:
            raise ValueError(
                f"{table.path}: which column holds the labels? call it 'label' in a header"
            )
        column = others[0]
    if position is None:
        return _in_order(table, nodes), table.values[column]
    rows, values = _known(nodes.find(table.values[position], table.path), table.values[column])
    refuse_twice(rows, nodes, table.path)
    return rows, values


def _known(rows: Ints, values: Any) -> tuple[Ints, Any]:
    """Without those of unknown nodes, which are −1."""
    if (rows >= 0).all():
        return rows, values
    return rows[rows >= 0], as_text(values).filter(pa.array(rows >= 0))


def _class_numbers(text: Any, path: Path, nodes: NodeNames, rows: Ints) -> Ints:
    names = nodes.classes or ()
    place = pc.index_in(text, value_set=pa.array(names, pa.string()))
    by_name = np.asarray(pc.fill_null(place, -1), dtype=np.int64)
    empty = pc.is_in(pc.utf8_lower(text), value_set=_UNKNOWN)
    unknown = (by_name < 0) & empty.to_numpy(zero_copy_only=False)
    if names and ((by_name >= 0) | unknown).all():
        return by_name
    result = np.full(len(text), -1, dtype=np.int64)
    try:
        result[~unknown] = whole(text.filter(pa.array(~unknown)), path)
    except ValueError:
        wrong = np.flatnonzero((by_name < 0) & ~unknown)
        who = f"label {quoted(text.take(wrong[:1]))} of node {nodes.named(rows[wrong[:1]])}"
        others = pc.unique(text.take(wrong))[1:]
        who += f" (and {quoted(others)})" if len(others) else ""
        if names:
            known = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise ValueError(f"{path}: {who} is none of the classes: {known}") from None
        raise ValueError(
            f"{path}: {who} is text, and nothing says which column of the logits it is: give "
            "--classes FILE with the names in the order of the columns, or a header to the logits"
        ) from None
    if (result < -1).any():
        raise ValueError(f"{path}: label {result.min()} is negative; −1 or empty means unknown")
    return result


def node_set(contents: Contents, path: Path, nodes: NodeNames, read: Reader, part: str) -> Ints:
    """Nodes that a file names, each once: a list, or yes and no for every node."""
    if isinstance(contents, Columns):
        rows = _named_rows(contents, nodes, read, part)
    else:
        rows = _array_rows(np.asarray(one(contents, path, NAMES[part])), path, nodes, part)
    if not rows.size:
        raise ValueError(f"{path}: it names no node for --{part}")
    refuse_twice(rows, nodes, path)
    return rows


def _named_rows(table: Columns, nodes: NodeNames, read: Reader, part: str) -> Ints:
    """Rows of the nodes that a table names: by a column of yes and no, or by listing ids."""
    position, flag = read.id_of(table), table.find(NAMES[part])
    if position is None and flag is None:
        if len(table.values) > 2 or (len(table.values) == 2 and table.has_header):
            raise ValueError(
                f"{table.path}: which column names the nodes of --{part}? call it 'id' in a header"
            )
        position, flag = (0, 1) if len(table.values) == 2 else (None, 0)
    if position is None:
        assert flag is not None
        values = as_text(table.values[flag])
        if len(values) == nodes.count and _is_mask(values):
            return np.flatnonzero(_truth(values, table.path))
        rows = nodes.find(values, table.path)
        return rows[rows >= 0]
    rows = nodes.find(table.values[position], table.path)
    if flag is not None and flag != position:
        rows = rows[_truth(as_text(table.values[flag]), table.path)]
    return rows[rows >= 0]


def _array_rows(array: Array, path: Path, nodes: NodeNames, part: str) -> Ints:
    array = array.ravel() if array.ndim == 2 and 1 in array.shape else array
    if array.ndim != 1:
        raise ValueError(f"{path}: a set of nodes has one dimension, got {list(array.shape)}")
    if array.dtype == bool:
        if len(array) != nodes.count:
            raise ValueError(f"{path}: the mask has {len(array)} entries for {nodes.count} nodes")
        return np.flatnonzero(array)
    if array.dtype.kind in "iuf" and len(array) == nodes.count > 2:
        if ((array == 0) | (array == 1)).all():
            return np.flatnonzero(array)
    elif len(array) == nodes.count and _is_mask(as_text(array)):
        return np.flatnonzero(_truth(as_text(array), path))
    if array.dtype.kind == "f" and (array % 1 != 0).any():
        raise ValueError(f"{path}: {part} must be boolean or integer, got {array.dtype}")
    rows = _place(array, path, nodes)
    return rows[rows >= 0]


def _place(array: Array, path: Path, nodes: NodeNames) -> Ints:
    """Rows that an array names; whole numbers count rows where ids are words."""
    if array.dtype.kind in "iu" and not nodes.are_numbered:
        nodes = NodeNames(nodes.count)
    return nodes.find(array, path)


def _is_mask(text: Any) -> bool:
    """Yes and no for every node: a list of nodes would name one of the two again and again."""
    seen = pc.unique(pc.utf8_lower(text))
    both = pa.concat_arrays([_TRUE, _FALSE])
    return len(text) > 2 and bool(pc.all(pc.is_in(seen, value_set=both)).as_py())


def _truth(text: Any, path: Path) -> Bools:
    lower = pc.utf8_lower(text)
    yes, no = pc.is_in(lower, value_set=_TRUE), pc.is_in(lower, value_set=_FALSE)
    wrong = pc.unique(text.filter(pc.invert(pc.or_(yes, no))))
    if len(wrong):
        raise ValueError(f"{path}: {quoted(wrong)} is neither yes nor no (1/0, true/false)")
    return np.asarray(yes.to_numpy(zero_copy_only=False))


def _edges(contents: Contents, path: Path, nodes: NodeNames, _read: Reader, _part: str) -> Any:
    if isinstance(contents, Columns):
        ends = _edge_ends(contents)
        return _both_known(np.stack([nodes.find(end, path) for end in ends]))
    found = one(contents, path, (*NAMES["edges"], "adj_t"))
    if hasattr(found, "tocoo"):
        return found
    array = np.asarray(found)
    if array.ndim != 2 or array.shape[0] != 2:
        turned = "; transpose it" if array.ndim == 2 and array.shape[1] == 2 else ""
        if array.shape == (nodes.count, nodes.count):
            turned = "; save a matrix of edges by scipy.sparse.save_npz"
        raise ValueError(f"{path}: an edge index has shape [2, E], got {list(array.shape)}{turned}")
    return _both_known(np.stack([_place(end, path, nodes) for end in array]))


def _both_known(edges: Ints) -> Ints:
    return edges[:, (edges >= 0).all(axis=0)]


def _edge_ends(table: Columns) -> tuple[Any, Any]:
    columns = edge_columns(table.names)
    if columns is not None:
        return table.values[columns[0]], table.values[columns[1]]
    if not table.has_header and table.rows == 2:  # an edge index, as numpy.savetxt writes it
        rows = zip(*(as_text(column).to_pylist() for column in table.values), strict=True)
        source, target = (pa.array(row) for row in rows)
        return source, target
    raise ValueError(
        f"{table.path}: it has {len(table.values)} columns; an edge is two nodes: call their "
        "columns 'source' and 'target' in a header"
    )


def _features(contents: Contents, path: Path, nodes: NodeNames, read: Reader, part: str) -> Any:
    if not isinstance(contents, Columns):
        return one(contents, path, NAMES[part])
    position = read.id_of(contents)
    chosen = [k for k in range(len(contents.values)) if k != position]
    table = np.column_stack([contents.numbers(k) for k in chosen])
    rows = (
        _in_order(contents, nodes)
        if position is None
        else nodes.find(contents.values[position], path)
    )
    table, rows = table[rows >= 0], rows[rows >= 0]
    refuse_twice(rows, nodes, path)
    if len(rows) != nodes.count:
        raise ValueError(f"{path}: {part} of {len(rows):,} of {nodes.count:,} nodes")
    features = np.empty_like(table)
    features[rows] = table
    return features


def _in_order(table: Columns, nodes: NodeNames) -> Ints:
    if table.rows != nodes.count:
        raise ValueError(
            f"{table.path}: it has {table.rows:,} rows for {nodes.count:,} nodes; add a column "
            "'id' if it is about some of them"
        )
    return np.arange(nodes.count)


def refuse_twice(rows: Ints, nodes: NodeNames, path: Path) -> None:
    """Raise for nodes that are named more than once."""
    distinct, counts = np.unique(rows, return_counts=True)
    if distinct.size != rows.size:
        twice = quoted(nodes.text(distinct[counts > 1]))
        raise ValueError(f"{path}: it names node {twice} twice")


PARTS = {
    "labels": _labels,
    "edges": _edges,
    "features": _features,
    "hidden": _features,
    "known": _labels,
    **dict.fromkeys(SETS, node_set),
}
