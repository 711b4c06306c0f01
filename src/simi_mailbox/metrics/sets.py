"""Prediction sets: how often they hold the label, how large they are, and conditional coverage."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, check_labels
from simi_mailbox.validation import as_numpy

DRAWS = 2000
"""Simulations of groups that all have the same coverage."""


def coverage(sets: Array, y: Array) -> float:
    """Share of nodes whose set holds the label.

    Parameters
    ----------
    sets : ndarray or Tensor of bool [n, K]
        True for the classes in a node's set.
    y : ndarray or Tensor of int [n]
        Labels in 0..K-1.

    Examples
    --------
    >>> coverage(np.array([[True, False], [True, True]]), np.array([1, 1]))
    0.5
    """
    return float(covered(sets, y).mean())


def mean_set_size(sets: Array) -> float:
    """Mean number of classes in a set."""
    return float(check_sets(sets).sum(axis=1).mean())


def singleton_share(sets: Array) -> float:
    """Share of sets with exactly one class: nodes that need no review.

    Examples
    --------
    >>> singleton_share(np.array([[True, False], [True, True]]))
    0.5
    """
    return float((check_sets(sets).sum(axis=1) == 1).mean())


@dataclass(frozen=True)
class GroupCoverage:
    """Coverage of every group of nodes, with what chance may do to it.

    Attributes
    ----------
    groups, counts, coverage, low, high : array [G]
        The groups that have nodes, sorted; their nodes, and the coverage of these with its exact
        (Clopper–Pearson) interval at ``level``.
    worst, worst_by_chance, worst_p_value : float
        The smallest coverage; its mean if every group had the coverage of all nodes; and how often
        chance would make some group as unlikely low as the lowest is.
    """

    groups: npt.NDArray[Any]
    counts: Ints
    coverage: Floats
    low: Floats
    high: Floats
    level: float
    worst: float
    worst_by_chance: float
    worst_p_value: float


def coverage_by_group(sets: Array, y: Array, groups: Array, *, seed: int = 0) -> GroupCoverage:
    """Coverage within every group: of classes (``groups=y``), degrees, set sizes, or your own.

    ``seed`` is that of the simulation behind ``worst_by_chance``. Other parameters are those of
    :func:`coverage`.
    """
    from scipy.stats import binom

    hit = covered(sets, y)
    array = as_numpy(groups, "groups")
    if array.shape != hit.shape:
        raise ValueError(
            f"groups has shape {array.shape}; expected {hit.shape}, one group per node."
        )
    names, place, counts = np.unique(array, return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=hit).astype(np.int64)
    share, everywhere = hits / counts, hit.mean()
    drawn = np.random.default_rng(seed).binomial(counts, everywhere, (DRAWS, len(counts)))
    least = binom.cdf(hits, counts, everywhere).min()
    as_low = binom.cdf(drawn, counts, everywhere).min(axis=1) <= least
    low, high = binomial_interval(hits, counts)
    by_chance = float((drawn / counts).min(axis=1).mean())
    p_value = float((1 + as_low.sum()) / (1 + DRAWS))
    each = (names, counts, share, low, high)
    return GroupCoverage(*each, 0.95, float(share.min()), by_chance, p_value)


def binomial_interval(hits: Ints, counts: Ints, level: float = 0.95) -> tuple[Floats, Floats]:
    """Exact (Clopper–Pearson) interval of shares."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, beta.ppf(tail, hits, counts - hits + 1), 0.0)
        high = np.where(hits < counts, beta.ppf(1 - tail, hits + 1, counts - hits), 1.0)
    return low, high


def covered(sets: Array, y: Array) -> npt.NDArray[np.bool_]:
    """Whether each node's set holds its label."""
    array = check_sets(sets)
    labels = check_labels(y, *array.shape)
    return np.take_along_axis(array, labels[:, None], axis=1)[:, 0]


def check_sets(sets: Array) -> npt.NDArray[np.bool_]:
    """Validate sets [n, K]: boolean, so that nobody's probabilities are taken for sets."""
    array = as_numpy(sets, "sets")
    if array.ndim != 2 or array.shape[0] == 0 or array.dtype != np.bool_:
        raise ValueError(
            f"sets has shape {array.shape} and dtype {array.dtype}; expected booleans [nodes, "
            "classes], not empty, true for the classes in a set."
        )
    return array
