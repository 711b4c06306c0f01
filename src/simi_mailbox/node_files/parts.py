"""Labels, sets of nodes, edges and features, by node: from files to arrays in one order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.bundles import NAMES
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import EDGE_NAMES, LABEL_NAMES, Columns, Contents
from simi_mailbox.node_files.nodes import Nodes, Reader, as_text, one, whole

SETS = ("calibration", "test", "train")
_TRUE, _FALSE = ("1", "1.0", "true", "yes", "t"), ("0", "0.0", "false", "no", "f", "")
_UNKNOWN = ("", "-1", "nan", "none", "null", "na")


def holds(contents: Contents, part: str) -> bool:
    """Whether the first file has this part besides its values."""
    if isinstance(contents, Columns):
        names = LABEL_NAMES if part == "labels" else NAMES[part] if part in SETS else ()
        found = contents.find(names)
        return found is not None and not contents.measures(found)
    return any(name in contents for name in NAMES[part])


def _labels(contents: Contents, path: Path, nodes: Nodes, read: Reader, _part: str) -> Ints:
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
    labels = np.full(nodes.count, -1, dtype=np.int64)
    labels[rows] = _class_numbers(given, path, nodes, rows)
    return labels


def _label_columns(table: Columns, nodes: Nodes, read: Reader) -> tuple[Ints, Array]:
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
    rows = nodes.find(table.values[position], table.path)
    _refuse_twice(rows, nodes, table.path)
    return rows, table.values[column]


def _class_numbers(given: Array, path: Path, nodes: Nodes, rows: Ints) -> Ints:
    text = as_text(np.where(np.isnan(given), -1, given) if given.dtype.kind == "f" else given)
    result = np.full(len(text), -1, dtype=np.int64)
    names = nodes.classes or ()
    place = {name: k for k, name in enumerate(names)}
    by_name = np.array([place.get(str(label), -1) for label in text], dtype=np.int64)
    unknown = (by_name < 0) & np.isin(np.char.lower(text), _UNKNOWN)
    if place and (by_name >= 0).sum() + unknown.sum() == len(text):
        return by_name
    try:
        result[~unknown] = whole(text[~unknown], path)
    except ValueError:
        wrong = int(np.flatnonzero((by_name < 0) & ~unknown)[0])
        who = f"label {str(text[wrong])!r} of node {nodes.shown()[rows[wrong]]}"
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


def _node_set(contents: Contents, path: Path, nodes: Nodes, read: Reader, part: str) -> Ints:
    if isinstance(contents, Columns):
        rows = _named_rows(contents, nodes, read, part)
    else:
        rows = _array_rows(np.asarray(one(contents, path, NAMES[part])), path, nodes, part)
    if not rows.size:
        raise ValueError(f"{path}: it names no node for --{part}")
    _refuse_twice(rows, nodes, path)
    return rows


def _named_rows(table: Columns, nodes: Nodes, read: Reader, part: str) -> Ints:
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
        values = table.values[flag]
        if len(values) == nodes.count and _is_mask(values):
            return np.flatnonzero(_truth(values, table.path))
        return nodes.find(values, table.path)
    rows = nodes.find(table.values[position], table.path)
    if flag is None or flag == position:
        return rows
    return rows[_truth(table.values[flag], table.path)]


def _array_rows(array: Array, path: Path, nodes: Nodes, part: str) -> Ints:
    array = array.ravel() if array.ndim == 2 and 1 in array.shape else array
    if array.ndim != 1:
        raise ValueError(f"{path}: a set of nodes has one dimension, got {list(array.shape)}")
    if array.dtype == bool or (len(array) == nodes.count and _is_mask(as_text(array))):
        if len(array) != nodes.count:
            raise ValueError(f"{path}: the mask has {len(array)} entries for {nodes.count} nodes")
        return np.flatnonzero(_truth(array, path))
    if array.dtype.kind == "f" and (array % 1 != 0).any():
        raise ValueError(f"{path}: {part} must be boolean or integer, got {array.dtype}")
    return _place(array, path, nodes)


def _place(array: Array, path: Path, nodes: Nodes) -> Ints:
    """Rows that an array names; whole numbers count rows where ids are words."""
    if array.dtype.kind in "iu" and not nodes.are_numbered:
        nodes = Nodes(nodes.count)
    return nodes.find(array, path)


def _is_mask(values: Array) -> bool:
    """Yes and no for every node: a list of nodes would name one of the two again and again."""
    if values.dtype == bool:
        return True
    seen = np.unique(np.char.lower(as_text(values)))
    return len(values) > 2 and bool(np.isin(seen, (*_TRUE, *_FALSE)).all())


def _truth(values: Array, path: Path) -> Array:
    text = np.char.lower(as_text(values))
    yes = np.isin(text, _TRUE)
    wrong = ~yes & ~np.isin(text, _FALSE)
    if wrong.any():
        raise ValueError(f"{path}: {str(text[wrong][0])!r} is neither yes nor no (1/0, true/false)")
    return yes


def _edges(contents: Contents, path: Path, nodes: Nodes, _read: Reader, _part: str) -> Any:
    if not isinstance(contents, Columns):
        found = one(contents, path, (*NAMES["edges"], "adj_t"))
        if hasattr(found, "tocoo"):
            return found
        array = np.asarray(found)
        if array.ndim != 2 or array.shape[0] != 2:
            turned = "; transpose it" if array.ndim == 2 and array.shape[1] == 2 else ""
            if array.shape == (nodes.count, nodes.count):
                turned = "; save a matrix of edges by scipy.sparse.save_npz"
            raise ValueError(
                f"{path}: an edge index has shape [2, E], got {list(array.shape)}{turned}"
            )
        return np.stack([_place(array[0], path, nodes), _place(array[1], path, nodes)])
    source, target = _edge_columns(contents)
    return np.stack([nodes.find(source, path), nodes.find(target, path)])


def _edge_columns(table: Columns) -> tuple[Array, Array]:
    lower = [name.lower() for name in table.names]
    for first, second in EDGE_NAMES:
        if first in lower and second in lower:
            return table.values[lower.index(first)], table.values[lower.index(second)]
    if len(table.values) == 2:
        return table.values[0], table.values[1]
    if not table.has_header and table.rows == 2:  # an edge index, as numpy.savetxt writes it
        rows = np.stack([as_text(column) for column in table.values], axis=1)
        return rows[0], rows[1]
    raise ValueError(
        f"{table.path}: it has {len(table.values)} columns; an edge is two nodes: call their "
        "columns 'source' and 'target' in a header"
    )


def _features(contents: Contents, path: Path, nodes: Nodes, read: Reader, part: str) -> Any:
    if not isinstance(contents, Columns):
        return one(contents, path, NAMES[part])
    position = read.id_of(contents)
    chosen = [column for k, column in enumerate(contents.values) if k != position]
    try:
        table = np.column_stack([column.astype(np.float64) for column in chosen])
    except ValueError as error:
        raise FileFormatError(f"{path}: {part} must be numbers: {error}") from None
    rows = (
        _in_order(contents, nodes)
        if position is None
        else nodes.find(contents.values[position], path)
    )
    _refuse_twice(rows, nodes, path)
    if len(rows) != nodes.count:
        raise ValueError(f"{path}: {part} of {len(rows):,} of {nodes.count:,} nodes")
    features = np.empty_like(table)
    features[rows] = table
    return features


def _in_order(table: Columns, nodes: Nodes) -> Ints:
    if table.rows != nodes.count:
        raise ValueError(
            f"{table.path}: it has {table.rows:,} rows for {nodes.count:,} nodes; add a column "
            "'id' if it is about some of them"
        )
    return np.arange(nodes.count)


def _refuse_twice(rows: Ints, nodes: Nodes, path: Path) -> None:
    distinct, counts = np.unique(rows, return_counts=True)
    if distinct.size != rows.size:
        twice = nodes.shown()[distinct[counts > 1][0]]
        raise ValueError(f"{path}: it names node {str(twice)!r} twice")


PARTS = {
    "labels": _labels,
    "edges": _edges,
    "features": _features,
    "hidden": _features,
    "known": _labels,
    "calibration": _node_set,
    "test": _node_set,
    "train": _node_set,
}
