"""Synthetic problems whose true probabilities are known, for examples, tests and the demo."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from scipy.special import softmax

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import mailbox

__all__ = ["CalibrationProblem", "CopiedPages", "calibration_problem", "copied_pages"]

Temperature = float | Callable[[Floats, Floats], Any]
# One stream of random numbers for each kind of draw.
_CLASSES, _COUNTS, _EDGES, _LOGITS, _LABELS = 0, 4, 5, 100, 101
# Edges drawn from one generator. Part of the definition of a graph: changing it changes graphs.
_CHUNK = 1 << 18
# Of the graph of a calibration problem; homophily refers to the favoured classes.
MEAN_DEGREE, HOMOPHILY = 8.0, 0.7
# Of copied pages: copies of one page, about as many links of each, classes, features, how much
# features say, and how far those of copies lie apart.
RING, DEGREE, CLASSES, FEATURES, WEIGHT, COPY_NOISE = 12, 8, 3, 4, 0.6, 0.1


@dataclass(frozen=True, eq=False)
class CalibrationProblem:
    """Logits, labels drawn from them at a known temperature, and the truth.

    Attributes
    ----------
    logits, y, graph : ndarray, float32 [n, classes]; ndarray, int64 [n]; Graph
        Labels are drawn from ``probs``, independently for each node.
    probs, temperature : ndarray, float64 [n, classes] and [n]
        True class probabilities, softmax(logits / temperature).
    confidence, similarity : ndarray, float64 [n]
        Largest probability before calibration, and the mailbox.
    """

    logits: npt.NDArray[np.float32]
    y: Ints
    graph: Graph
    probs: Floats
    temperature: Floats
    confidence: Floats
    similarity: Floats


def calibration_problem(
    n: int, classes: int = 5, *, temperature: Temperature = 1.0, seed: int = 0
) -> CalibrationProblem:
    """Draw a calibration problem with known truth.

    Each node favours one class, the same as most of its neighbours', with a strength of its own;
    Gaussian noise is added. The label is drawn from ``softmax(logits / T)``: a calibrator that
    finds T is perfect, and its error can be measured without sampling noise.

    ``temperature`` is one number, or a function of (confidence [n], mailbox similarity [n]) that
    returns T [n]; above 1, the logits are overconfident. Same seed, same problem, and the labels'
    randomness does not depend on ``temperature``.

    >>> calibration_problem(1000, temperature=lambda conf, sim: 1 + 2 * sim).probs.shape
    (1000, 5)
    """
    shares = np.full(classes, 1 / classes)
    uniform = np.random.default_rng([seed, _CLASSES]).random(n)
    favoured = np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right")
    chunks = [np.empty((2, 0), dtype=np.int64), *_block_model_edges(favoured, classes, seed)]
    graph = Graph.from_edges(np.concatenate(chunks, axis=1), n)
    rng = np.random.default_rng([seed, _LOGITS])
    values = rng.standard_normal((n, classes))
    values[np.arange(n), favoured] += 3 * rng.lognormal(0.0, 0.5, size=n)
    # Truth is computed from the rounded logits, the ones that a calibrator sees.
    logits = values.astype(np.float32)
    exact = logits.astype(np.float64)
    confidence = softmax(exact, axis=1).max(axis=1)
    similarity = mailbox(torch.from_numpy(exact), graph).numpy()
    given = temperature(confidence, similarity) if callable(temperature) else temperature
    nodes = np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), n))
    if not (np.isfinite(nodes).all() and (nodes > 0).all()):
        raise ValueError(
            f"temperatures must be positive and finite, got {nodes.min():g} to {nodes.max():g}"
        )
    probs = softmax(exact / nodes[:, None], axis=1)
    y = _drawn(probs, np.random.default_rng([seed, _LABELS]))
    return CalibrationProblem(logits, y, graph, probs, nodes, confidence, similarity)


def _drawn(probs: Floats, rng: np.random.Generator) -> Ints:
    """A class for every node, drawn from its probabilities."""
    below = (np.cumsum(probs, axis=1) <= rng.random((len(probs), 1))).sum(axis=1)
    # Rounding may leave the last cumulative sum a hair below 1.
    return np.asarray(np.minimum(below, probs.shape[1] - 1))


def _block_model_edges(y: Ints, classes: int, seed: int) -> Iterator[Ints]:
    """Edges [2, m] of a stochastic block model with equally likely classes."""
    members = [np.flatnonzero(y == k) for k in range(classes)]
    density, same = MEAN_DEGREE / y.size, float((np.full(classes, 1 / classes) ** 2).sum())
    within, between = HOMOPHILY * density / same, (1 - HOMOPHILY) * density / (1 - same)
    pairs = [(a, b) for a in range(classes) for b in range(a, classes)]
    expected = [
        float(members[a].size) * members[b].size * (within / 2 if a == b else between)
        for a, b in pairs
    ]
    counts = np.random.default_rng([seed, _COUNTS]).poisson(expected)
    for number, ((a, b), total) in enumerate(zip(pairs, counts, strict=True)):
        for chunk, start in enumerate(range(0, int(total), _CHUNK)):
            rng = np.random.default_rng([seed, _EDGES, number, chunk])
            count = min(_CHUNK, int(total) - start)
            ends = [members[k][rng.integers(members[k].size, size=count)] for k in (a, b)]
            edges = np.stack(ends)
            yield edges[:, edges[0] != edges[1]] if a == b else edges


@dataclass(frozen=True, eq=False)
class CopiedPages:
    """Pages, their links, and the probability with which each is of each class.

    Attributes
    ----------
    graph, x, y : Graph; ndarray, float32 [n, features]; ndarray, int64 [n]
        Pages and links, features, labels.
    train, val, test : ndarray, int64
        Nodes to train on (a sixth), to calibrate on (a sixth), and the others.
    probs : ndarray, float64 [n, classes]
        P(class | all features, all edges, who copies): labels are drawn from these.
    copied : ndarray, bool [n]
        Whether the page belongs to a ring of copies. No model is told.
    sums : ndarray, float64 [n, features]
        Features of a page and of all its neighbours, added up, as in the simplest graph
        convolution (Wu et al., 2019).
    """

    graph: Graph
    x: npt.NDArray[np.float32]
    y: Ints
    train: Ints
    val: Ints
    test: Ints
    probs: Floats
    copied: Bools
    sums: Floats


def copied_pages(n: int = 6000, *, share: float = 0.4, seed: int = 0) -> CopiedPages:
    """Draw pages of which some are witnesses of their own and some copies of each other.

    Features are Gaussian, and each page says something of its own class: evidence
    s_i = 0.6 x_i · (class directions). An ordinary page links to ordinary pages, and every
    neighbour is a witness: its class is drawn from softmax(s_i + Σ_neighbours s_j). Pages of a ring
    have nearly the same features and link to each other: twelve copies of one witness are one, and
    the class is drawn from softmax(s_i). A model that adds up neighbours is overconfident on rings
    and underconfident on the others, and no single temperature helps both.

    ``share`` is that of rings among groups of twelve consecutive nodes.
    """
    rng = np.random.default_rng(seed)
    circle = np.arange(n) // RING
    copied = (rng.random(circle[-1] + 1) < share)[circle]
    if copied.all() or not copied.any():
        raise ValueError(f"share={share} of {circle[-1] + 1} rings leaves pages of one kind only")
    directions = rng.standard_normal((CLASSES, FEATURES))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    x = rng.standard_normal((n, FEATURES))
    original = rng.standard_normal((circle[-1] + 1, FEATURES))[circle[copied]]
    x[copied] = original + COPY_NOISE * x[copied]
    seen = x.astype(np.float32)

    source = rng.integers(0, n, n * DEGREE // 2)
    inside = np.minimum(circle[source] * RING + rng.integers(0, RING, source.size), n - 1)
    anyone = rng.choice(np.flatnonzero(~copied), source.size)
    graph = Graph.from_edges(np.stack([source, np.where(copied[source], inside, anyone)]), n)

    own = seen.astype(np.float64)
    links = (np.ones(graph.num_entries), graph.indices.numpy(), graph.indptr.numpy())
    sums = own + sp.csr_array(links, shape=(n, n)) @ own
    told = np.where(copied[:, None], own, sums) @ (WEIGHT * directions.T)
    probs = softmax(told + np.log(np.full(CLASSES, 1 / CLASSES)), axis=1)
    y = _drawn(probs, rng)
    parts = np.split(rng.permutation(n), [n // 6, n // 3])
    train, val, test = (np.sort(part) for part in parts)
    return CopiedPages(graph, seen, y, train, val, test, probs, copied, sums)
