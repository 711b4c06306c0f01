"""Means of runs, and paired comparisons with the split as the unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

# (split, fold, init) of a run: what two methods must share to be compared on the same logits.
Place = tuple[int, int, int]


@dataclass(frozen=True)
class Summary:
    """Mean and population standard deviation over runs, as the paper reports them."""

    mean: float
    std: float
    runs: int
    splits: int


@dataclass(frozen=True)
class Paired:
    """A method against a baseline on the same logits.

    Attributes
    ----------
    difference
        Mean over splits of (method − baseline); negative is better for an error.
    low, high
        95 % interval of the difference (Student's t over splits).
    p_value
        Two-sided paired t-test over splits.
    splits
        Number of splits, the sample size.
    lower
        In how many splits the method has the lower value.
    """

    difference: float
    low: float
    high: float
    p_value: float
    splits: int
    lower: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def summarise(values: Mapping[Place, float]) -> Summary | None:
    """Mean ± population std over runs; None without a finite value.

    Examples
    --------
    >>> summarise({(0, 0, 0): 1.0, (1, 0, 0): 3.0})
    Summary(mean=2.0, std=1.0, runs=2, splits=2)
    """
    kept = {place: value for place, value in values.items() if math.isfinite(value)}
    if not kept:
        return None
    numbers = np.array(list(kept.values()))
    splits = len({place[0] for place in kept})
    return Summary(float(numbers.mean()), float(numbers.std()), len(numbers), splits)


def paired(method: Mapping[Place, float], baseline: Mapping[Place, float]) -> Paired | None:
    """Compare two methods over the runs both have, with the split as the unit.

    Runs of one split share a test set, and runs of one fold share nearly all else, so they are
    first averaged within their split; the test is then over the (few) splits.

    Returns
    -------
    Paired or None
        None if fewer than two splits are shared: there is then no unit to compare over.

    Examples
    --------
    >>> ours = {(0, 0, 0): 1.0, (0, 1, 0): 2.0, (1, 0, 0): 1.0}
    >>> theirs = {(0, 0, 0): 2.0, (0, 1, 0): 3.0, (1, 0, 0): 3.0}
    >>> result = paired(ours, theirs)
    >>> result.difference, result.splits, result.lower
    (-1.5, 2, 2)
    """
    shared = [
        place
        for place in method
        if place in baseline and math.isfinite(method[place]) and math.isfinite(baseline[place])
    ]
    by_split: dict[int, list[float]] = {}
    for place in shared:
        by_split.setdefault(place[0], []).append(method[place] - baseline[place])
    if len(by_split) < 2:
        return None
    units = np.array([np.mean(by_split[split]) for split in sorted(by_split)])
    return _t_test(units)


def _t_test(units: np.ndarray) -> Paired:
    from scipy import stats

    n = units.size
    mean = float(units.mean())
    error = float(units.std(ddof=1)) / math.sqrt(n)
    lower = int((units < 0).sum())
    if error == 0.0:
        return Paired(mean, mean, mean, 1.0 if mean == 0 else 0.0, n, lower)
    half = float(stats.t.ppf(0.975, n - 1)) * error
    p_value = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return Paired(mean, mean - half, mean + half, p_value, n, lower)


def pooled(values: Iterable[float]) -> float:
    """Mean of finite values; NaN if there is none."""
    kept = [value for value in values if math.isfinite(value)]
    return float(np.mean(kept)) if kept else math.nan
