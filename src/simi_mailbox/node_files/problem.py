"""From files to arrays in one order of nodes: ids and text labels are mapped, and remembered."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from simi_mailbox._arrays import Array, Bools, Ints
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError
from simi_mailbox.node_files.columns import (
    ID_NAMES,
    LABEL_NAMES,
    NAMES,
    SETS,
    Columns,
    Contents,
    as_text,
    edge_columns,
    id_column,
    value_columns,
)
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.validation import InputType, both_classes, impossible

_SHOWN = 3
_CLASS_HEADERS = ("name", *NAMES["classes"], "class", "label", "labels")


@dataclass(frozen=True)
class NodeNames:
    """What the nodes, in the order of their rows, and the classes are called.

    ``ids`` [n] are as they were given, or None if nodes are their row numbers; ``classes`` is None
    if these are numbers. ``dropped`` counts names of other nodes by file, unless they are refused.
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


def _set_columns(table: Columns, read: Reader, part: str) -> tuple[Any, ...]:
    """Columns that list nodes, and that say yes or no of them; without the first either may be."""
    position, flag = read.id_of(table), table.find(NAMES[part])
    if position is None and flag is None:
        if len(table.values) > 2 or (len(table.values) == 2 and table.has_header):
            raise ValueError(
                f"{table.path}: which column names the nodes of --{part}? call it 'id' in a header"
            )
        position, flag = (0, 1) if len(table.values) == 2 else (None, 0)
    flag = None if flag == position else flag
    return tuple(None if k is None else table.values[k] for k in (position, flag))


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


def _edges(contents: Contents, path: Path, nodes: NodeNames, _read: Reader, _part: str) -> Any:
    if isinstance(contents, Columns):
        columns = edge_columns(contents.names)
        if columns is None:
            raise ValueError(
                f"{path}: it has {len(contents.values)} columns; an edge is two nodes: call their "
                "columns 'source' and 'target' in a header"
            )
        ends: Any = [contents.values[k] for k in columns]
    else:
        found = one(contents, path, (*NAMES["edges"], "adj_t"))
        if hasattr(found, "tocoo"):
            return found
        ends = np.asarray(found)
        if ends.ndim != 2 or len(ends) != 2:
            raise ValueError(
                f"{path}: an edge index has shape [2, E], got {list(ends.shape)}; transpose it, "
                "or save a matrix of edges by scipy.sparse.save_npz"
            )
    edges = np.stack([_place(end, path, nodes) for end in ends])
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


@dataclass(frozen=True)
class Problem:
    """What was read, in the order of the rows of the first file.

    ``values`` [n, K] are what ``input_type`` says; ``labels`` and ``known`` are −1 where a label
    is not known; ``sets`` holds the nodes of calibration, test and train that were named.
    """

    values: Array
    nodes: NodeNames
    input_type: InputType = "logits"
    sets: dict[str, Ints] = field(default_factory=dict)
    labels: Ints | None = None
    graph: Any = None
    features: Any = None
    hidden: Any = None
    known: Ints | None = None

    def labelled(self, name: str) -> Ints:
        """Nodes of a set that have a label; all labelled nodes if the set was not named."""
        if self.labels is None:
            raise ValueError("labels are missing: give --labels FILE")
        rows = self.sets.get(name, np.arange(self.nodes.count))
        known = rows[self.labels[rows] >= 0]
        if not known.size:
            whose = f"no node of --{name} has a label"
            raise ValueError(whose if name in self.sets else "no label")
        return known


