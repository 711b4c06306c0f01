"""Bootstrap intervals for any metric."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from simi_mailbox.metrics._inputs import Checked, Floats, Ints, check, to_numpy, top_label
from simi_mailbox.metrics.binning import BinnedCounts, check_binning, width_edges, width_index
from simi_mailbox.metrics.debiased import debiased_ece, debiased_of
from simi_mailbox.metrics.ece import ece
from simi_mailbox.metrics.reliability import check_level
from simi_mailbox.metrics.scores import accuracy, brier, nll, node_accuracy, node_brier, node_nll

if TYPE_CHECKING:
    from simi_mailbox.metrics._inputs import Array

Metric: TypeAlias = Callable[..., float]
Method: TypeAlias = Literal["basic", "percentile"]
Weighted: TypeAlias = Callable[[Ints], float]

_NODE_VALUES: dict[Metric, Callable[[Checked], Floats]] = {
    accuracy: node_accuracy,
    nll: node_nll,
    brier: node_brier,
}


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Examples
    --------
    >>> from simi_mailbox.metrics import Interval
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
    method: Method = "basic",
) -> Interval:
    """Bootstrap interval of a metric: nodes, or whole groups of nodes, drawn with replacement.

    Parameters
    ----------
    metric : callable
        ``metric(probs, y) -> float``: one of this package (options by :func:`functools.partial`) or
        your own. Accuracy, NLL, Brier, equal-width ECE and debiased ECE take a fast path that
        re-weights sums instead of copying probabilities.
    probs : ndarray or Tensor [n, K]
        Probabilities; rows sum to 1.
    y : ndarray or Tensor of int [n]
        Labels in 0..K-1.
    level : float
        Nominal coverage.
    draws : int
        Number of bootstrap samples.
    seed : int
        Seed of the resampling.
    groups : ndarray or Tensor of int [n], optional
        Group of each node. Neighbours' errors depend on each other, which makes node-wise intervals
        too narrow; resampling whole groups (graph blocks, communities) keeps that dependence.
    method : {"basic", "percentile"}
        ``"basic"`` reflects the quantiles at the observed value, [2θ − q_high, 2θ − q_low]. ECE is
        biased upward, and more so in a bootstrap sample, so percentiles sit too high;
        reflection moves the interval the right way. Ends are cut at 0 for metrics that cannot be
        negative.

    Returns
    -------
    Interval

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import accuracy, bootstrap_interval
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
    weighted = _weighted(metric, checked)
    rng = np.random.default_rng(seed)
    values = [weighted(weights) for weights in _weights(len(checked.y), members, draws, rng)]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    if method == "basic":
        observed = weighted(np.ones(len(checked.y), np.int64))
        low, high = 2 * observed - high, 2 * observed - low
        if min(values) >= 0 and observed >= 0:
            low, high = max(low, 0.0), max(high, 0.0)
    return Interval(float(low), float(high), level)


def _weights(
    num_nodes: int, members: Ints | None, draws: int, rng: np.random.Generator
) -> Iterator[Ints]:
    """How often each node occurs in each bootstrap sample."""
    num_units = num_nodes if members is None else int(members.max()) + 1
    for _ in range(draws):
        drawn = rng.integers(
            0, num_units, num_units, dtype=np.int32 if num_units < 2**31 else np.int64
        )
        times = np.bincount(drawn, minlength=num_units)
        yield times if members is None else times[members]


def _weighted(metric: Metric, checked: Checked) -> Weighted:
    """The metric as a function of node weights, by the cheapest way that is exact."""
    options: dict[str, Any] = {}
    function = metric
    if isinstance(metric, functools.partial) and not metric.args:
        function, options = metric.func, dict(metric.keywords)
    if function in _NODE_VALUES and not options:
        values = _NODE_VALUES[function](checked)
        return lambda weights: float(values @ weights / weights.sum())
    if function in (ece, debiased_ece) and options.get("binning", "width") == "width":
        counted = _weighted_counts(checked, options.get("bins", 15))
        if function is ece:
            return lambda weights: counted(weights).ece
        norm = options.get("norm", "l1")
        return lambda weights: debiased_of(counted(weights), norm)

    def resampled(weights: Ints) -> float:
        chosen = np.repeat(np.arange(len(weights)), weights)
        return float(metric(checked.probs[chosen], checked.y[chosen]))

    return resampled


def _weighted_counts(checked: Checked, bins: int) -> Callable[[Ints], BinnedCounts]:
    """Sums per bin as a function of node weights; nodes are sorted by bin once."""
    check_binning(bins)
    confidence, correct = top_label(checked)
    index = width_index(confidence, bins)
    order = np.argsort(index, kind="stable")
    used, starts = np.unique(index[order], return_index=True)
    columns = np.stack([np.ones_like(confidence), confidence, correct, (correct - confidence) ** 2])
    columns = columns[:, order]
    edges = width_edges(bins)

    def counts(weights: Ints) -> BinnedCounts:
        sums = np.zeros((4, bins))
        sums[:, used] = np.add.reduceat(columns * weights[order], starts, axis=1)
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
