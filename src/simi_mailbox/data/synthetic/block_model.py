"""`BlockModel`: a contextual stochastic block model, the draws of its nodes and of its edges.

Edges are streamed: memory follows nodes and block size, not edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.graph import Graph

# One stream of random numbers for each kind of draw, so that changing, say, the number of
# features leaves labels and edges as they were.
LABELS, PROPENSITY, MEANS, NOISE, COUNTS, EDGES = range(6)
# Edges drawn from one generator. Part of the definition of a graph: changing it changes graphs.
_CHUNK = 1 << 18


@dataclass(frozen=True)
class BlockModel:
    r"""Degree-corrected stochastic block model with Gaussian node features.

    * class: :math:`y_i \sim \pi`, independently;
    * features: :math:`x_i \sim N(\mu_{y_i}, \sigma^2 I)`;
    * edges: nodes i and j are joined with probability :math:`1 - \exp(-\lambda_{ij})`,
      independently, where :math:`\lambda_{ij} = \theta_i \theta_j c_{in}` if their classes are
      equal and :math:`\theta_i \theta_j c_{out}` if not. :math:`c_{in}` and :math:`c_{out}` are
      such that the expected mean degree and the expected share of edges within classes are as
      asked (up to the rare pairs drawn twice, which are merged).

    Parameters
    ----------
    n, classes
        Number of nodes and of classes.
    prior
        Class probabilities π; uniform by default.
    mean_degree
        Expected number of neighbours, averaged over nodes.
    homophily
        Expected share of edges that join two nodes of one class, 0 to 1. Σ π² is "no structure".
    degree_law
        "constant": all propensities θ are 1, degrees are Poisson within a class; "power": θ has
        density ∝ θ^-exponent, cut at sqrt(n), scaled to mean 1.
    exponent
        Exponent of the power law, above 2.
    features, separation, noise
        Feature dimension, distance of the class means μ from the origin, and standard deviation σ.
    seed
        Everything follows from it.

    Examples
    --------
    >>> model = BlockModel(1000, 3, homophily=0.9, seed=1)
    >>> model.labels()[:8].tolist() == BlockModel(1000, 3, seed=1).labels()[:8].tolist()
    True
    """

    n: int
    classes: int = 4
    prior: Sequence[float] | None = None
    mean_degree: float = 10.0
    homophily: float = 0.8
    degree_law: Literal["constant", "power"] = "constant"
    exponent: float = 2.5
    features: int = 16
    separation: float = 1.0
    noise: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 2 or self.classes < 2 or self.features < 1:
            raise ValueError(
                f"need n ≥ 2, classes ≥ 2 and features ≥ 1, got n={self.n}, "
                f"classes={self.classes}, features={self.features}"
            )
        if not 0 <= self.homophily <= 1:
            raise ValueError(f"homophily is a share between 0 and 1, got {self.homophily}")
        if not 0 < self.mean_degree < self.n:
            raise ValueError(f"mean_degree must be above 0 and below n, got {self.mean_degree}")
        if self.degree_law not in ("constant", "power"):
            raise ValueError(f"degree_law is 'constant' or 'power', got {self.degree_law!r}")
        if self.exponent <= 2:
            raise ValueError(
                f"exponent must be above 2 for degrees to have a mean, got {self.exponent}"
            )
        if self.noise <= 0 or self.separation < 0:
            raise ValueError(
                f"need noise > 0 and separation ≥ 0, got {self.noise} and {self.separation}"
            )
        if self.seed < 0:
            raise ValueError(f"seed must not be negative, got {self.seed}")
        if self.prior is not None:
            prior = np.asarray(self.prior, dtype=np.float64)
            if prior.shape != (self.classes,) or (prior <= 0).any():
                raise ValueError(
                    f"prior needs {self.classes} positive numbers, got {list(self.prior)}"
                )
            if abs(prior.sum() - 1) > 1e-6:
                raise ValueError(f"prior must sum to 1, got {prior.sum():g}")

    def rng(self, *key: int) -> np.random.Generator:
        """Random generator of one kind of draw."""
        return np.random.default_rng([self.seed, *key])

    @property
    def class_probabilities(self) -> Floats:
        """The prior π."""
        if self.prior is None:
            return np.full(self.classes, 1 / self.classes)
        prior = np.asarray(self.prior, dtype=np.float64)
        return np.asarray(prior / prior.sum())

    @property
    def rates(self) -> tuple[float, float]:
        """(c_in, c_out): edge rates within and between classes for propensities of 1."""
        same = float((self.class_probabilities**2).sum())
        density = self.mean_degree / self.n
        return self.homophily * density / same, (1 - self.homophily) * density / (1 - same)

    def labels(self) -> Ints:
        """Classes of all nodes."""
        edges = np.cumsum(self.class_probabilities)[:-1]
        return np.searchsorted(edges, self.rng(LABELS).random(self.n), side="right")

    def propensities(self) -> Floats:
        """θ of all nodes, with mean 1; drawn independently of the classes."""
        if self.degree_law == "constant":
            return np.ones(self.n)
        uniform = 1.0 - self.rng(PROPENSITY).random(self.n)
        theta = np.minimum(uniform ** (-1 / (self.exponent - 1)), np.sqrt(self.n))
        return np.asarray(theta / theta.mean())

    def means(self) -> Floats:
        """Class means μ, [classes, features]: random directions of length ``separation``."""
        directions = self.rng(MEANS).standard_normal((self.classes, self.features))
        length = np.linalg.norm(directions, axis=1, keepdims=True)
        return np.asarray(self.separation * directions / length)

    def node_features(self, labels: Ints) -> npt.NDArray[np.float32]:
        """Features of all nodes, [n, features]."""
        noise = self.rng(NOISE).standard_normal((self.n, self.features), dtype=np.float32)
        noise *= np.float32(self.noise)
        noise += self.means().astype(np.float32)[labels]
        return noise


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


def draw_graph(model: BlockModel, labels: Ints, propensities: Floats | None = None) -> Graph:
    """The whole graph of ``model``."""
    blocks = list(stream_edges(model, labels=labels, propensities=propensities))
    edges = np.concatenate(blocks, axis=1) if blocks else np.empty((2, 0), dtype=np.int64)
    return Graph.from_edges(edges, model.n)


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
