"""Out-of-distribution nodes made from a graph: other edges, other features, other classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from simi_mailbox._arrays import Ints
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.validation import read_classes
from simi_mailbox_bench.datasets.split import Split


def random_blocks(
    graph: Any,
    num_blocks: int,
    *,
    seed: int,
    num_nodes: int | None = None,
    within: float = 1.5,
    between: float = 0.5,
) -> Graph:
    """Structure out of distribution: edges drawn anew by a stochastic block model.

    Nodes are cut by number into ``num_blocks`` blocks of equal size (the last takes the rest).
    Two nodes are joined with ``within`` (same block) or ``between`` times the density of the
    given graph.

    Parameters
    ----------
    graph
        The graph whose size and density are taken; none of its edges are. A `Graph`, or anything
        `as_graph` reads.
    num_blocks
        GNNSafe's protocol takes the number of classes.
    seed
        Of the draw.
    num_nodes
        Needed only with an edge index, which does not say how many nodes there are.
    within, between
        Densities inside a block and between blocks, as multiples of the graph's own.

    Examples
    --------
    >>> ring = Graph.from_edges([range(100), [*range(1, 100), 0]])
    >>> made = random_blocks(ring, 4, seed=0)
    >>> made.num_nodes, made == random_blocks(ring, 4, seed=0)
    (100, True)
    """
    n = _declared_nodes(graph) if num_nodes is None else num_nodes
    graph = as_graph(graph, n)
    if not 1 <= num_blocks <= n:
        raise ValueError(f"num_blocks must be in 1..{n} (the number of nodes), got {num_blocks}")
    if within < 0 or between < 0:
        raise ValueError(f"within and between must not be negative, got {within} and {between}")
    density = graph.num_entries / max(n * (n - 1), 1)
    if max(within, between) * density > 1:
        raise ValueError(
            f"the graph is too dense ({density:.3f}) for {max(within, between)} times its density"
        )
    rng = np.random.default_rng(seed)
    size = n // num_blocks
    starts = np.arange(num_blocks) * size
    ends = np.append(starts[1:], n)
    parts: list[Ints] = []
    for a in range(num_blocks):
        for b in range(a, num_blocks):
            rows, columns = int(ends[a] - starts[a]), int(ends[b] - starts[b])
            if a == b:
                pairs = _draw(rng, rows * (rows - 1) // 2, within * density)
                source, target = _unrank(pairs)
            else:
                pairs = _draw(rng, rows * columns, between * density)
                source, target = np.divmod(pairs, columns)
            parts.append(np.stack([starts[a] + source, starts[b] + target]))
    return Graph.from_edges(np.concatenate(parts, axis=1), n)


def _declared_nodes(graph: Any) -> int:
    """Number of nodes, of a graph that knows it (a PyG ``Data`` may guess it from its edges)."""
    declared = getattr(graph, "num_nodes", None)
    if callable(declared):
        declared = declared()
    if declared is None and hasattr(graph, "tocoo"):
        declared = graph.shape[0]
    if declared is None:
        raise TypeError(
            f"{type(graph).__name__} does not say how many nodes the graph has: pass num_nodes=…"
        )
    return int(declared)


def _draw(rng: np.random.Generator, population: int, probability: float) -> Ints:
    """Numbers 0..population-1, each kept on its own with this probability."""
    if population == 0:
        return np.empty(0, dtype=np.int64)
    count = rng.binomial(population, probability)
    drawn: Ints = rng.choice(population, size=count, replace=False)
    return drawn


def _unrank(pairs: Ints) -> tuple[Ints, Ints]:
    """Turn the number j (j - 1) / 2 + i of a pair i < j into the pair."""
    upper = ((1 + np.sqrt(1 + 8 * pairs.astype(np.float64))) / 2).astype(np.int64)
    lower = pairs - upper * (upper - 1) // 2
    return lower, upper


def interpolated_features(x: Any, *, seed: int) -> Any:
    """Features out of distribution: each node gets a random mixture of two random nodes.

    x'_i = w x_a + (1 - w) x_b, with nodes a, b and w in (0, 1) drawn anew for every i.

    Parameters
    ----------
    x : array, tensor or SciPy sparse matrix [n, d]
        Features; the result is of the same kind. Mixtures of whole numbers are float32.
    seed
        Of the draw.

    Examples
    --------
    >>> x = np.eye(4)
    >>> interpolated_features(x, seed=0).sum(axis=1)
    array([1., 1., 1., 1.])
    """
    if not sp.issparse(x) and not isinstance(x, Tensor):
        x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"features must have shape [nodes, features], got {list(x.shape)}")
    n = x.shape[0]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, n, size=(n, 2))
    weight = rng.random(n, dtype=np.float32)
    mixture = sp.csr_array(
        (
            np.stack([weight, 1 - weight], axis=1).reshape(-1),
            chosen.reshape(-1),
            np.arange(0, 2 * n + 1, 2),
        ),
        shape=(n, n),
    )
    if isinstance(x, Tensor):
        import torch

        mixed = torch.from_numpy(mixture @ x.detach().cpu().numpy())
        return mixed.to(x.dtype if x.is_floating_point() else torch.float32)
    if sp.issparse(x):
        return sp.csr_array(mixture @ x)
    return np.asarray(mixture @ x, dtype=x.dtype if x.dtype.kind == "f" else np.float32)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A problem with fewer classes, and the nodes of the classes left out.

    Attributes
    ----------
    y : ndarray, int64 [n]
        Labels 0.. of the classes that stay; -1 for all other nodes.
    split : Split
        The given split without the nodes of other classes.
    unknown : ndarray, int64
        Nodes of the classes left out.
    classes : tuple of int
        Which classes stay, in the order of their new labels.

    Examples
    --------
    >>> left = leave_out_classes([0, 1, 2, 1, 2], Split([1], [2], [0, 3, 4]), unknown=[0])
    >>> left.classes, left.unknown.tolist()
    ((1, 2), [0])
    """

    y: Ints
    split: Split
    unknown: Ints
    classes: tuple[int, ...]


