"""From a folder of shards to blocks of logits, and to the labels of a few nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import read_npy
from simi_mailbox.inputs import (
    RANGE_TOLERANCE,
    ROW_SUM_TOLERANCE,
    InputType,
    are_probabilities,
    read_index,
    read_logits,
)
from simi_mailbox.node_files import read_file
from simi_mailbox.node_files.columns import ID_NAMES, LABEL_NAMES, Columns
from simi_mailbox.scale.plan import Plan
from simi_mailbox.scale.shards import Shards, read_vector, shape_of
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import name
from simi_mailbox.softmax import row_blocks, top_gaps


@dataclass(frozen=True)
class Folder:
    """A folder of shards: ``logits/``, ``edges/``, perhaps ``hidden/``, and files of labels and
    nodes."""

    path: Path
    logits: Shards
    edges: Shards
    hidden: Shards | None = None

    @classmethod
    def open(cls, path: Path) -> Folder:
        if not path.is_dir():
            raise FileNotFoundError(f"there is no folder {path}")
        logits, edges = Shards.open(path / "logits"), Shards.open(path / "edges", edges=True)
        hidden = Shards.open(path / "hidden") if (path / "hidden").exists() else None
        if hidden is not None and hidden.rows != logits.rows:
            raise FileFormatError(
                f"{path / 'hidden'}: it has {hidden.rows:,} rows, but there are {logits.rows:,} "
                "nodes (rows of logits)"
            )
        return cls(path, logits, edges, hidden)

    def nodes(self, part: str) -> Ints | None:
        """The nodes of ``part.*``: numbers, or a boolean for every node."""
        path = file_of(self.path, part)
        return None if path is None else nodes_in(path, self.logits.rows, part)

    def labels(self, nodes: Ints, *, unknown: bool = False) -> Ints:
        """Labels of some nodes; no other is kept, or looked at where the file has one per node.

        ``unknown``: whether a label may be missing, or negative, and then is −1.
        """
        path = file_of(self.path, "labels")
        if path is None:
            raise FileNotFoundError(
                f"there is no file {self.path / 'labels.*'} (.npy, .parquet, …)"
            )
        return self._labels_in(path, nodes, unknown)

    def known(self, path: Path | None = None) -> tuple[Ints, Ints] | None:
        """Nodes and labels of a file, or else of ``known.*``, if there is one; like labels."""
        path = file_of(self.path, "known") if path is None else path
        if path is None:
            return None
        if is_vector(path):
            parts = [start + np.flatnonzero(part >= 0) for start, part in read_vector(path)]
            nodes = np.concatenate([np.empty(0, dtype=np.int64), *parts])
        else:
            nodes, y = _listed(path, self.logits.rows)
            nodes = _checked(path, nodes[~(y < 0)], self.logits.rows, "known", empty=True)
        return nodes, self._labels_in(path, nodes, unknown=False)

    def _labels_in(self, path: Path, nodes: Ints, unknown: bool) -> Ints:
        count = self.logits.rows
        if is_vector(path):
            _check_length(path, count)
            y = np.empty(len(nodes), dtype=np.float64)
            for start, part in read_vector(path):
                here = (nodes >= start) & (nodes < start + len(part))
                y[here] = part[nodes[here] - start]
        else:
            y = _listed_labels(path, nodes, count, unknown)
        return _as_classes(path, nodes, y, self.logits.columns, unknown)

    def identity(self) -> list[Any]:
        """What changes when the graph, the logits or the hidden layer do."""
        parts = [self.logits, self.edges, *([] if self.hidden is None else [self.hidden])]
        return [part.identity() for part in parts]


def file_of(folder: Path, part: str) -> Path | None:
    """The one file ``part.*`` of a folder, if there is one."""
    found = sorted(f for f in folder.glob(f"{part}.*") if f.is_file())
    if len(found) > 1:
        raise ValueError(f"{folder} holds both {found[0].name} and {found[1].name}: keep one")
    return found[0] if found else None


def nodes_in(path: Path, count: int, part: str) -> Ints:
    """The nodes that a file names, of ``count``."""
    return _checked(path, _node_numbers(path, count), count, part)


def label_runs(
    path: Path, count: int, classes: int, spans: Iterable[tuple[int, int]]
) -> Iterator[Ints]:
    """Labels of runs of nodes, −1 where there is none; a file of one per node is read by runs."""
    if is_vector(path):
        _check_length(path, count)
        for start, stop in spans:
            y = np.concatenate([part for _, part in read_vector(path, start, stop)])
            nodes = np.arange(start, stop)
            yield _as_classes(path, nodes, y.astype(np.float64), classes, unknown=True)
        return
    listed, y = _listed(path, count)
    order = np.argsort(_checked(path, listed, count, "labels"))
    listed, found = listed[order], _as_classes(path, listed, y, classes, unknown=True)[order]
    for start, stop in spans:
        low, high = np.searchsorted(listed, [start, stop])
        run = np.full(stop - start, -1, dtype=np.int64)
        run[listed[low:high] - start] = found[low:high]
        yield run


def is_vector(path: Path) -> bool:
    """Whether a file holds one number per node, of which runs can be read."""
    return path.suffix == ".npy" and len(shape_of(path)) == 1


def _check_length(path: Path, count: int) -> None:
    if shape_of(path)[0] != count:
        raise ValueError(f"{path}: {shape_of(path)[0]:,} labels for {count:,} nodes")


def _checked(path: Path, nodes: Array, count: int, part: str, *, empty: bool = False) -> Ints:
    try:
        return read_index(nodes, count, part, empty=empty)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _as_classes(path: Path, nodes: Ints, y: Floats, classes: int, unknown: bool) -> Ints:
    """Labels as whole numbers; −1 where they are negative, if they may be ``unknown``."""
    if unknown:
        y = np.where(y < 0, -1.0, y)
    wrong = np.flatnonzero(((y != np.rint(y)) | (y < 0) | (y >= classes)) & ~(unknown & (y == -1)))
    if len(wrong):
        raise ValueError(
            f"{path}: node {nodes[wrong[0]]} has label {y[wrong[0]]:.15g}, but the classes are "
            f"0..{classes - 1}"
        )
    return y.astype(np.int64)


def _node_numbers(path: Path, count: int) -> Array:
    if path.suffix == ".npy":
        if is_vector(path) and shape_of(path)[0] == count:
            parts = [
                (start + np.flatnonzero(part)) if part.dtype == np.bool_ else part
                for start, part in read_vector(path)
            ]
            return np.concatenate(parts)
        return read_npy(path)
    contents = read_file(path)
    if isinstance(contents, Columns):
        column = contents.values[contents.find(ID_NAMES) or 0]
        return column.astype(np.int64) if column.dtype.kind == "U" else column
    if len(contents) != 1:
        raise FileFormatError(f"{path}: it holds several arrays; save one")
    return np.asarray(next(iter(contents.values())))


def _listed(path: Path, count: int) -> tuple[Ints, Floats]:
    """Nodes and labels of a table of both, [m, 2], or of one label per node."""
    if path.suffix == ".npy":
        found = read_npy(path)
        if found.ndim != 2 or found.shape[1] != 2:
            raise FileFormatError(
                f"{path}: it has shape {list(found.shape)}; expected one label per node, or rows "
                "(node, label)"
            )
        listed, y = found.T
    else:
        contents = read_file(path)
        if not isinstance(contents, Columns):
            raise FileFormatError(f"{path}: labels are a .npy file or a table (.parquet, .csv)")
        ids, label = contents.find(ID_NAMES), contents.find(LABEL_NAMES)
        y = contents.values[len(contents.values) - 1 if label is None else label]
        listed = np.arange(len(y)) if ids is None else contents.values[ids]
        if ids is None and len(y) != count:
            raise ValueError(f"{path}: {len(y):,} labels for {count:,} nodes, and no column 'id'")
    return listed.astype(np.int64), y.astype(np.float64)


def _listed_labels(path: Path, nodes: Ints, count: int, unknown: bool) -> Floats:
    """The labels of some nodes, from a table."""
    listed, y = _listed(path, count)
    order = np.argsort(listed, kind="stable")
    at = np.searchsorted(listed, nodes, sorter=order).clip(max=max(0, len(order) - 1))
    missing = listed[order[at]] != nodes if len(order) else np.ones(len(nodes), dtype=bool)
    if missing.any() and not unknown:
        raise ValueError(f"{path}: node {nodes[missing][0]} has no label")
    return np.where(missing, -1.0, y[order[at]] if len(order) else -1.0)


# --- logits, block by block -----------------------------------------------------------------------


def read_block(
    store: Store, block: int, plan: Plan, shards: Shards, kind: InputType
) -> list[Written]:
    """Logits of a block as float32 or float64, checked, and what is to be known of them.

    ``facts``: how near each class comes to the top; then the largest spread, the sum of the mean
    gaps, and whether all rows look like probabilities. ``spread``: the mean gap of every node.
    """
    start, stop = plan.span(block)
    raw = shards.read(start, stop)
    check_numbers(raw, kind, shards, start)
    z = as_logits(raw, kind)
    del raw
    best = torch.full((z.shape[1],), -torch.inf, dtype=torch.float64)
    spread, reach = torch.empty(len(z), dtype=torch.float64), 0.0
    for rows in row_blocks(*z.shape):
        gaps = top_gaps(z[rows])
        best = torch.maximum(best, gaps.amax(dim=0))
        spread[rows] = -gaps.mean(dim=1)
        reach = max(reach, float(-gaps.amin()))
    alike = kind == "logits" and are_probabilities(z)
    facts = np.array([*best.tolist(), reach, float(spread.sum()), float(alike)])
    return [
        store.put(name("logits", block), z.numpy()),
        store.put(name("spread", block), spread.numpy()),
        store.put(name("facts", block), facts),
    ]


def as_logits(raw: Array, kind: InputType) -> Tensor:
    if kind == "logits":  # checked already, and a block of them may look like probabilities
        z = torch.from_numpy(raw)
        return z if z.dtype in (torch.float32, torch.float64) else z.to(torch.float32)
    return read_logits(raw, kind)


def check_numbers(raw: Array, kind: InputType, shards: Shards, start: int) -> None:
    """Raise for the first row that no model can have given."""
    for rows in row_blocks(len(raw), raw.shape[1], elements=1 << 20):
        x = raw[rows]
        if kind == "logits":
            if np.isfinite(x.sum(dtype=np.float64)):
                continue
            bad = ~np.isfinite(x).all(axis=1)
            why = "a logit is NaN or infinite (classes that cannot be: −1e9 instead of −inf)"
        else:
            p = x.astype(np.float64) if kind == "probabilities" else np.exp(x.astype(np.float64))
            bad = ~(np.abs(p.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
            bad |= ~((p >= -RANGE_TOLERANCE) & (p <= 1 + RANGE_TOLERANCE)).all(axis=1)
            why = f"these are no {kind}: they are not within bounds or do not add up to one"
        found = np.flatnonzero(bad)
        if len(found):
            row = int(found[0])
            raise ValueError(
                f"{shards.where(start + rows.start + row)}: {why}: {x[row].tolist()[:6]}"
            )


def gather(store: Store, block: int, plan: Plan, kind: str, nodes: Ints) -> Array:
    """Rows of ``nodes`` (sorted) that lie in a block."""
    start, stop = plan.span(block)
    low, high = np.searchsorted(nodes, [start, stop])
    array = store.view(name(kind, block))
    return np.array(array[nodes[low:high] - start])
