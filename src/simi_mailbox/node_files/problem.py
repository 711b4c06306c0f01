"""From files to arrays in one order of nodes: ids and text labels are mapped, and remembered."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError
from simi_mailbox.node_files.columns import (
    ID_NAMES,
    NAMES,
    PROBABILITY_NAMES,
    Columns,
    Contents,
    as_text,
    is_number,
)
from simi_mailbox.node_files.nodes import (
    PARTS,
    SETS,
    NodeNames,
    Reader,
    binary_names,
    holds,
    one,
)
from simi_mailbox.node_files.scores import (
    NOT_SCORES,
    WRITTEN,
    check_scores,
    impossible_values,
    score_columns,
)
from simi_mailbox.validation import both_classes

Values = Literal["logits", "probabilities"]
_CLASS_HEADERS = ("name", *NAMES["classes"], "class", "label", "labels")


@dataclass(frozen=True)
class Problem:
    """What was read, in the order of the rows of the first file.

    ``values`` [n, K] are logits or probabilities; ``labels`` and ``known`` are −1 where a label is
    not known; ``sets`` holds the nodes of calibration, test and train, as far as they were named.
    """

    values: Array
    nodes: NodeNames
    labels: Ints | None = None
    sets: dict[str, Ints] = field(default_factory=dict)
    graph: Any = None
    features: Any = None
    hidden: Any = None
    known: Ints | None = None

    def labelled(self, name: str) -> Ints:
        """Nodes of a set that have a label; all labelled nodes if the set was not named."""
        if self.labels is None:
            raise ValueError("labels are missing: give --labels FILE")
        rows = self.sets.get(name)
        if rows is None:
            rows = np.arange(self.nodes.count)
        known = rows[self.labels[rows] >= 0]
        if not known.size:
            raise ValueError(
                f"no node of --{name} has a label" if name in self.sets else "no label"
            )
        return known


def read_problem(
    source: Path,
    *,
    values: Values = "logits",
    files: Mapping[str, Path | None] | None = None,
    id_column: str | None = None,
    classes: Sequence[str] | None = None,
    encoding: str | None = None,
    binary: bool = False,
    positive: str | None = None,
    drop_unknown: bool = False,
) -> Problem:
    """Read a problem from one file, or from several that agree about what nodes are called.

    ``binary``: the first file holds one score per node, of the second of two classes, which
    ``positive`` names where labels are text. ``drop_unknown`` leaves out rows of other files that
    name nodes which the first has not, with a warning that counts them.
    """
    given = {part: path for part, path in (files or {}).items() if path is not None}
    read = Reader(id_column, encoding)
    contents = read(source)
    if classes is None and "classes" in given:
        classes = _class_names(read(given["classes"], _CLASS_HEADERS), given["classes"])
    array, nodes = _values(contents, source, values, read, given, classes, binary=binary)
    if drop_unknown:
        nodes = replace(nodes, dropped={})
    if binary and nodes.classes is None and ("labels" in given or holds(contents, "labels")):
        labels = given.get("labels", source)
        nodes = replace(nodes, classes=binary_names(read(labels), labels, nodes, read, positive))
    read.nodes = nodes
    parts: dict[str, Any] = {}
    wrong = impossible_values(array, nodes, source, values)
    for part in PARTS:
        path = given.get(part, source)
        if part not in given and (part == "known" or not holds(contents, part)):
            continue
        try:
            parts[part] = PARTS[part](read(path), path, nodes, read, part)
            if PARTS[part] is PARTS["labels"]:
                _check_classes(parts[part], array.shape[1], nodes, path)
        except ValueError as error:  # what is wrong with the others is told as well
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    for where, count in (nodes.dropped or {}).items():
        warnings.warn(
            f"{where}: {count:,} names of nodes that are not in {source} were dropped",
            CalibrationWarning,
            stacklevel=2,
        )
    return Problem(
        array,
        nodes,
        labels=parts.get("labels"),
        sets={part: parts[part] for part in SETS if part in parts},
        graph=parts.get("edges"),
        features=parts.get("features"),
        hidden=parts.get("hidden"),
        known=parts.get("known"),
    )


def _values(
    contents: Contents,
    path: Path,
    kind: Values,
    read: Reader,
    files: Mapping[str, Path],
    classes: Sequence[str] | None,
    *,
    binary: bool,
) -> tuple[Array, NodeNames]:
    ids: Any = None
    id_name = ID_NAMES[0]
    if isinstance(contents, Columns):
        position = read.id_of(contents, needed=read.id_column is not None)
        if position is None and _is_shared(contents, read, files):
            position = 0
        array, names, position = _value_columns(contents, kind, position)
        if position is not None:
            ids, id_name = contents.values[position], contents.names[position] or id_name
            read.learned = contents.names[position] or None
        classes = names if classes is None and not binary else classes
    else:
        array = _value_array(contents, path, kind)
        if "ids" in contents:
            ids = np.asarray(contents["ids"])
        if classes is None and holds(contents, "classes"):
            classes = _class_names(contents, path)
    if binary:
        array = _both(array, path, kind)
    if array.ndim != 2:
        raise ValueError(
            f"{path}: {kind} must have shape [nodes, classes], got {list(array.shape)}"
        )
    if array.shape[1] < 2:
        raise ValueError(
            f"{path}: it has one column of {kind}, and calibration needs at least two classes; for "
            f"a model with one score per node say --input-type binary-{kind}"
        )
    ids_file = files.get("ids")
    if ids_file is not None:
        ids = _ids(read(ids_file, ID_NAMES), ids_file, read)
    if ids is not None and len(ids) != len(array):
        raise ValueError(
            f"{ids_file or path}: {len(ids):,} ids for the {len(array):,} rows of {path}"
        )
    if classes is not None and len(classes) != array.shape[1]:
        raise ValueError(
            f"{len(classes)} names of classes for the {array.shape[1]} columns of {path}"
        )
    names_ = None if classes is None else tuple(str(name) for name in classes)
    try:
        return array, NodeNames(len(array), ids, id_name, names_)
    except ValueError as error:
        raise ValueError(f"{ids_file or path}: {error}") from None


def _both(array: Array, path: Path, kind: Values) -> Array:
    """Both columns of one score per node."""
    import torch

    try:
        score = torch.as_tensor(np.ascontiguousarray(array))
        if kind == "logits":
            return both_classes(score, "binary-logits").numpy()
        return both_classes(score, "binary-probabilities").numpy()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _is_shared(table: Columns, read: Reader, files: Mapping[str, Path]) -> bool:
    """Whether the first column has a name under which all other tables of nodes begin, too."""
    others = [path for part, path in files.items() if part not in ("edges", "classes", "ids")]
    first = table.names[0]
    if not first or first.lower() in NOT_SCORES or not others or table.measures(0):
        return False
    return all(read.first_name(path) in (first, None) for path in others) and any(
        read.first_name(path) == first for path in others
    )


def _value_columns(
    table: Columns, kind: Values, position: int | None
) -> tuple[Array, tuple[str, ...] | None, int | None]:
    """Columns of logits or probabilities, the classes they name, and the column of ids."""
    lists = table.find(PROBABILITY_NAMES if kind == "probabilities" else NAMES["logits"])
    if lists is not None and table.is_list(lists):
        return table.matrix(lists), None, position
    chosen, prefixed = score_columns(table.names, position, table.measures, kind)
    chosen = [k for k in chosen if not table.is_list(k)]
    if kind == "logits" and not prefixed and set(WRITTEN) <= set(table.names):
        raise ValueError(
            f"{table.path}: it holds probabilities as they are written here (columns p_…), not "
            "logits: say --input-type probabilities"
        )
    if prefixed and position is None and len(chosen) == len(prefixed) + 1:
        position = next(k for k in chosen if k not in prefixed)
    chosen = prefixed or chosen
    if position is None and chosen[:1] == [0] and len(chosen) > 1:
        position = _maybe_ids(table)
        chosen = [k for k in chosen if k != position]
    if not chosen:
        raise FileFormatError(f"{table.path}: it has no columns of {kind}")
    array = check_scores(table, chosen, guess=not prefixed)
    names = None
    if table.has_header:
        names = tuple(table.names[k] for k in chosen)
        if prefixed:
            names = tuple(name.split("_", 1)[1] for name in names)
        if names == tuple(str(k) for k in range(len(names))):
            names = None
    return array, names, position


def _check_classes(labels: Ints, count: int, nodes: NodeNames, path: Path) -> None:
    if labels.max() >= count:
        wrong = np.flatnonzero(labels >= count)
        more = "; count them from 0" if labels.max() == count and not (labels == 0).any() else ""
        raise ValueError(
            f"{path}: node {nodes.named(wrong[:1])} has label {labels[wrong[0]]}, but the classes "
            f"are the columns of the logits, 0..{count - 1}{more}"
        )


def _maybe_ids(table: Columns) -> int | None:
    """A first column of words names the nodes; one of whole numbers might, and is asked about."""
    first = as_text(table.values[0])
    if not all(is_number(cell) for cell in first.unique().to_pylist() if cell):
        return 0
    counts = len(table.values) > 2 and all(map(table.measures, range(1, len(table.values))))
    if counts and not table.measures(0) and len(first.unique()) == len(first) > 1:
        raise ValueError(
            f"{table.path}: its first column holds different whole numbers, the others do not: if "
            f"it names the nodes, say --id-column {table.title(0)}, or give the file a header "
            "(id, …)"
        )
    return None


def _value_array(contents: dict[str, Any], path: Path, kind: Values) -> Array:
    names = PROBABILITY_NAMES if kind == "probabilities" else NAMES["logits"]
    found = one(contents, path, names)
    if not isinstance(found, np.ndarray):
        raise ValueError(f"{path}: {kind} must be an array, got a {type(found).__name__}")
    if found.dtype.kind not in "fiu":
        raise ValueError(f"{path}: {kind} must be numbers, got an array of {found.dtype}")
    return found


def _ids(contents: Contents, path: Path, read: Reader) -> Any:
    if isinstance(contents, Columns):
        position = read.id_of(contents)
        if position is None and len(contents.values) > 1:
            raise ValueError(f"{path}: which column names the nodes? say --id-column NAME")
        return contents.values[position or 0]
    return np.asarray(one(contents, path, ID_NAMES)).ravel()


def _class_names(contents: Contents, path: Path) -> tuple[str, ...]:
    if isinstance(contents, Columns):
        names = contents.values[contents.find(_CLASS_HEADERS) or 0]
    else:
        names = np.asarray(one(contents, path, NAMES["classes"])).ravel()
    result = tuple(as_text(names).to_pylist())
    if len(set(result)) != len(result):
        raise ValueError(f"{path}: two classes have the same name")
    return result
