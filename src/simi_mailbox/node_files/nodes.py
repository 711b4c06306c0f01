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
    ID_NAMES,
    LABEL_NAMES,
    NAMES,
    Columns,
    Contents,
    as_text,
    edge_columns,
    id_column,
)
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.validation import RANGE_TOLERANCE, ROW_SUM_TOLERANCE

_SHOWN = 3


@dataclass(frozen=True)
class NodeNames:
    """The nodes of a problem in the order of their rows, and what they and the classes are called.

    ``ids`` [n] of NumPy or Arrow are as they were given, or None if nodes are their row numbers;
    ``classes`` is None if these are numbers. ``dropped`` counts names of other nodes by file,
    where these are dropped; else they are refused.
    """

    count: int
    ids: Any = None
    id_name: str = "id"
    classes: tuple[str, ...] | None = None
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

    def shown(self) -> Array:
        """Ids as they were given, or row numbers."""
        return np.arange(self.count) if self.ids is None else np.asarray(self.ids)

    def named(self, rows: Ints) -> str:
        """The first of some nodes by their ids, as a message tells them."""
        return quoted(pa.array(self.shown()[rows]))

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
            known = (rows >= 0) & (rows < self.count)
            unknown = pa.array(rows[~known])
            among = f"; nodes are rows, numbered 0..{self.count - 1}, unless --ids names them"
        else:
            text = as_text(given)
            place = pc.fill_null(pc.index_in(text, value_set=self._text), -1)
            rows = np.asarray(place, dtype=np.int64)
            known = rows >= 0
            unknown = pc.unique(text.filter(pa.array(~known)))
            first = self._text[0].as_py()
            among = f" among the {self.count:,} nodes of the logits (the first is {first!r})"
        if known.all():
            return rows
        if self.dropped is None:
            raise ValueError(f"{where}: there is no node {quoted(unknown)}{among}")
        self.dropped[str(where)] = self.dropped.get(str(where), 0) + int((~known).sum())
        return np.where(known, rows, -1)

    def refuse_twice(self, rows: Ints, path: Path) -> None:
        distinct, counts = np.unique(rows, return_counts=True)
        if distinct.size != rows.size:
            raise ValueError(f"{path}: it names node {self.named(distinct[counts > 1])} twice")


class Reader:
    """Reads each file once, and knows what the user calls the column of ids."""

    def __init__(self, id_column: str | None = None, encoding: str | None = None) -> None:
        self.id_column, self.encoding = id_column, encoding
        self.learned: str | None = None  # what the first file calls it
        self.nodes: NodeNames | None = None  # once they are known
        self._read: dict[Path, Contents] = {}

    def __call__(self, path: Path, names: Collection[str] | None = None) -> Contents:
        """What a file holds; of a list with such ``names`` for a header, nothing else is one."""
        header = [name for name in (self.id_column, self.learned) if name is not None]

        def is_data(cells: Sequence[str]) -> bool:
            if names is not None:
                return len(cells) == 1 and cells[0].lower() not in (*names, *header)
            return self.nodes is not None and self.nodes.knows(cells)

        if path not in self._read:
            self._read[path] = read_file(path, header, is_data, self.encoding)
        return self._read[path]

    def id_of(self, table: Columns, *, needed: bool = False) -> int | None:
        """Position of the column of ids; that of a name the user gave must be there if needed."""
        name = self.id_column
        if name is not None:
            found = table.find([name])
            if found is None and name.isdecimal() and not table.has_header:
                found = int(name) - 1 if 0 < int(name) <= len(table.values) else None
            if found is not None:
                return found
            if needed:
                columns = ", ".join(table.title(k) for k in range(len(table.values)))
                raise ValueError(
                    f"{table.path}: there is no column {name!r} for --id-column among {columns}"
                )
        learned = () if self.learned is None or name is not None else (self.learned,)
        return id_column(table.names, table.path, learned)


def one(contents: dict[str, Any], path: Path, names: Sequence[str]) -> Any:
    """The array that has one of the names, or the only one there is."""
    found = [name for name in names if name in contents]
    if not found and len(contents) == 1:
        return next(iter(contents.values()))
    if len(found) != 1:
        wanted, there = " or ".join(map(repr, names)), ", ".join(contents) or "nothing"
        raise FileFormatError(f"{path}: it must have one array {wanted}; it has: {there}")
    return contents[found[0]]


def listed_ids(contents: Contents, path: Path, read: Reader) -> Any:
    """Ids of all nodes, from a file of their own."""
    if not isinstance(contents, Columns):
        return np.asarray(one(contents, path, ID_NAMES)).ravel()
    position = read.id_of(contents)
    if position is None and len(contents.values) > 1:
        raise FileFormatError(f"{path}: which column names the nodes? call it 'id' in a header")
    return contents.values[position or 0]


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


def _in(text: Any, values: Any) -> Any:
    return pc.is_in(pc.utf8_lower(text), value_set=values)


