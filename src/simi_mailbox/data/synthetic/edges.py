"""Edges of a block model, streamed: memory follows nodes and block size, not edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.data.synthetic.model import COUNTS, EDGES, BlockModel

# Edges drawn from one generator. Part of the definition of a graph: changing it changes graphs.
_CHUNK = 1 << 18


def stream_edges(
    model: BlockModel,
    *,
    block: int = 1 << 20,
    labels: Ints | None = None,
    propensities: Floats | None = None,
) -> Iterator[Ints]:
    """Yield the edges of ``model`` in arrays [2, ≤ block], each edge in one direction.

    The edges do not depend on ``block``. They have no self-loops, are not shuffled (they come
    class pair by class pair), and the same pair may, rarely, come twice: `Graph` merges it.

    Parameters
    ----------
    model
        What to draw from.
    block
        Edges per array; the last array may be shorter.
    labels, propensities
        ``model.labels()`` and ``model.propensities()``, if they are at hand already.

    Examples
    --------
    >>> model = BlockModel(1000, classes=3, mean_degree=6, seed=0)
    >>> small = np.concatenate(list(stream_edges(model, block=7)), axis=1)
    >>> large = np.concatenate(list(stream_edges(model)), axis=1)
    >>> bool((small == large).all())
    True
    """
    if block < 1:
        raise ValueError(f"block must be at least 1, got {block}")
    labels = model.labels() if labels is None else labels
    theta = model.propensities() if propensities is None else propensities
    return _reblock(_chunks(model, _Classes(labels, theta, model)), block)


class _Classes:
    """Draws nodes of one class with probability proportional to their propensity."""

    def __init__(self, labels: Ints, theta: Floats, model: BlockModel) -> None:
        self._order = np.argsort(labels, kind="stable")
        ends = np.cumsum(np.bincount(labels, minlength=model.classes))
        self._start = np.concatenate([[0], ends])
        self._uniform = model.degree_law == "constant"
        self._cumulative = [
            np.cumsum(theta[self._order[a:b]])
            for a, b in zip(self._start[:-1], self._start[1:], strict=True)
        ]
        self.weight = np.array([float(c[-1]) if c.size else 0.0 for c in self._cumulative])

    def draw(self, rng: np.random.Generator, which: int, count: int) -> Ints:
        cumulative = self._cumulative[which]
        if self._uniform:
            place = rng.integers(cumulative.size, size=count)
        else:
            # Sorted keys walk through memory in order, which is several times faster than
            # looking them up as drawn; the shuffle gives the order back.
            keys = rng.random(count) * cumulative[-1]
            keys.sort()
            place = np.searchsorted(cumulative, keys, side="right")
            # random() < 1, but its product with the total may round up to the total.
            np.minimum(place, cumulative.size - 1, out=place)
            rng.shuffle(place)
        return np.asarray(self._order[self._start[which] + place])


def _chunks(model: BlockModel, classes: _Classes) -> Iterator[Ints]:
    # A Poisson number of edges for every pair of classes, with ends drawn independently within
    # the classes, gives every pair of nodes an independent Poisson number of edges: the model.
    within, between = model.rates
    pairs = [(a, b) for a in range(model.classes) for b in range(a, model.classes)]
    expected = [
        classes.weight[a] * classes.weight[b] * (within / 2 if a == b else between)
        for a, b in pairs
    ]
    counts = model.rng(COUNTS).poisson(expected)
    for number, ((a, b), total) in enumerate(zip(pairs, counts, strict=True)):
        for chunk, start in enumerate(range(0, int(total), _CHUNK)):
            rng = model.rng(EDGES, number, chunk)
            count = min(_CHUNK, int(total) - start)
            edges = np.stack([classes.draw(rng, a, count), classes.draw(rng, b, count)])
            yield edges[:, edges[0] != edges[1]] if a == b else edges


def _reblock(chunks: Iterator[Ints], block: int) -> Iterator[Ints]:
    waiting: list[Ints] = []
    size = 0
    for chunk in chunks:
        while size + chunk.shape[1] >= block:
            take = block - size
            waiting.append(chunk[:, :take])
            yield np.concatenate(waiting, axis=1)
            chunk, waiting, size = chunk[:, take:], [], 0
        if chunk.shape[1]:
            waiting.append(chunk)
            size += chunk.shape[1]
    if size:
        yield np.concatenate(waiting, axis=1)
