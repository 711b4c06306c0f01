"""Synthetic stand-ins of exactly the size of the paper's large graphs, for measuring time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simi_mailbox.graph import Graph

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LargeSize:
    """Counts of a graph; ``entries`` counts both directions of every edge."""

    nodes: int
    entries: int
    classes: int
    train: int
    val: int


# Nodes, entries and classes as published; splits of OGB and of GraphSAINT.
SIZES = {
    "Arxiv": LargeSize(169_343, 2_315_598, 40, 90_941, 29_799),
    "Reddit2": LargeSize(232_965, 23_213_838, 41, 153_932, 23_699),
}


@dataclass(frozen=True, eq=False)
class LargeProblem:
    """Logits and labels on a random graph with communities."""

    graph: Graph
    logits: npt.NDArray[np.float32]
    y: Indices
    train: Indices
    val: Indices


def make_large(size: LargeSize, *, seed: int = 0, homophily: float = 0.7) -> LargeProblem:
    """Draw a graph of exactly this size, with logits of about 70 % accuracy.

    Values do not matter for time, but neighbours that mostly agree and confidences that spread do
    a little, because they decide how groups and temperatures come out.

    Examples
    --------
    >>> problem = make_large(LargeSize(200, 1000, 5, 100, 50))
    >>> problem.graph.num_entries, problem.logits.shape, len(problem.val)
    (1000, (200, 5), 50)
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(size.classes, size=size.nodes)
    graph = Graph.from_edges(_edges(size, y, homophily, rng), num_nodes=size.nodes)
    logits = rng.standard_normal((size.nodes, size.classes), dtype=np.float32)
    logits[np.arange(size.nodes), y] += rng.gamma(3.0, 1.2, size.nodes).astype(np.float32)
    order = rng.permutation(size.nodes)
    train = np.sort(order[: size.train])
    val = np.sort(order[size.train : size.train + size.val])
    return LargeProblem(graph, logits, y, train, val)


def _edges(size: LargeSize, y: Indices, homophily: float, rng: np.random.Generator) -> Indices:
    wanted = size.entries // 2
    by_class = np.argsort(y, kind="stable")
    start = np.searchsorted(y[by_class], np.arange(size.classes + 1))
    codes = np.empty(0, dtype=np.int64)
    while codes.size < wanted:
        count = int((wanted - codes.size) * 1.1) + 100
        a = rng.integers(size.nodes, size=count)
        low, high = start[y[a]], start[y[a] + 1]
        mates = by_class[low + (rng.random(count) * (high - low)).astype(np.int64)]
        b = np.where(rng.random(count) < homophily, mates, rng.integers(size.nodes, size=count))
        new = np.minimum(a, b) * size.nodes + np.maximum(a, b)
        codes = np.unique(np.concatenate([codes, new[a != b]]))
    codes = rng.permutation(codes)[:wanted]
    return np.stack([codes // size.nodes, codes % size.nodes])
