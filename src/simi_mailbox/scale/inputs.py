"""From a folder of shards to blocks of logits, their range, and the labels of a few nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, is_archive
from simi_mailbox.grouping import added, stacked
from simi_mailbox.node_files.columns import Columns, Contents
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.node_files.nodes import (
    NodeNames,
    Reader,
    labelled_rows,
    node_set,
    one,
    refuse_twice,
)
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.shards import Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import Plan, name
from simi_mailbox.softmax import LogitRange, logit_gaps, row_blocks
from simi_mailbox.validation import (
    RANGE_TOLERANCE,
    ROW_SUM_TOLERANCE,
    InputType,
    are_probabilities,
    read_logits,
    read_node_ids,
)


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
        logits, edges = Shards.open(path / "logits"), Shards.open(path / "edges", "edges")
        hidden = Shards.open(path / "hidden", "hidden") if (path / "hidden").exists() else None
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
        """Labels of some nodes, as of `Labels.of`."""
        path = file_of(self.path, "labels")
        if path is None:
            raise FileNotFoundError(
                f"there is no file {self.path / 'labels.*'} (.npy, .parquet, …)"
            )
        return self._labels_in(path).of(nodes, unknown=unknown)

    def known(self, path: Path | None = None) -> tuple[Ints, Ints] | None:
        """Nodes and labels of a file, or else of ``known.*``, if there is one; like labels."""
        path = file_of(self.path, "known") if path is None else path
        if path is None:
            return None
        labels = self._labels_in(path)
        nodes = np.flatnonzero(labels.y >= 0)
        nodes = nodes if labels.nodes is None else labels.nodes[nodes]
        return nodes, labels.of(nodes)

    def node_ids(self) -> Array | None:
        """The ids of ``node_ids.*``, one for every node, by which it is known on other graphs."""
        path = file_of(self.path, "node_ids")
        if path is None:
            return None
        contents = _contents(path)
        if isinstance(contents, Columns):
            column = 0 if len(contents.names) == 1 else contents.id_column()
            if column is None:
                raise FileFormatError(f"{path}: it has several columns, and none is called node_id")
            ids = np.asarray(contents.values[column].to_numpy(zero_copy_only=False))
        else:
            ids = np.asarray(one(contents, path, ("node_ids",)))
        try:
            return read_node_ids(ids, self.logits.rows)
        except (TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: {error}") from error

    def _labels_in(self, path: Path) -> Labels:
        return Labels.open(path, self.logits.rows, self.logits.columns)

    @property
    def shards(self) -> list[Shards]:
        return [self.logits, self.edges, *([] if self.hidden is None else [self.hidden])]

    def identity(self) -> list[Any]:
        """What changes when the graph, the logits or the hidden layer do."""
        return [part.identity() for part in self.shards]

    def check_unchanged(self) -> None:
        """Raise if a shard is not the one any more that was opened."""
        for part in self.shards:
            for shard in part.shards:
                shard.check_unchanged()


@dataclass(frozen=True)
class Labels:
    """Labels of a file: one per node, of which only those that are asked for are looked at; or of
    some ``nodes``, sorted, each once."""

    path: Path
    classes: int
    y: Array
    nodes: Ints | None = None

    @classmethod
    def open(cls, path: Path, count: int, classes: int) -> Labels:
        contents, whole = _contents(path), NodeNames(count, rows_only=True)
        y = contents[""] if isinstance(contents, dict) and "" in contents else None
        if y is not None and y.ndim == 1:
            if len(y) != count:
                raise ValueError(f"{path}: {len(y):,} labels for {count:,} nodes")
            return cls(path, classes, y)
        if y is None:
            nodes, y = labelled_rows(contents, path, whole, Reader(None))
        elif y.ndim == 2 and y.shape[1] == 2:
            nodes = whole.find(np.array(y[:, 0]), path)
            refuse_twice(nodes, whole, path)
            y = np.asarray(y[:, 1])
        else:
            raise FileFormatError(
                f"{path}: it has shape {list(y.shape)}; expected one label per node, or rows "
                "(node, label)"
            )
        order = np.argsort(nodes)
        return cls(path, classes, y[order], nodes[order])

    def of(self, nodes: Ints, *, unknown: bool = False) -> Ints:
        """Labels of some nodes, −1 where there is none, if it may be ``unknown``."""
        if self.nodes is None:
            y = self.y[nodes].astype(np.float64)
        else:
            at = np.searchsorted(self.nodes, nodes).clip(max=max(0, len(self.nodes) - 1))
            y = np.full(len(nodes), -1.0)
            here = self.nodes[at] == nodes if len(self.nodes) else np.zeros(len(nodes), bool)
            y[here] = self.y[at[here]]
            if not (here.all() or unknown):
                raise ValueError(f"{self.path}: node {nodes[~here][0]} has no label")
        if unknown:
            y = np.where(y < 0, -1.0, y)
        bad = ((y != np.rint(y)) | (y < 0) | (y >= self.classes)) & ~(unknown & (y == -1))
        wrong = np.flatnonzero(bad)
        if len(wrong):
            raise ValueError(
                f"{self.path}: node {nodes[wrong[0]]} has label {y[wrong[0]]:.15g}, but the "
                f"classes are 0..{self.classes - 1}"
            )
        return y.astype(np.int64)


def file_of(folder: Path, part: str) -> Path | None:
    """The one file ``part.*`` of a folder, if there is one."""
    found = sorted(f for f in folder.glob(f"{part}.*") if f.is_file())
    if len(found) > 1:
        raise ValueError(f"{folder} holds both {found[0].name} and {found[1].name}: keep one")
    return found[0] if found else None


def nodes_in(path: Path, count: int, part: str) -> Ints:
    """The nodes that a file names, of ``count``."""
    return node_set(_contents(path), path, NodeNames(count, rows_only=True), Reader(None), part)


def _contents(path: Path) -> Contents:
    """What a file holds; the array of a ``.npy`` file stays on disk until it is looked at."""
    if path.suffix != ".npy" or is_archive(path):
        return read_file(path)
    try:
        return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
    except DAMAGE:
        return read_file(path)  # which says what is wrong with it


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
    best, spread, reach = logit_gaps(z)
    alike = kind == "logits" and are_probabilities(z)
    facts = np.array([*best, reach.max(), spread.sum(), float(alike)])
    return [
        store.put(name("logits", block), z.numpy()),
        store.put(name("spread", block), spread),
        store.put(name("facts", block), facts),
    ]


def as_logits(raw: Array, kind: InputType) -> Tensor:
    if kind == "logits":  # checked already, and a block of them may look like probabilities
        z = torch.from_numpy(raw)
        return z if z.dtype in (torch.float32, torch.float64) else z.to(torch.float32)
    return read_logits(raw, kind)


def check_numbers(raw: Array, kind: InputType, shards: Shards, start: int) -> None:
    """Raise for the first row that no model can have given."""
    masked: Array | None = None
    for rows in row_blocks(len(raw), raw.shape[1], elements=1 << 20):
        x = raw[rows]
        if kind == "logits":
            if np.isfinite(x.sum(dtype=np.float64)):
                continue
            if masked is None:
                masked = np.asarray(np.isneginf(raw).all(axis=0))
            bad = ~(np.isfinite(x) | masked).all(axis=1)
            why = "a logit is NaN or infinite (a class is masked by −inf on every node or on none)"
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


CELLS = 1 << 12
FEW = 1 << 18
"""Numbers that may be sorted here."""


def facts_of(store: Store, block: int) -> Array:
    """The facts of `read_block`, as one row."""
    return store.get(name("facts", block))[None]


def find_limits(engine: Engine, plan: Plan, named: Ints) -> LogitRange:
    """As `LogitRange.of` finds it; a class that is ``named`` by a label is possible."""
    rows = engine.total("looking at logits", facts_of, stacked, plan.blocks)
    if rows[:, -1].all():
        raise ValueError(
            "every row of the logits lies in [0, 1] and sums to one: these are probabilities; "
            'say input_type="probabilities"'
        )
    each = rows[:, : plan.classes]
    best = each.max(axis=0)
    some = np.isneginf(each).any(axis=0) & ~np.isneginf(best)
    if some.any():
        raise ValueError(
            f"class {int(np.flatnonzero(some)[0])} has logits −inf in some blocks of nodes and not "
            "in others; a class is masked by −inf on every node or on none"
        )

    def usual(some: Ints | None) -> float:
        if some is None:
            return median(engine, plan, "spread")
        engine.write("looking at classes", spread_of, plan.blocks, some)
        return median(engine, plan, "spread-kept")

    return LogitRange.from_gaps(best, named, usual)


def spread_of(store: Store, block: int, kept: Ints) -> list[Written]:
    """Mean distance of some classes to the top of their node."""
    z = store.get(name("logits", block))[:, kept].astype(np.float64)
    return [store.put(name("spread-kept", block), z.max(axis=1) - z.mean(axis=1))]


# --- the median of numbers that are nowhere together ----------------------------------------------


def median(engine: Engine, plan: Plan, kind: str, step: str = "looking at logits") -> float:
    """The median of a number per node, exactly: histograms zoom in until few are left."""
    low, high, below = -np.inf, np.inf, 0
    places = (plan.nodes - 1) // 2, plan.nodes // 2
    ends = engine.total(step, extent, _wider, plan.blocks, kind)
    low, high = float(ends[0]), float(ends[1])
    while True:
        edges = np.linspace(low, high, CELLS + 1)
        counts = engine.total(step, histogram, added, plan.blocks, kind, edges)
        reached = below + np.cumsum(counts)
        first, last = (int(np.searchsorted(reached, at, side="right")) for at in places)
        inside = int(reached[last] - (reached[first - 1] if first else below))
        if inside <= FEW or high - low <= 1e-12 * max(1.0, abs(high)):
            break
        below = int(reached[first - 1]) if first else below
        low, high = float(edges[first]), float(edges[last + 1])
    below = int(reached[first - 1]) if first else below
    bounds = (edges[first], edges[last + 1], last + 1 == CELLS)
    found = np.sort(engine.total(step, between, stacked, plan.blocks, kind, *bounds))
    return float((found[places[0] - below] + found[places[1] - below]) / 2)


def extent(store: Store, block: int, kind: str) -> Floats:
    numbers = store.get(name(kind, block))
    return np.array([numbers.min(), numbers.max()])


def _wider(parts: list[Floats]) -> Floats:
    low, high = np.stack(parts).T
    return np.array([low.min(), high.max()])


def histogram(store: Store, block: int, kind: str, edges: Floats) -> Ints:
    numbers = store.get(name(kind, block))
    # Not numpy.histogram, whose last cell is closed: cells of a later look must be the same.
    place = np.searchsorted(edges, numbers, side="right") - 1
    place[numbers == edges[-1]] = CELLS - 1
    inside = (place >= 0) & (place < CELLS)
    return np.bincount(place[inside], minlength=CELLS)


def between(store: Store, block: int, kind: str, low: float, high: float, closed: bool) -> Floats:
    numbers = store.get(name(kind, block))
    return np.asarray(numbers[(numbers >= low) & ((numbers < high) | (closed & (numbers == high)))])