def leave_out_classes(
    y: Any, split: Split, unknown: Sequence[int], *, drop: Sequence[int] = ()
) -> LeftOut:
    """Labels out of distribution: some classes are never seen in training.

    Parameters
    ----------
    y : array [n]
        Labels of all nodes.
    split
        Its training, validation and test nodes lose those of the classes left out.
    unknown
        Classes to detect.
    drop
        Classes that are neither known nor to be detected (GNNSafe keeps one for exposure).

    Examples
    --------
    >>> y = np.array([0, 1, 2, 2, 1, 2, 1])
    >>> left = leave_out_classes(y, Split([1, 2], [3, 4], [0, 5, 6]), unknown=[0])
    >>> left.y.tolist(), left.unknown.tolist(), left.split
    ([-1, 0, 1, 1, 0, 1, 0], [0], Split(train=2, val=2, test=2))
    """
    n = len(y)
    labels = read_classes(y, np.arange(n), n)
    present = set(np.unique(labels).tolist())
    for name, classes in (("unknown", unknown), ("drop", drop)):
        absent = sorted(set(classes) - present)
        if absent:
            raise ValueError(f"{name} names class {absent[0]}, which no node has")
    known = tuple(sorted(present - set(unknown) - set(drop)))
    if not unknown or len(known) < 2:
        raise ValueError(
            f"leave out at least one class and keep at least two, got unknown={list(unknown)} "
            f"and {len(known)} classes left"
        )
    renamed = np.full(labels.size, -1, dtype=np.int64)
    for new, old in enumerate(known):
        renamed[labels == old] = new
    parts = [part[renamed[part] >= 0] for part in (split.train, split.val, split.test)]
    nodes = np.flatnonzero(np.isin(labels, list(unknown)))
    return LeftOut(renamed, Split(*parts), nodes, known)
