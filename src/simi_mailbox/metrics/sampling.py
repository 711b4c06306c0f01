"""What chance does to a metric: bootstrap intervals, and the ECE of a calibrated model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import (
    Array,
    Checked,
    check,
    check_probs,
    to_numpy,
    top_label,
    unit,
)
from simi_mailbox.metrics.calibration_error import (
    BinnedCounts,
    check_binning,
    classwise_ece,
    debiased_ece,
    debiased_of,
    ece,
    width_edges,
    width_index,
)
from simi_mailbox.metrics.diagram import check_level
from simi_mailbox.metrics.scores import accuracy, brier, nll, node_accuracy, node_brier, node_nll
from simi_mailbox.metrics.smooth import kde_ece

Metric: TypeAlias = Callable[..., float]
Method: TypeAlias = Literal["auto", "basic", "percentile"]
Weighted: TypeAlias = Callable[[Ints], float]

_NODE_VALUES: dict[Metric, Callable[[Checked], Floats]] = {
    accuracy: node_accuracy,
    nll: node_nll,
    brier: node_brier,
}
_BIASED_UPWARD: tuple[Metric, ...] = (ece, classwise_ece, kde_ece)


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Examples
    --------
    >>> Interval(low=0.01, high=0.03, level=0.95).high
    0.03
    """

    low: float
    high: float
    level: float


def bootstrap_interval(
    metric: Metric,
    probs: Array,
    y: Array,
    *,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
    groups: Array | None = None,
    method: Method = "auto",
) -> Interval:
    """Bootstrap interval of a metric: nodes, or whole groups of nodes, drawn with replacement.

    Parameters
    ----------
    metric : callable
        ``metric(probs, y) -> float``: one of this package (options by :func:`functools.partial`) or
        your own. Accuracy, NLL, Brier, equal-width ECE and debiased ECE take a fast path that
        re-weights sums instead of copying probabilities.
    probs, y
        As in :func:`accuracy`.
    level : float
        Nominal coverage.
    draws : int
        Number of bootstrap samples.
    seed : int
        Seed of the resampling.
    groups : ndarray or Tensor of int [n], optional
        Group of each node. Neighbours' errors depend on each other, which makes node-wise intervals
        too narrow; resampling whole groups (graph blocks, communities) keeps that dependence.
    method : {"auto", "basic", "percentile"}
        ``"percentile"``: quantiles of the resampled values. ``"basic"``: these reflected at the
        observed value θ, [2θ − q_high, 2θ − q_low], and cut at 0 for metrics that cannot be
        negative. ``"auto"``: basic for ECE, class-wise ECE and KDE-ECE, percentile otherwise.
        ECE is biased upward, and again in every bootstrap sample, so its percentiles sit too high
        and near perfect calibration never cover the truth; reflection counters that.

    Notes
    -----
    For an interval of the calibration error itself use :func:`debiased_ece`: its intervals cover
    best (measured by ``bench/speed/bench_intervals.py``).

    Examples
    --------
    >>> probs = np.tile([0.8, 0.2], (100, 1))
    >>> y = np.repeat([0, 1], [80, 20])
    >>> interval = bootstrap_interval(accuracy, probs, y, seed=0)
    >>> interval.low < 0.8 < interval.high
    True
    """
    check_level(level, "level")
    if method not in get_args(Method):
        raise ValueError(f"method is {method!r}; expected one of {list(get_args(Method))}.")
    if draws < 2:
        raise ValueError(f"draws is {draws}; expected at least 2.")
    checked = check(probs, y)
    members = _group_index(groups, len(checked.y))
    weighted = of_weights(metric, checked)
    rng = np.random.default_rng(seed)
    values = [weighted(weights) for weights in resampled(len(checked.y), members, draws, rng)]
    # A draw without a rare class has no value of some metrics, and is left out.
    low, high = np.nanquantile(values, [(1 - level) / 2, (1 + level) / 2])
    function, _ = _unwrap(metric)
    if method == "basic" or (method == "auto" and function in _BIASED_UPWARD):
        observed = weighted(np.ones(len(checked.y), np.int64))
        low, high = 2 * observed - high, 2 * observed - low
        if min(values) >= 0 and observed >= 0:
            low, high = max(low, 0.0), max(high, 0.0)
    return Interval(float(low), float(high), level)


def resampled(
    num_nodes: int, members: Ints | None, draws: int, rng: np.random.Generator
) -> Iterator[Ints]:
    """How often each node occurs in each bootstrap sample."""
    num_units = num_nodes if members is None else int(members.max()) + 1
    for _ in range(draws):
        drawn = rng.integers(0, num_units, num_units)
        times = np.bincount(drawn, minlength=num_units)
        yield times if members is None else times[members]


def of_weights(metric: Metric, checked: Checked) -> Weighted:
    """The metric as a function of node weights, by the cheapest way that is exact."""
    function, options = _unwrap(metric)
    if function in _NODE_VALUES and not options:
        values = _NODE_VALUES[function](checked)
        return lambda weights: float(values @ weights / weights.sum())
    if function in (ece, debiased_ece) and options.get("binning", "width") == "width":
        counted = _weighted_counts(checked, options.get("bins", 15))
        if function is ece:
            return lambda weights: counted(weights).ece
        norm = options.get("norm", "l1")
        return lambda weights: debiased_of(counted(weights), norm)

    def copied(weights: Ints) -> float:
        chosen = np.repeat(np.arange(len(weights)), weights)
        return float(metric(checked.probs[chosen], checked.y[chosen]))

    return copied


