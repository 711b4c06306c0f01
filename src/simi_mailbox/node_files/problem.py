"""From files to arrays in one order of nodes: ids and text labels are mapped, and remembered."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.node_files.columns import (
    ID_NAMES,
    NAMES,
    Columns,
    Contents,
    as_text,
    value_columns,
    value_names,
)
from simi_mailbox.node_files.nodes import (
    PARTS,
    SETS,
    NodeNames,
    Reader,
    binary_names,
    holds,
    impossible,
    listed_ids,
    one,
)
from simi_mailbox.validation import InputType, both_classes

_CLASS_HEADERS = ("name", *NAMES["classes"], "class", "label", "labels")


@dataclass(frozen=True)
class Problem:
    """What was read, in the order of the rows of the first file.

    ``values`` [n, K] are what ``input_type`` says, a column for each class; ``labels`` and
    ``known`` are −1 where a label is not known; ``sets`` holds the nodes of calibration, test and
    train, as far as they were named.
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
        position = read.id_of(contents, needed=read.id_column is not None)
        array, classes, position = value_columns(contents, kind, position)
        classes = None if binary else classes
        if position is not None:
            read.learned = contents.names[position] or None
            ids, id_name = contents.values[position], read.learned or id_name
    else:
        array = one(contents, path, value_names(kind))
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
    if ids is not None and len(ids) != len(array):
        raise ValueError(f"{files['ids']}: {len(ids):,} ids for the {len(array):,} rows of {path}")
    try:
        return array, NodeNames(len(array), ids, id_name, classes)
    except ValueError as error:
        raise ValueError(f"{files.get('ids', path)}: {error}") from None


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
