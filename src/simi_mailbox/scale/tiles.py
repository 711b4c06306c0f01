"""Nodes in blocks, and the graph as tiles: row block × column block.

An entry (i, j) of a tile says that ``j`` is a neighbour of ``i``; both are numbers within their
blocks. Chunks of edges become sorted runs of keys, and the runs are merged tile by tile. A key is
(tile, row, column) in one number, so that one sort does everything and duplicates meet.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
import torch

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.scale.engines import Engine
from simi_mailbox.scale.shards import Shard, Shards
from simi_mailbox.scale.store import Store, Written
from simi_mailbox.softmax import entry_blocks

PROCESS = 1_100_000_000  # address space of Python with PyTorch, SciPy and Numba
USED = 0.9  # part of the rest that blocks take: allocators round up
COPIES, PER_NODE = 12, 128  # numbers per node and class of the hungriest pass; bytes besides
EDGE_BYTES = 96  # per edge while edges are sorted into tiles
LARGEST_BLOCK = LARGEST_BAND = 1 << 28
LARGEST_CHUNK = 1 << 22


def read_size(size: str | int) -> int:
    """Bytes of ``"2GB"``, ``"1.5 GiB"``, ``"800MB"`` or a number."""
    pattern = r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)(I?)B?\s*"
    match = re.fullmatch(pattern, str(size), re.IGNORECASE)
    if match is None:
        raise ValueError(f"memory {size!r} is no size: write it like 2GB or 800MB")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " KMGT".index(match[2].upper() or " "))


@dataclass(frozen=True)
class Plan:
    """How nodes are cut into blocks, and edges into chunks."""

    nodes: int
    classes: int
    rows: int  # of a block
    chunk: int  # edges that are sorted at a time
    space: int = 0  # bytes for the arrays of a pass
    slots: int = 1  # passes that run at a time

    @classmethod
    def of(
        cls, nodes: int, classes: int, memory: int, *, item: int = 4, tasks: int = 1, slots: int = 1
    ) -> Plan:
        """The largest blocks that fit into a process of ``tasks``, and keep all ``slots`` busy."""
        space = (memory - PROCESS) * USED
        if space < 50_000_000:
            raise ValueError(
                f"memory of {memory / 1e9:.2f} GB is not enough: Python and PyTorch take "
                f"{PROCESS / 1e9:.1f} GB; give at least 1.2GB"
            )
        space /= tasks
        rows = int(space / (COPIES * classes * item + PER_NODE))
        if slots > 1:
            rows = min(rows, -(-nodes // (2 * slots)))
        rows = _alike(nodes, max(1, min(rows, LARGEST_BLOCK, nodes)))
        chunk = max(1, min(int(space / EDGE_BYTES), LARGEST_CHUNK))
        return cls(nodes, classes, rows, chunk, int(space), slots)

    @property
    def blocks(self) -> range:
        return range(-(-self.nodes // self.rows))

    def span(self, block: int) -> tuple[int, int]:
        start = block * self.rows
        return start, min(self.nodes, start + self.rows)

    def size(self, block: int) -> int:
        start, stop = self.span(block)
        return stop - start

    def inside(self, block: int, nodes: Ints) -> tuple[Ints, slice]:
        """Those of some sorted nodes that lie in a block, counted there; and their place."""
        start, stop = self.span(block)
        low, high = np.searchsorted(nodes, [start, stop]).tolist()
        return np.array(nodes[low:high]) - start, slice(low, high)

    def bands(self, columns: int, held: int) -> list[range]:
        """The fewest runs of blocks whose sums fit beside ``held`` bytes per node of a block."""
        rows = min(LARGEST_BAND, (self.space - held * self.rows) // (8 * columns))
        if self.slots > 1:
            rows = min(rows, self.nodes // (2 * self.slots))
        count = len(self.blocks)
        size = _alike(count, max(1, rows // self.rows))
        return [self.blocks[first : first + size] for first in range(0, count, size)]

    @property
    def bits(self) -> int:
        """Bits of a node's number within its block."""
        return max(1, (self.rows - 1).bit_length())