def read_problem(
    source: Path,
    *,
    input_type: InputType = "logits",
    files: Mapping[str, Path | None] | None = None,
    id_column: str | None = None,
    encoding: str | None = None,
    positive: str | None = None,
    drop_unknown: bool = False,
) -> Problem:
    """Read a problem from one file, or from several that agree about what nodes are called.

    A binary ``input_type`` is one score per node, of the second of two classes, which ``positive``
    names where labels are text. ``drop_unknown`` leaves out rows of other files that name nodes
    which the first has not, with a warning that counts them.
    """
    given = {part: path for part, path in (files or {}).items() if path is not None}
    binary, per_class = input_type.startswith("binary-"), input_type.removeprefix("binary-")
    kind = "probabilities" if per_class == "probabilities" else "logits"
    read = Reader(id_column, encoding)
    contents = read(source)
    array, nodes = _values(contents, source, kind, read, given, binary)
    if drop_unknown:
        nodes = replace(nodes, dropped={})
    if binary and nodes.classes is None and ("labels" in given or holds(contents, "labels")):
        labels = given.get("labels", source)
        nodes = replace(nodes, classes=binary_names(read(labels), labels, nodes, read, positive))
    read.nodes = nodes
    parts: dict[str, Any] = {}
    wrong = []
    suspect = kind != "logits" or not np.isfinite(array.sum())
    if suspect and nodes.ids is not None and array.dtype.kind == "f":  # else told by `fit`
        bad, why = impossible(array, kind, np.isneginf(array).all(axis=0))
        why += "" if kind == "logits" else ". If these are logits, say --input-type logits"
        rows = np.flatnonzero(bad)
        wrong += [f"{source}: node {nodes.named(rows)} has {why}"] if len(rows) else []
    for part, read_part in PARTS.items():
        path = given.get(part, source)
        if part not in given and (part == "known" or not holds(contents, part)):
            continue
        try:
            parts[part] = read_part(read(path), path, nodes, read, part)
            if part in ("labels", "known"):
                _check_classes(parts[part], array.shape[1], nodes, path)
        except ValueError as error:  # what is wrong with the others is told as well
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    for where, count in (nodes.dropped or {}).items():
        text = f"{where}: {count:,} names of nodes that are not in {source} were dropped"
        warnings.warn(text, CalibrationWarning, stacklevel=2)
    sets = {part: parts.pop(part) for part in SETS if part in parts}
    graph = parts.pop("edges", None)
    return Problem(array, nodes, per_class, sets, graph=graph, **parts)  # type: ignore[arg-type]


def _values(
    contents: Contents, path: Path, kind: str, read: Reader, files: Mapping[str, Path], binary: bool
) -> tuple[Array, NodeNames]:
    """The numbers of all nodes, and what nodes and classes are called."""
    ids, id_name, classes = None, ID_NAMES[0], None
    if isinstance(contents, Columns):
        position = read.id_of(contents, needed=True)
        array, classes, position = value_columns(contents, kind, position)
        classes = None if binary else classes
        if position is not None:
            read.learned = contents.names[position] or None
            ids, id_name = contents.values[position], read.learned or id_name
    else:
        array = one(contents, path, NAMES[kind])
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
            what = getattr(array, "dtype", type(array).__name__)
            raise ValueError(f"{path}: {kind} must be an array of numbers, got {what}")
        ids = np.asarray(contents["ids"]) if "ids" in contents else None
        if holds(contents, "classes"):
            classes = _class_names(contents, path)
    if "classes" in files:
        classes = _class_names(read(files["classes"], _CLASS_HEADERS), files["classes"])
    if "ids" in files:
        ids = listed_ids(read(files["ids"], ID_NAMES), files["ids"], read)
    if binary:
        array = _both(array, kind, path)
    if array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(
            f"{path}: {kind} must have a column for each of at least two classes, got shape "
            f"{list(array.shape)}; for one score per node say --input-type binary-{kind}"
        )
    count = array.shape[1]
    if classes is not None and len(classes) != count:
        raise ValueError(f"{len(classes)} names of classes for the {count} columns of {path}")
    where = files.get("ids", path)
    if ids is not None and len(ids) != len(array):
        raise ValueError(f"{where}: {len(ids):,} ids for the {len(array):,} rows of {path}")
    try:
        return array, NodeNames(len(array), ids, id_name, classes)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _both(array: Array, kind: str, path: Path) -> Array:
    """Both columns of one score per node."""
    import torch

    score = torch.as_tensor(np.ascontiguousarray(array))
    try:
        return both_classes(score, f"binary-{kind}").numpy()  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _check_classes(labels: Ints, count: int, nodes: NodeNames, path: Path) -> None:
    if labels.max() >= count:
        wrong = np.flatnonzero(labels >= count)
        more = "; count them from 0" if labels.max() == count and not (labels == 0).any() else ""
        raise ValueError(
            f"{path}: node {nodes.named(wrong[:1])} has label {labels[wrong[0]]}, but the classes "
            f"are the columns of the logits, 0..{count - 1}{more}"
        )


def _class_names(contents: Contents, path: Path) -> tuple[str, ...]:
    if isinstance(contents, Columns):
        names = contents.values[contents.find(_CLASS_HEADERS) or 0]
    else:
        names = np.asarray(one(contents, path, NAMES["classes"])).ravel()
    result = tuple(as_text(names).to_pylist())
    if len(set(result)) != len(result):
        raise ValueError(f"{path}: two classes have the same name")
    return result