def _unwrap(metric: Metric) -> tuple[Metric, dict[str, Any]]:
    """A metric of this package behind its options."""
    if isinstance(metric, functools.partial) and not metric.args:
        return metric.func, dict(metric.keywords)
    return metric, {}


def _weighted_counts(checked: Checked, bins: int) -> Callable[[Ints], BinnedCounts]:
    """Sums per bin as a function of node weights; nodes are sorted by bin once."""
    check_binning(bins)
    confidence, correct = top_label(checked)
    index = width_index(confidence, bins)
    order = np.argsort(index, kind="stable")
    cuts = np.searchsorted(index[order], np.arange(bins + 1))
    columns = np.stack([np.ones_like(confidence), confidence, correct, (correct - confidence) ** 2])
    columns = columns[:, order]
    edges = width_edges(bins)

    def counts(weights: Ints) -> BinnedCounts:
        sorted_weights = weights[order].astype(np.float64)
        sums = np.empty((4, bins))
        for b, (start, stop) in enumerate(pairwise(cuts)):
            sums[:, b] = columns[:, start:stop] @ sorted_weights[start:stop]
        return BinnedCounts(edges, sums[0].astype(np.int64), sums[1], sums[2], sums[3])

    return counts


def _group_index(groups: Array | None, num_nodes: int) -> Ints | None:
    if groups is None:
        return None
    array = to_numpy(groups, "groups")
    if array.shape != (num_nodes,):
        raise ValueError(f"groups has shape {array.shape}; expected ({num_nodes},), one per node.")
    names, members = np.unique(array, return_inverse=True)
    if len(names) < 2:
        raise ValueError("groups holds one group only; resampling it gives no spread.")
    return members.astype(np.int64)


# Above this variance the number of correct nodes of a bin is drawn from its normal limit; the error
# of a mean absolute gap is then below 0.1 %. Below it every node is drawn.
NORMAL_VARIANCE = 100.0
# Uniform numbers held at once (float32): 8 MB.
BLOCK = 2_000_000


@dataclass(frozen=True)
class NoiseFloor:
    """Mean and standard deviation of the ECE of a perfectly calibrated model.

    Examples
    --------
    >>> NoiseFloor(mean=0.019, std=0.004).mean
    0.019
    """

    mean: float
    std: float


def noise_floor(probs: Array, *, bins: int = 15, draws: int = 200, seed: int = 0) -> NoiseFloor:
    """Expected ECE of a perfectly calibrated model with these very confidences and node count.

    Labels are simulated so that each prediction is correct with exactly its confidence,
    independently of the others, and the equal-width ECE of each simulated set is computed. An
    observed ECE near ``mean`` cannot be told from perfect calibration. No label is read.

    Parameters
    ----------
    probs : ndarray or Tensor [n, K]
        Probabilities; rows sum to 1.
    bins : int
        Number of equal-width bins.
    draws : int
        Number of simulated label sets.
    seed : int
        Seed of the simulation.

    Returns
    -------
    NoiseFloor
        ``mean`` and ``std`` over the draws.

    Notes
    -----
    Within a bin only the number of correct nodes matters. Where its variance Σ c(1 − c) exceeds 100
    it is drawn from the normal distribution, elsewhere node by node.

    Examples
    --------
    >>> floor = noise_floor(np.tile([0.8, 0.2], (400, 1)), seed=0)
    >>> abs(floor.mean - (2 / np.pi * 0.8 * 0.2 / 400) ** 0.5) < 0.002
    True
    """
    check_binning(bins)
    if draws < 2:
        raise ValueError(f"draws is {draws}; expected at least 2, to estimate a spread.")
    confidence = unit(check_probs(probs).max(axis=1))
    simulated = calibrated_ece(confidence, bins, draws, np.random.default_rng(seed))
    return NoiseFloor(float(simulated.mean()), float(simulated.std(ddof=1)))


def calibrated_ece(confidence: Floats, bins: int, draws: int, rng: np.random.Generator) -> Floats:
    """ECE of ``draws`` simulated label sets for which the confidences are exactly right."""
    index = width_index(confidence, bins)
    variance = np.bincount(index, confidence * (1 - confidence), bins)
    total = np.zeros(draws)
    for b in np.flatnonzero(variance):
        if variance[b] > NORMAL_VARIANCE:
            total += np.abs(rng.standard_normal(draws)) * np.sqrt(variance[b])
        else:
            total += np.abs(_gaps(confidence[index == b], draws, rng))
    return total / len(confidence)


def _gaps(confidence: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Number correct minus its expectation, drawn node by node in blocks of bounded memory."""
    # Confidence 1 has no noise; such nodes can be the bulk of a saturated model's last bin.
    uncertain = confidence[(confidence > 0) & (confidence < 1)].astype(np.float64)
    gaps = np.full(draws, -uncertain.sum())
    rows = max(1, BLOCK // len(uncertain))
    for start in range(0, draws, rows):
        stop = min(start + rows, draws)
        uniform = rng.random((stop - start, len(uncertain)), dtype=np.float32)
        gaps[start:stop] += np.count_nonzero(uniform < uncertain, axis=1)
    return gaps
