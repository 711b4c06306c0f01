"""What chance does to a metric: bootstrap intervals, and the ECE of a calibrated model."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics import _inputs
from simi_mailbox.metrics import calibration_error as binned
from simi_mailbox.metrics._inputs import Array, Checked, bin_sum, top_label
from simi_mailbox.metrics.calibration_error import classwise_ece, debiased_ece, ece, kde_ece
from simi_mailbox.metrics.scores import accuracy, brier, nll, node_brier, node_nll
from simi_mailbox.validation import as_numpy, read_probabilities

Metric: TypeAlias = Callable[..., float]
Method: TypeAlias = Literal["auto", "basic", "percentile"]

_NODE_VALUES: dict[Metric, Callable[[Checked], Floats]] = {
    accuracy: lambda checked: top_label(checked).correct,
    nll: node_nll,
    brier: node_brier,
}
_BIASED_UPWARD: tuple[Metric, ...] = (ece, classwise_ece, kde_ece)
# Above this variance the number of correct nodes of a bin is drawn from its normal limit; the error
# of a mean absolute gap is then below 0.1 %. Below it every node is drawn.
NORMAL_VARIANCE = 100.0
# Uniform numbers held at once (float32): 8 MB.
BLOCK = 2_000_000


@dataclass(frozen=True)
class Interval:
    """A confidence interval at ``level``."""

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
    groups: "Array | None" = None,
    method: Method = "auto",
) -> Interval:
    """Bootstrap interval of a metric (``low``, ``high``): nodes, or groups of them, drawn anew.

    Of the calibration errors, intervals of :func:`debiased_ece` cover best.

    Parameters
    ----------
    metric : callable
        ``metric(probs, y) -> float``: one of this package (options by :func:`functools.partial`) or
        your own. Accuracy, NLL, Brier, equal-width ECE and debiased ECE take a fast path.
    probs, y
        As in :func:`accuracy`; for a metric of one class P(class) and whether nodes are of it.
    level, draws, seed
        Nominal coverage, number of bootstrap samples, seed.
    groups : ndarray or Tensor of int [n], optional
        Group of each node, such as its community: node-wise intervals are too narrow where errors
        of neighbours depend on each other.
    method : {"auto", "basic", "percentile"}
        Quantiles of the resampled values (``"percentile"``); these reflected at the observed value
        θ, [2θ − q_high, 2θ − q_low], and cut at 0 for metrics that cannot be negative
        (``"basic"``); or basic for ECE, class-wise ECE and KDE-ECE, which resampling biases upward
        once more, and percentile otherwise (``"auto"``).

    Examples
    --------
    >>> probs = np.tile([0.8, 0.2], (100, 1))
    >>> round(bootstrap_interval(accuracy, probs, np.repeat([0, 1], [80, 20])).low, 2)
    0.72
    """
    _inputs.check_level(level, "level")
    _inputs.check_choice(method, "method", get_args(Method))
    if draws < 2:
        raise ValueError(f"draws is {draws}; expected at least 2.")
    if getattr(probs, "ndim", 2) == 1:
        p, is_class = _inputs.check_class(probs, y, None)
        checked = Checked(p, is_class.astype(np.int64))
    else:
        checked = _inputs.check(probs, y)
    n = len(checked.y)
    members = np.arange(n)
    if groups is not None:
        array = as_numpy(groups, "groups")
        if array.shape != (n,):
            raise ValueError(f"groups has shape {array.shape}; expected ({n},), one per node.")
        names, members = np.unique(array, return_inverse=True)
        if len(names) < 2:
            raise ValueError("groups holds one group only; resampling it gives no spread.")
    weighted = of_weights(metric, checked)
    values = [weighted(weights) for weights in resampled(members, draws, seed)]
    # A draw without a rare class has no value of some metrics, and is left out.
    low, high = np.nanquantile(values, [(1 - level) / 2, (1 + level) / 2])
    if method == "basic" or (method == "auto" and unwrapped(metric)[0] in _BIASED_UPWARD):
        observed = weighted(np.ones(n, np.int64))
        low, high = 2 * observed - high, 2 * observed - low
        if min(values) >= 0 and observed >= 0:
            low, high = max(low, 0.0), max(high, 0.0)
    return Interval(float(low), float(high), level)


def resampled(members: Ints, draws: int, seed: int) -> Iterator[Ints]:
    """How often each node occurs in each bootstrap sample of the groups 0, 1, … of nodes."""
    rng, groups = np.random.default_rng(seed), int(members.max()) + 1
    for _ in range(draws):
        yield np.bincount(rng.integers(0, groups, groups), minlength=groups)[members]


def of_weights(metric: Metric, checked: Checked) -> Callable[[Ints], float]:
    """The metric as a function of node weights, by the cheapest way that is exact."""
    function, options = unwrapped(metric)
    both = checked.probs.ndim == 2  # else they are P(class)
    if both and function in _NODE_VALUES and not options:
        values = _NODE_VALUES[function](checked)
        return lambda weights: float(values @ weights / weights.sum())
    if both and function in (ece, debiased_ece) and options.get("binning", "width") == "width":
        counted = _weighted_counts(checked, options.get("bins", 15))
        return lambda weights: float(getattr(counted(weights), function.__name__))
    parts = (checked.probs, checked.y)
    return lambda weights: float(metric(*(np.repeat(part, weights, axis=0) for part in parts)))


def unwrapped(metric: Metric) -> tuple[Metric, dict[str, Any]]:
    """A metric of this package behind its options."""
    if isinstance(metric, functools.partial) and not metric.args:
        return metric.func, dict(metric.keywords)
    return metric, {}


def _weighted_counts(checked: Checked, bins: int) -> Callable[[Ints], binned.BinnedCounts]:
    """Sums per bin as a function of node weights."""
    binned.check_binning(bins)
    confidence, correct = top_label(checked)
    columns = [np.ones_like(confidence), confidence, correct, (correct - confidence) ** 2]
    index = binned.width_index(confidence, bins)

    def counts(weights: Ints) -> binned.BinnedCounts:
        number, *sums = (bin_sum(index, column * weights, bins) for column in columns)
        return binned.BinnedCounts(binned.width_edges(bins), number.astype(np.int64), *sums)

    return counts


@dataclass(frozen=True)
class NoiseFloor:
    """Mean and standard deviation of the ECE of a perfectly calibrated model."""

    mean: float
    std: float


def noise_floor(probs: Array, *, bins: int = 15, draws: int = 200, seed: int = 0) -> NoiseFloor:
    """``mean`` and ``std`` of the ECE of a perfectly calibrated model with these confidences.

    The equal-width ECE of ``draws`` sets of simulated labels, where each prediction is correct with
    exactly its confidence, independently of the others. No label is read.
    """
    binned.check_binning(bins)
    if draws < 2:
        raise ValueError(f"draws is {draws}; expected at least 2, to estimate a spread.")
    confidence = _inputs.unit(read_probabilities(probs).max(axis=1))
    simulated = calibrated_ece(confidence, bins, draws, np.random.default_rng(seed))
    return NoiseFloor(float(simulated.mean()), float(simulated.std(ddof=1)))


def calibrated_ece(confidence: Floats, bins: int, draws: int, rng: np.random.Generator) -> Floats:
    """ECE of ``draws`` simulated label sets for which the confidences are exactly right."""
    index = binned.width_index(confidence, bins)
    variance = bin_sum(index, confidence * (1 - confidence), bins)
    total = np.zeros(draws)
    for b in np.flatnonzero(variance):
        if variance[b] > NORMAL_VARIANCE:
            total += np.abs(rng.standard_normal(draws)) * np.sqrt(variance[b])
            continue
        # Confidence 1 has no noise; such nodes can be the bulk of a saturated model's last bin.
        uncertain = confidence[(index == b) & (confidence > 0) & (confidence < 1)]
        blocks = math.ceil(draws * len(uncertain) / BLOCK)
        for part in np.array_split(total, min(blocks, draws)):
            uniform = rng.random((len(part), len(uncertain)), dtype=np.float32)
            part += np.abs(np.count_nonzero(uniform < uncertain, axis=1) - uncertain.sum())
    return total / len(confidence)
