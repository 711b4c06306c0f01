"""Which runs an experiment consists of."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from simi_mailbox_bench.backbones.bank import RunKey


@dataclass(frozen=True)
class Size:
    """How many runs the paper makes under a protocol."""

    splits: int
    folds: int
    inits: int

    @property
    def runs(self) -> int:
        """Number of runs."""
        return self.splits * self.folds * self.inits


# As the paper states them: 75, 50, and three times 10 runs.
SIZES = {
    "folds": Size(5, 3, 5),
    "official": Size(10, 1, 5),
    "sparse": Size(10, 1, 1),
    "gpn": Size(10, 1, 1),
    "public": Size(1, 1, 10),
}


def size_of(protocol: str) -> Size:
    """Size of a protocol; an unknown one lists the choices.

    Examples
    --------
    >>> size_of("folds").runs
    75
    """
    if protocol not in SIZES:
        raise ValueError(f"unknown protocol {protocol!r}; choices: {', '.join(SIZES)}")
    return SIZES[protocol]


def runs(
    dataset: str, backbone: str, protocol: str, limit: int | None = None, size: Size | None = None
) -> list[RunKey]:
    """Runs of one cell of a table, in an order that spreads over splits first.

    Any number of first runs is then as good a sample as its number allows: runs of one split share
    a test set and tell less than runs of different splits.

    Examples
    --------
    >>> [(run.split, run.fold, run.init) for run in runs("Cora", "gcn", "folds", limit=7)]
    [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (4, 0, 0), (0, 1, 0), (1, 1, 0)]
    """
    if limit is not None and limit < 1:
        raise ValueError(f"runs={limit}: at least one run is needed")
    size = size or size_of(protocol)
    order = product(range(size.inits), range(size.folds), range(size.splits))
    made = [RunKey(dataset, backbone, protocol, split, fold, init) for init, fold, split in order]
    return made[:limit]
