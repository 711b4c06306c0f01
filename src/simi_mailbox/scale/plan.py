"""How nodes are cut into blocks, from how much memory there is."""

from __future__ import annotations

import re
from dataclasses import dataclass

PROCESS = 1_100_000_000
"""Address space of Python with PyTorch, SciPy and Numba, before any block is read."""
USED = 0.9
"""Part of the rest that blocks take: allocators round up."""
COPIES = 12
"""Numbers per node and class that the hungriest pass holds."""
PER_NODE = 128
"""Bytes per node that it holds besides."""
EDGE_BYTES = 96
"""Bytes per edge while edges are sorted into tiles."""
LARGEST_BLOCK = LARGEST_BAND = 1 << 28
LARGEST_CHUNK = 1 << 22

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"\s*([0-9.]+)\s*([KMGT]?)(I?)B?\s*", re.IGNORECASE)


def read_size(size: str | int) -> int:
    """Bytes of ``"2GB"``, ``"1.5 GiB"``, ``"800MB"`` or a number."""
    if not isinstance(size, str):
        return int(size)
    match = _SIZE.fullmatch(size)
    try:
        assert match is not None
        number, unit = float(match[1]), match[2].upper()
    except (AssertionError, ValueError):
        raise ValueError(f"memory {size!r} is no size: write it like 2GB or 800MB") from None
    base = 1024 if match[3] else 1000
    return int(number * base ** ("", "K", "M", "G", "T").index(unit))


@dataclass(frozen=True)
class Plan:
    """Nodes in blocks of ``rows``; edges are sorted ``chunk`` at a time.

    Arrays of a pass have ``room`` bytes, and ``slots`` passes run at a time.
    """

    nodes: int
    classes: int
    rows: int
    chunk: int
    room: int = 0
    slots: int = 1

    @classmethod
    def of(
        cls,
        nodes: int,
        classes: int,
        memory: int,
        *,
        item: int = 4,
        tasks: int = 1,
        slots: int = 1,
    ) -> Plan:
        """The largest blocks that fit into ``memory`` bytes of a process that runs ``tasks`` at a
        time, and that keep all ``slots`` of a cluster busy."""
        room = (memory - PROCESS) * USED
        if room < 50_000_000:
            raise ValueError(
                f"memory of {memory / 1e9:.2f} GB is not enough: Python and PyTorch take "
                f"{PROCESS / 1e9:.1f} GB; give at least 1.2GB"
            )
        room /= tasks
        rows = int(room / (COPIES * classes * item + PER_NODE))
        if slots > 1:
            rows = min(rows, -(-nodes // (2 * slots)))
        rows = max(1, min(rows, LARGEST_BLOCK, nodes))
        rows = -(-nodes // -(-nodes // rows))  # as many blocks, all alike
        chunk = max(1, min(int(room / EDGE_BYTES), LARGEST_CHUNK))
        return cls(nodes, classes, rows, chunk, int(room), slots)

    @property
    def blocks(self) -> range:
        return range(-(-self.nodes // self.rows))

    def span(self, block: int) -> tuple[int, int]:
        """First node of a block, and the one after its last."""
        start = block * self.rows
        return start, min(self.nodes, start + self.rows)

    def bands(self, columns: int, held: int) -> list[range]:
        """Runs of blocks, as few as there can be: sums of ``columns`` numbers of every node of one
        fit into memory beside ``held`` bytes for every node of a block.

        A pass over neighbours reads what it needs of all nodes once for every band.
        """
        rows = min(LARGEST_BAND, (self.room - held * self.rows) // (8 * columns))
        if self.slots > 1:
            rows = min(rows, self.nodes // (2 * self.slots))
        count = len(self.blocks)
        size = max(1, rows // self.rows)
        size = -(-count // -(-count // size))  # as many bands, all alike
        return [self.blocks[first : first + size] for first in range(0, count, size)]

    def size(self, block: int) -> int:
        """Nodes of a block."""
        start, stop = self.span(block)
        return stop - start

    @property
    def bits(self) -> int:
        """Bits of a node's number within its block."""
        return max(1, (self.rows - 1).bit_length())
