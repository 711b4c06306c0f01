"""Prediction sets: how often they hold the label, how large they are, and conditional coverage."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, check_labels, to_numpy
from simi_mailbox.metrics.sampling import Interval


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
    """Mean number of classes in a set.

    Examples
    --------
    >>> mean_set_size(np.array([[True, False], [True, True]]))
    1.5
    """
    return float(set_sizes(sets).mean())


def singleton_share(sets: Array) -> float:
    """Share of sets with exactly one class: nodes that need no review.

    Examples
    --------
    >>> singleton_share(np.array([[True, False], [True, True]]))
    0.5
    """
    return float((set_sizes(sets) == 1).mean())


def set_sizes(sets: Array) -> Ints:
    """Number of classes in each set [n].

    Examples
    --------
    >>> set_sizes(np.array([[True, False], [True, True]]))
    array([1, 2])
    """
    return np.asarray(check_sets(sets).sum(axis=1))


def coverage_by_chance(target: float, labels: int, nodes: int, *, level: float = 0.95) -> Interval:
    """Where the `coverage` of ``nodes`` nodes lies, if the guarantee of ``target`` holds.

    It holds on average over draws of calibration labels. Those that were drawn make the coverage
    higher or lower: of continuous scores it has a beta distribution, and what is counted on other
    nodes a beta-binomial one.

    Parameters
    ----------
    target : float
        Target coverage of the sets.
    labels : int
        Calibration nodes behind the threshold.
    nodes : int
        Nodes that coverage was counted on.
    level : float
        How often it lies in the interval.

    Examples
    --------
    >>> found = coverage_by_chance(0.9, labels=134, nodes=2000)
    >>> round(found.low, 3), round(found.high, 3)
    (0.847, 0.949)
    """
    from scipy.stats import betabinom

    _check_share(target, "target")
    _check_share(level, "level")
    if labels < 1 or nodes < 1:
        raise ValueError(f"labels is {labels} and nodes is {nodes}; expected 1 or more of each.")
    # 0.9 is meant as nine tenths, not as the nearest binary fraction.
    place = math.ceil((labels + 1) * Fraction(repr(float(target))))
    if place > labels:  # too few labels: a set is all classes
        return Interval(1.0, 1.0, level)
    ends = betabinom.ppf([(1 - level) / 2, (1 + level) / 2], nodes, place, labels + 1 - place)
    return Interval(float(ends[0] / nodes), float(ends[1] / nodes), level)


@dataclass(frozen=True)
class GroupCoverage:
    """Coverage of every group of nodes, with what chance may do to it.

    Attributes
    ----------
    groups : array [G]
        The groups that have nodes, sorted.
    counts, coverage, low, high : array [G]
        Nodes, their coverage, and its exact (Clopper–Pearson) interval at ``level``.
    level : float
    worst : float
        The smallest coverage.
    worst_by_chance : float
        What the smallest would be on average, if every group had the coverage of all nodes: the
        least of many groups is low by chance alone.
    worst_p_value : float
        How often chance would make some group as unlikely low as the lowest is: near 0, some group
        is undercovered.

    Examples
    --------
    >>> two = np.array([0.8, 0.9])
    >>> GroupCoverage(np.array([0, 1]), np.array([10, 10]), two, two, two, 0.95, 0.8, 0.79).worst
    0.8
    """

    groups: npt.NDArray[Any]
    counts: Ints
    coverage: Floats
    low: Floats
    high: Floats
    level: float
    worst: float
    worst_by_chance: float
    worst_p_value: float = float("nan")


def coverage_by_group(
    sets: Array, y: Array, groups: Array, *, level: float = 0.95, draws: int = 2000, seed: int = 0
) -> GroupCoverage:
    """Coverage within every group: of classes (``groups=y``), degrees, set sizes, or your own.

    Parameters
    ----------
    sets, y
        As in :func:`coverage`.
    groups : ndarray or Tensor [n]
        Group of each node.
    level : float
        Of the intervals.
    draws, seed : int
        Of the simulation behind ``worst_by_chance``.

    Examples
    --------
    >>> sets = np.tile([True, False], (40, 1))
    >>> found = coverage_by_group(sets, np.repeat([0, 1], [30, 10]), np.repeat([0, 1], 20))
    >>> found.coverage.tolist(), found.worst, round(found.worst_by_chance, 2)
    ([1.0, 0.5], 0.5, 0.7)
    """
    from scipy.stats import binom

    _check_share(level, "level")
    hit = covered(sets, y)
    array = to_numpy(groups, "groups")
    if array.shape != hit.shape:
        raise ValueError(
            f"groups has shape {array.shape}; expected ({len(hit)},), one group per node."
        )
    names, place = np.unique(array, return_inverse=True)
    counts = np.bincount(place)
    hits = np.bincount(place, weights=hit).astype(np.int64)
    low, high = binomial_interval(hits, counts, level)
    drawn = np.random.default_rng(seed).binomial(counts, hit.mean(), (draws, len(counts)))
    share = hits / counts
    least = binom.cdf(hits, counts, hit.mean()).min()
    as_low = binom.cdf(drawn, counts, hit.mean()).min(axis=1) <= least
    return GroupCoverage(
        names, counts, share, low, high, level, float(share.min()),
        float((drawn / counts).min(axis=1).mean()), float((1 + as_low.sum()) / (1 + draws)),
    )  # fmt: skip


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


def _check_share(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} is {value}; expected a number between 0 and 1.")


def check_sets(sets: Array) -> npt.NDArray[np.bool_]:
    """Validate sets [n, K]: boolean, so that nobody's probabilities are taken for sets."""
    array = to_numpy(sets, "sets")
    if array.ndim != 2 or array.shape[0] == 0:
        raise ValueError(f"sets has shape {array.shape}; expected [nodes, classes], not empty.")
    if array.dtype != np.bool_:
        raise TypeError(
            f"sets has dtype {array.dtype}; expected booleans, true for the classes in a set."
        )
    return array
