"""From a folder of shards to blocks of logits, their range, and the labels of a few nodes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from simi_mailbox import validation
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, is_archive, mapped_npy
from simi_mailbox.grouping import added, stacked
from simi_mailbox.node_files.columns import Contents
from simi_mailbox.node_files.formats import read_file
from simi_mailbox.node_files.problem import (
    NodeNames,
    Reader,
    labelled_rows,
    listed_ids,
    node_set,
)
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.shards import Shard, Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.scale.tiles import Plan, name
from simi_mailbox.softmax import LogitRange, logit_gaps, row_blocks
from simi_mailbox.validation import InputType


@dataclass(frozen=True)
class Folder:
    """``logits/``, ``edges/`` and perhaps ``hidden/`` of shards; files of labels and nodes."""

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
        path = file_of(self.path, part)
        return None if path is None else nodes_in(path, self.logits.rows, part)

    def labels(self, nodes: Ints) -> Ints:
        path = file_of(self.path, "labels")
        if path is None:
            raise FileNotFoundError(f"there is no file {self.path / 'labels.*'}")
        return Labels.open(path, self.logits.rows, self.logits.columns).of(nodes)

    def known(self, path: Path | None = None) -> tuple[Ints, Ints] | None:
        """Nodes and labels of a file, or else of ``known.*``, if there is one; like labels."""
        path = file_of(self.path, "known") if path is None else path
        if path is None:
            return None
        labels = Labels.open(path, self.logits.rows, self.logits.columns)
        nodes = np.flatnonzero(labels.y >= 0)
        nodes = nodes if labels.nodes is None else labels.nodes[nodes]
        return nodes, labels.of(nodes)

    def node_ids(self) -> Array | None:
        """The ids of ``node_ids.*``, one for every node, by which it is known on other graphs."""
        path = file_of(self.path, "node_ids")
        if path is None:
            return None
        try:
            ids = np.asarray(listed_ids(_contents(path), path, Reader()))
            return validation.read_node_ids(ids, self.logits.rows)
        except (TypeError, ValueError) as error:
            raise FileFormatError(f"{path}: {error}") from error

    @property
    def shards(self) -> list[Shard]:
        parts = (self.logits, self.edges, self.hidden)
        return [shard for part in parts if part is not None for shard in part.shards]


@dataclass(frozen=True)
class Labels:
    """Labels of all nodes; or of ``nodes``, sorted, and −1 of a last one that is none."""

    path: Path
    count: int
    classes: int
    y: Array
    nodes: Ints | None = None

    @classmethod
    def open(cls, path: Path, count: int, classes: int) -> Labels:
        contents, every = _contents(path), NodeNames(count)
        y = contents.get("") if isinstance(contents, dict) else None
        if y is None:
            nodes, y = labelled_rows(contents, path, every, Reader())
        elif y.shape == (count,):
            return cls(path, count, classes, y)
        elif y.ndim == 2 and y.shape[1] == 2:
            nodes, y = every.find(np.array(y[:, 0]), path), np.asarray(y[:, 1])
            every.refuse_twice(nodes, path)
        else:
            raise FileFormatError(
                f"{path}: it has shape {list(y.shape)}; expected one label per node, [{count}], or "
                "rows (node, label)"
            )
        order = np.argsort(nodes)
        ends = np.append(y[order], -1), np.append(nodes[order], count)
        return cls(path, count, classes, *ends)

    def of(self, nodes: Ints, *, unknown: bool = False) -> Ints:
        """Labels of some nodes, −1 where there is none, if it may be ``unknown``."""
        if self.nodes is None:
            y = self.y[nodes]
        else:
            place = np.searchsorted(self.nodes, nodes)
            y = np.where(self.nodes[place] == nodes, self.y[place], -1)
        known = y >= 0 if unknown else np.ones(len(nodes), dtype=bool)
        found, some = np.full(len(nodes), -1), (y[known], nodes[known], self.count, self.classes)
        found[known] = validation.read_classes(*some, of=str(self.path), only_these=True)
        return found


def file_of(folder: Path, part: str) -> Path | None:
    """The one file ``part.*`` of a folder, if there is one."""
    found = sorted(f for f in folder.glob(f"{part}.*") if f.is_file())
    if len(found) > 1:
        raise ValueError(f"{folder} holds both {found[0].name} and {found[1].name}: keep one")
    return found[0] if found else None


def nodes_in(path: Path, count: int, part: str) -> Ints:
    return node_set(_contents(path), path, NodeNames(count), Reader(), part)


def _contents(path: Path) -> Contents:
    """What a file holds; the array of a ``.npy`` file stays on disk until it is looked at."""
    if path.suffix != ".npy" or is_archive(path):
        return read_file(path)
    try:
        return {"": mapped_npy(path)}
    except DAMAGE:
        return read_file(path)  # which says what is wrong with it


def read_block(
    store: Store, block: int, plan: Plan, shards: Shards, kind: InputType
) -> list[Written]:
    """Checked logits; mean gaps; gaps of each class, and whether rows look like probabilities."""
    start, stop = plan.span(block)
    z = as_logits(shards, start, shards.read(start, stop), kind)
    best, spread, _ = logit_gaps(z)
    alike = kind == "logits" and validation.are_probabilities(z)
    return [
        store.put(name("logits", block), z.numpy()),
        store.put(name("spread", block), spread),
        store.put(name("facts", block), np.array([*best, float(alike)])),
    ]


def as_logits(shards: Shards, start: int, raw: Array, kind: InputType) -> Tensor:
    check_numbers(raw, kind, shards, start)
    if kind != "logits":
        return validation.read_logits(raw, kind)
    z = torch.from_numpy(raw)  # a block of logits may look like probabilities
    return z if z.dtype in (torch.float32, torch.float64) else z.to(torch.float32)


def check_numbers(raw: Array, kind: InputType, shards: Shards, start: int) -> None:
    """Raise for the first row that no model can have given."""
    masked = np.isneginf(raw[0])
    for rows in row_blocks(len(raw), raw.shape[1], elements=1 << 20):
        bad, why = validation.impossible(raw[rows], kind, masked)
        if bad.any():
            row = rows.start + int(bad.argmax())
            told = raw[row].tolist()[:6]
            raise ValueError(f"{shards.where(start + row)}: it has {why}: {told}")


def gather(store: Store, block: int, plan: Plan, kind: str, nodes: Ints) -> Array:
    """Rows of ``nodes`` (sorted) that lie in a block."""
    return np.array(store.view(name(kind, block))[plan.inside(block, nodes)[0]])


def facts_of(store: Store, block: int) -> Array:
    return store.get(name("facts", block))[None]


def find_limits(engine: Engine, plan: Plan, named: Ints) -> LogitRange:
    """As `LogitRange.of` finds it; a class that is ``named`` by a label is possible."""
    rows = engine.total("looking at logits", facts_of, stacked, plan.blocks)
    if rows[:, -1].all():
        raise ValueError(validation.ARE_PROBABILITIES)
    best = rows[:, :-1].max(axis=0)
    some = np.isneginf(rows[:, :-1]).any(axis=0) & ~np.isneginf(best)
    if some.any():
        raise ValueError(
            f"class {int(some.argmax())} has logits −inf in some blocks of nodes and not in "
            f"others; {validation.MASKING}"
        )

    def usual(some: Ints | None) -> float:
        if some is None:
            return median(engine, plan, "spread")
        engine.write("looking at classes", spread_of, plan.blocks, some)
        return median(engine, plan, "spread-kept")

    return LogitRange.from_gaps(best, named, usual)


def spread_of(store: Store, block: int, kept: Ints) -> list[Written]:
    z = store.get(name("logits", block))[:, kept].astype(np.float64)
    return [store.put(name("spread-kept", block), z.max(axis=1) - z.mean(axis=1))]


DIGIT = 16  # bits that are found at a time


def median(engine: Engine, plan: Plan, kind: str, step: str = "looking at logits") -> float:
    """The median of a number ≥ 0 per node, by its bits: each look at all blocks finds a few."""
    found = []
    for place in {(plan.nodes - 1) // 2, plan.nodes // 2}:
        bits = 0
        for shift in range(64 - DIGIT, -1, -DIGIT):
            counts = engine.total(step, digits_of, added, plan.blocks, kind, bits, shift)
            reached = np.cumsum(counts)
            digit = int(np.searchsorted(reached, place, side="right"))
            place -= int(reached[digit] - counts[digit])
            bits = bits << DIGIT | digit
        found.append(np.uint64(bits).view(np.float64))
    return float(np.mean(found))


def digits_of(store: Store, block: int, kind: str, bits: int, shift: int) -> Ints:
    """How often each digit follows at ``shift`` in the numbers that begin with ``bits``."""
    numbers = np.abs(store.get(name(kind, block))).view(np.uint64) >> np.uint64(shift)
    same = numbers[numbers >> np.uint64(DIGIT) == bits]
    return np.bincount((same & np.uint64((1 << DIGIT) - 1)).astype(np.int64), minlength=1 << DIGIT)