def _alike(count: int, most: int) -> int:
    """Size of as many parts as parts of ``most`` would be, all alike."""
    return -(-count // -(-count // most))


Keys = Array
PART = 1 << 20  # entries of a tile that lie in one file, at most


def name(kind: str, *numbers: int) -> str:
    return f"{kind}/{'-'.join(f'{number:05d}' for number in numbers)}"


def cut(engine: Engine, plan: Plan, edges: Shards) -> None:
    """Sort the edges of all shards into tiles."""
    pieces = edges.chunks(plan.chunk)
    engine.write("sorting edges", sort_chunk, range(len(pieces)), plan, pieces)
    engine.write("cutting tiles", merge_row, plan.blocks, plan, len(pieces))


def sort_chunk(
    store: Store, chunk: int, plan: Plan, pieces: list[tuple[Shard, int, int]]
) -> list[Written]:
    """A run of edges, both ways, as a sorted run of keys."""
    shard, start, stop = pieces[chunk]
    edges = shard.read(start, stop)
    check_ids(edges, plan.nodes, shard, start)
    edges = edges[edges[:, 0] != edges[:, 1]].astype(np.uint64)
    keys = np.concatenate([_keys(plan, edges[:, 0], edges[:, 1]), _keys(plan, *edges[:, ::-1].T)])
    del edges
    keys.sort()
    return [store.put(name("run", chunk), _once(keys))]


def check_ids(edges: Ints, nodes: int, shard: Shard, start: int) -> None:
    if len(edges) and (edges.min() < 0 or edges.max() >= nodes):
        row = int(((edges < 0) | (edges >= nodes)).any(axis=1).argmax())
        source, target = edges[row].tolist()
        raise ValueError(
            f"{shard.path}, row {start + row}: the edge joins nodes {source} and {target}, but "
            f"the logits number nodes 0..{nodes - 1}"
        )


def _keys(plan: Plan, row: Array, column: Array) -> Keys:
    rows, bits = np.uint64(plan.rows), np.uint64(plan.bits)
    tile: Any = row // rows * np.uint64(len(plan.blocks)) + column // rows
    key: Keys = (tile << bits | row % rows) << bits | column % rows
    return key


def _once(keys: Keys) -> Keys:
    """Sorted keys, each once."""
    kept = np.ones(len(keys), dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=kept[1:])
    return keys if kept.all() else keys[kept]


def merge_row(store: Store, block: int, plan: Plan, runs: int) -> list[Written]:
    """The tiles of a row of blocks, and the degrees of its nodes."""
    written, width = [], len(plan.blocks)
    degree = np.zeros(plan.size(block), dtype=np.int64)
    parts = np.zeros(width, dtype=np.int64)
    cuts = [tile << 2 * plan.bits for tile in range(block * width, (block + 1) * width + 1)]
    for keys in _ranges(store, cuts[0], cuts[-1], runs, plan):
        keys.sort()
        keys = _once(keys)
        ends = [*np.searchsorted(keys, np.array(cuts[:-1], dtype=np.uint64)).tolist(), len(keys)]
        entries = _entries(keys, plan.bits)
        degree += np.bincount(entries[:, 0], minlength=len(degree))
        for column in np.flatnonzero(np.diff(ends)).tolist():
            for start in range(ends[column], ends[column + 1], PART):
                part = entries[start : min(start + PART, ends[column + 1])]
                written.append(store.put(name("tile", block, column, int(parts[column])), part))
                parts[column] += 1
    written.append(store.put(name("parts", block), parts))
    written.append(store.put(name("degree", block), degree))
    return written


def _ranges(store: Store, low: int, high: int, runs: int, plan: Plan) -> Iterator[Keys]:
    """All keys in [low, high), in ranges of whole rows that hold no more than a few chunks."""
    places = [_place(store, run, low, high) for run in range(runs)]
    count = sum(place.stop - place.start for place in places)
    if count > 3 * plan.chunk and high - low > 1 << plan.bits:
        half = (low + high) >> (plan.bits + 1) << plan.bits
        yield from _ranges(store, low, half, runs, plan)
        yield from _ranges(store, half, high, runs, plan)
    elif count:
        keys, at = np.empty(count, dtype=np.uint64), 0
        for run, place in enumerate(places):
            some = store.view(name("run", run))[place]  # one is mapped at a time
            keys[at : at + len(some)] = some
            at += len(some)
        yield keys


def _place(store: Store, run: int, low: int, high: int) -> slice:
    keys = store.view(name("run", run))
    # A bound beyond the last key that 64 bits can hold is the end.
    ends = (
        int(np.searchsorted(keys, np.uint64(k))) if k < 1 << 64 else len(keys) for k in (low, high)
    )
    return slice(*ends)


def _entries(keys: Keys, bits: int) -> Array:
    """(row, column) of keys, [entries, 2]; the keys are used up."""
    entries = np.empty((len(keys), 2), dtype=np.uint32)
    low = np.uint64((1 << bits) - 1)
    entries[:, 1] = keys & low
    keys >>= np.uint64(bits)
    entries[:, 0] = keys & low
    return entries


def fingerprint(store: Store, plan: Plan) -> str:
    """`Graph.fingerprint` of the graph that the tiles make up."""
    digest, at = hashlib.sha256(np.zeros(1, dtype=np.int64).tobytes()), 0
    for block in plan.blocks:
        ends = np.cumsum(store.get(name("degree", block))) + at
        at = int(ends[-1])
        digest.update(ends.astype(np.int64).tobytes())
    for block in plan.blocks:
        degree = store.get(name("degree", block))
        parts = store.get(name("parts", block)).tolist()
        offsets = torch.from_numpy(np.concatenate([[0], np.cumsum(degree)]))
        for low, high in entry_blocks(offsets, plan.chunk):
            found = []
            for column in plan.blocks:
                for part in range(parts[column]):
                    entries = store.view(name("tile", block, column, part))
                    # NumPy's search would copy the column to look at twenty of its numbers.
                    first, last = (bisect_left(entries[:, 0], row) for row in (low, high))
                    keys = np.array(entries[first:last], dtype=np.uint64)
                    found.append(keys[:, 0] << np.uint64(32) | keys[:, 1] + column * plan.rows)
            if found:
                # Runs that are sorted already are merged.
                keys = np.sort(np.concatenate(found), kind="stable") & np.uint64((1 << 32) - 1)
                digest.update(keys.astype(np.int64).tobytes())
    return digest.hexdigest()[:16]


def neighbour_sums(
    store: Store,
    blocks: Sequence[int],
    plan: Plan,
    width: int,
    right: Callable[[int], tuple[Array, Array | None]],
) -> Iterator[tuple[int, Floats]]:
    """Some row blocks, and sums over neighbours of what ``right(column)`` gives for `add_sums`."""
    sums = {block: np.zeros((plan.size(block), width)) for block in blocks}
    parts = {block: store.get(name("parts", block)).tolist() for block in blocks}
    for column in plan.blocks:
        tiles = [(b, part) for b in blocks for part in range(parts[b][column])]
        numbers, place = right(column) if tiles else (None, None)
        for block, part in tiles:
            add_sums(store.get(name("tile", block, column, part)), numbers, place, sums[block])
        del numbers  # before the next are read
    for block in blocks:
        yield block, sums.pop(block)


def add_sums(entries: Array, right: Any, place: Array | None, onto: Floats) -> None:
    """onto_i += Σ_j right_j over the entries (i, j), which are in the order of their rows.

    If most rows of the matrix are zero, ``right`` holds the others; ``place`` says where, or −1.
    """
    row, column = entries.T
    if place is not None:
        some = place[column] >= 0
        row, column = row[some], place[column[some]]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(onto)))])
    matrix = scipy.sparse.csr_array(
        (np.ones(len(row)), column, indptr), shape=(len(onto), len(right))
    )
    onto += matrix @ right