def holds(contents: Contents, part: str) -> bool:
    """Whether the first file has this part besides its values."""
    if isinstance(contents, Columns):
        names = LABEL_NAMES if part == "labels" else NAMES[part] if part in SETS else ()
        found = contents.find(names)
        return found is not None and not contents.measures(found)
    return any(name in contents for name in NAMES[part])


def impossible(array: Array, kind: str, masked: Any) -> tuple[Any, str]:
    """Rows that no model can have given, and why; a class may be ``masked`` by −inf."""
    if kind == "logits":
        bad = ~np.where(masked, np.isneginf(array), np.isfinite(array)).all(axis=1)
        masking = "a class is masked by −inf on every node or on none"
        return bad, f"logits that are NaN or infinite ({masking})"
    p = array.astype(np.float64)
    p = p if kind == "probabilities" else np.exp(p)
    bad = ~(np.abs(p.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
    bad |= ~((p >= -RANGE_TOLERANCE) & (p <= 1 + RANGE_TOLERANCE)).all(axis=1)
    return bad, f"no {kind}: they lie outside [0, 1] or do not add up to one"


# --- labels ---------------------------------------------------------------------------------------


def binary_names(
    contents: Contents, path: Path, nodes: NodeNames, read: Reader, positive: str | None
) -> tuple[str, str] | None:
    """Names of the two classes of one score, by the labels; None if these are 0 and 1."""
    quiet = replace(nodes, dropped={})  # what is unknown is told where labels are read
    text = _label_texts(contents, path, quiet, read)[1]
    names = pc.unique(text.filter(pc.invert(_in(text, _UNKNOWN)))).to_pylist()
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
    if not isinstance(contents, Columns):
        given = np.asarray(one(contents, path, LABEL_NAMES))
        given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
        if given.shape != (nodes.count,):
            hint = "; of one column per class take argmax(axis=1)" if given.ndim == 2 else ""
            raise ValueError(
                f"{path}: labels have shape {list(given.shape)}; expected one per node, "
                f"[{nodes.count}], −1 where a label is not known{hint}"
            )
        return np.arange(nodes.count), as_text(given)
    position, column = read.id_of(contents), contents.find(LABEL_NAMES)
    if column is None:
        others = [k for k in range(len(contents.values)) if k != position]
        if position is None and len(others) == 2:
            position = others.pop(0)
        if len(others) != 1:
            raise ValueError(f"{path}: which column holds the labels? call it 'label' in a header")
        column = others[0]
    rows = _rows(contents, position, nodes)
    text = as_text(contents.values[column])
    if (rows < 0).any():
        rows, text = rows[rows >= 0], text.filter(pa.array(rows >= 0))
    nodes.refuse_twice(rows, path)
    return rows, text


def _rows(table: Columns, position: int | None, nodes: NodeNames) -> Ints:
    """The nodes that a table is about: as its column of ids says, or all of them in order."""
    if position is not None:
        return nodes.find(table.values[position], table.path)
    if table.rows != nodes.count:
        raise ValueError(
            f"{table.path}: it has {table.rows:,} rows for {nodes.count:,} nodes; add a column "
            "'id' if it is about some of them"
        )
    return np.arange(nodes.count)


def _labels(contents: Contents, path: Path, nodes: NodeNames, read: Reader, _part: str) -> Ints:
    rows, classes = labelled_rows(contents, path, nodes, read)
    labels = np.full(nodes.count, -1, dtype=np.int64)
    labels[rows] = classes
    return labels


def labelled_rows(
    contents: Contents, path: Path, nodes: NodeNames, read: Reader
) -> tuple[Ints, Ints]:
    """Nodes that a file of labels names, each once, and their classes; −1 is unknown."""
    rows, text = _label_texts(contents, path, nodes, read)
    names = nodes.classes or ()
    place = pc.index_in(text, value_set=pa.array(names, pa.string()))
    by_name = np.asarray(pc.fill_null(place, -1), dtype=np.int64)
    unknown = (by_name < 0) & _in(text, _UNKNOWN).to_numpy(zero_copy_only=False)
    if names and ((by_name >= 0) | unknown).all():
        return rows, by_name
    result = np.full(len(text), -1, dtype=np.int64)
    try:
        result[~unknown] = whole(text.filter(pa.array(~unknown)), path)
    except ValueError:
        wrong = np.flatnonzero((by_name < 0) & ~unknown)
        who = f"label {quoted(pc.unique(text.take(wrong)))} of node {nodes.named(rows[wrong[:1]])}"
        why = (
            "is text, and nothing says which column of the logits it is: give --classes FILE with "
            "the names in the order of the columns, or a header to the logits"
        )
        if names:
            why = f"is none of the classes: {', '.join(names[:8])}{', …' * (len(names) > 8)}"
        raise ValueError(f"{path}: {who} {why}") from None
    if (result < -1).any():
        raise ValueError(f"{path}: label {result.min()} is negative; −1 or empty means unknown")
    return rows, result


# --- sets of nodes --------------------------------------------------------------------------------


def node_set(contents: Contents, path: Path, nodes: NodeNames, read: Reader, part: str) -> Ints:
    """Nodes that a file names, each once: a list, or yes and no for every node."""
    if isinstance(contents, Columns):
        listed, truth = _set_columns(contents, read, part)
    else:
        listed, truth = None, np.asarray(one(contents, path, NAMES[part]))
        truth = truth.ravel() if truth.ndim == 2 and 1 in truth.shape else truth
        if truth.ndim != 1:
            raise ValueError(f"{path}: a set of nodes has one dimension, got {list(truth.shape)}")
        if truth.dtype == bool and len(truth) != nodes.count:
            raise ValueError(f"{path}: the mask has {len(truth)} entries for {nodes.count} nodes")
    if listed is None and not (len(truth) == nodes.count and _is_mask(truth)):
        listed, truth = truth, None
    rows = np.arange(nodes.count) if listed is None else _place(listed, path, nodes)
    rows = rows if truth is None else rows[_truth(truth, path)]
    rows = rows[rows >= 0]
    if not rows.size:
        raise ValueError(f"{path}: it names no node for --{part}")
    nodes.refuse_twice(rows, path)
    return rows


def _set_columns(table: Columns, read: Reader, part: str) -> tuple[Any, Any]:
    """Columns that list nodes, and that say yes or no of them; without the first either may be."""
    position, flag = read.id_of(table), table.find(NAMES[part])
    if position is None and flag is None:
        if len(table.values) > 2 or (len(table.values) == 2 and table.has_header):
            raise ValueError(
                f"{table.path}: which column names the nodes of --{part}? call it 'id' in a header"
            )
        position, flag = (0, 1) if len(table.values) == 2 else (None, 0)
    flag = None if flag == position else flag
    listed, truth = (None if k is None else table.values[k] for k in (position, flag))
    return listed, truth


def _place(listed: Any, path: Path, nodes: NodeNames) -> Ints:
    """Rows that are named; whole numbers of an array count rows where ids are words."""
    counted = isinstance(listed, np.ndarray) and listed.dtype.kind in "iu"
    if counted and nodes.ids is not None:
        numbered = pc.all(pc.match_substring_regex(as_text(nodes.ids), r"^-?\d+$")).as_py()
        nodes = nodes if numbered else NodeNames(nodes.count)
    return nodes.find(listed, path)


def _is_mask(listed: Any) -> bool:
    """Yes and no for every node: a list of nodes would name one of the two again and again."""
    if isinstance(listed, np.ndarray) and listed.dtype == bool:
        return True
    seen = pc.unique(as_text(listed))
    return len(listed) > 2 and pc.all(_in(seen, pa.concat_arrays([_TRUE, _FALSE]))).as_py()


def _truth(given: Any, path: Path) -> Bools:
    text = as_text(given)
    yes = _in(text, _TRUE)
    wrong = pc.unique(text.filter(pc.invert(pc.or_(yes, _in(text, _FALSE)))))
    if len(wrong):
        raise ValueError(f"{path}: {quoted(wrong)} is neither yes nor no (1/0, true/false)")
    return np.asarray(yes.to_numpy(zero_copy_only=False))


# --- edges and features ---------------------------------------------------------------------------


def _edges(contents: Contents, path: Path, nodes: NodeNames, _read: Reader, _part: str) -> Any:
    if isinstance(contents, Columns):
        columns = edge_columns(contents.names)
        if columns is None:
            raise ValueError(
                f"{path}: it has {len(contents.values)} columns; an edge is two nodes: call their "
                "columns 'source' and 'target' in a header"
            )
        edges = np.stack([nodes.find(contents.values[k], path) for k in columns])
        return edges[:, (edges >= 0).all(axis=0)]
    found = one(contents, path, (*NAMES["edges"], "adj_t"))
    if hasattr(found, "tocoo"):
        return found
    array = np.asarray(found)
    if array.ndim != 2 or array.shape[0] != 2:
        raise ValueError(
            f"{path}: an edge index has shape [2, E], got {list(array.shape)}; transpose it, or "
            "save a matrix of edges by scipy.sparse.save_npz"
        )
    edges = np.stack([_place(end, path, nodes) for end in array])
    return edges[:, (edges >= 0).all(axis=0)]


def _features(contents: Contents, path: Path, nodes: NodeNames, read: Reader, part: str) -> Any:
    if not isinstance(contents, Columns):
        return one(contents, path, NAMES[part])
    position = read.id_of(contents)
    chosen = [k for k in range(len(contents.values)) if k != position]
    table = np.column_stack([contents.numbers(k) for k in chosen])
    rows = _rows(contents, position, nodes)
    table, rows = table[rows >= 0], rows[rows >= 0]
    nodes.refuse_twice(rows, path)
    if len(rows) != nodes.count:
        raise ValueError(f"{path}: {part} of {len(rows):,} of {nodes.count:,} nodes")
    return table[np.argsort(rows)]


PARTS = {
    "labels": _labels,
    "edges": _edges,
    "features": _features,
    "hidden": _features,
    "known": _labels,
    **dict.fromkeys(SETS, node_set),
}
