"""Means of runs, paired comparisons with the split as the unit, and where a method stands."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

# (split, fold, init) of a run: what two methods must share to be compared on the same logits.
Place = tuple[int, int, int]
Logits = Mapping[Place, str]
"""Digest of the logits that each run was measured on; "" where it is not known."""


@dataclass(frozen=True)
class Summary:
    """Mean and population standard deviation over runs, as the paper reports them."""

    mean: float
    std: float
    runs: int
    splits: int


@dataclass(frozen=True)
class Paired:
    """A method against a baseline on the same logits, the split as the unit of observation.

    ``difference`` is the mean over splits of (method − baseline), with its 95 % interval, standard
    ``error`` and the p-value of Student's t-test; in ``lower`` of the splits the method is lower.
    """

    difference: float
    low: float
    high: float
    p_value: float
    splits: int
    lower: int
    error: float = math.nan

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def summarise(values: Mapping[Place, float]) -> Summary | None:
    """Mean ± population std over runs; None without a finite value."""
    kept = {place: value for place, value in values.items() if math.isfinite(value)}
    if not kept:
        return None
    numbers = np.array(list(kept.values()))
    splits = len({place[0] for place in kept})
    return Summary(float(numbers.mean()), float(numbers.std()), len(numbers), splits)


def differing(method: Logits, baseline: Logits) -> set[Place]:
    """Runs in which two methods were measured on different logits; "" (not told) is one kind."""
    return {place for place in method if baseline.get(place, method[place]) != method[place]}


def paired(
    method: Mapping[Place, float], baseline: Mapping[Place, float], apart: Collection[Place] = ()
) -> Paired | None:
    """Compare two methods over the runs both have, with the split as the unit.

    Runs of one split share a test set and are averaged first. Runs that stand ``apart``, because
    they were measured on different logits, are no pairs.
    """
    by_split: dict[int, list[float]] = {}
    for place, value in method.items():
        difference = value - baseline.get(place, math.nan)
        if place not in apart and math.isfinite(difference):
            by_split.setdefault(place[0], []).append(difference)
    if len(by_split) < 2:
        return None
    units = np.array([np.mean(by_split[split]) for split in sorted(by_split)])
    return _t_test(units)


@dataclass(frozen=True)
class Standing:
    """Where one method stands among others in one setting, for a metric that is best low.

    The ``rival`` is the other method with the lowest mean. The verdict is "best" where none has a
    lower mean, "tied" where the rival's is lower but the 95 % interval of the paired difference
    holds zero, "behind" where it does not, "" where this cannot be said.
    """

    method: str
    mean: float
    runs: int
    rival: str
    rival_mean: float
    paired: Paired | None
    verdict: str

    @property
    def best(self) -> str:
        """The method with the lowest mean, of those that have all runs; "" if there is none."""
        return self.method if self.verdict == "best" else self.rival


def standing(
    method: str,
    values: Mapping[str, Mapping[Place, float]],
    *,
    least: int,
    logits: Mapping[str, Logits] | None = None,
) -> Standing:
    """Hold a method against the best of the others."""
    known = {name: summarise(given) for name, given in values.items()}
    means = {name: found.mean for name, found in known.items() if found and found.runs >= least}
    own = known[method]
    rivals = [name for name in means if name != method]
    rival = min(rivals, key=means.__getitem__, default="")
    against = None
    if rival and method in means:
        known_logits = logits or {}
        apart = differing(known_logits.get(method, {}), known_logits.get(rival, {}))
        against = paired(values[method], values[rival], apart)
    verdict = ""
    if against:
        beaten = "behind" if against.clear else "tied"
        verdict = "best" if means[method] <= means[rival] else beaten
    return Standing(
        method=method,
        mean=own.mean if own else math.nan,
        runs=own.runs if own else 0,
        rival=rival,
        rival_mean=means.get(rival, math.nan),
        paired=against,
        verdict=verdict,
    )


def _t_test(units: np.ndarray) -> Paired:
    from scipy import stats

    n = units.size
    mean = float(units.mean())
    error = float(units.std(ddof=1)) / math.sqrt(n)
    lower = int((units < 0).sum())
    if error == 0.0:
        return Paired(mean, mean, mean, 1.0 if mean == 0 else 0.0, n, lower, error)
    half = float(stats.t.ppf(0.975, n - 1)) * error
    p_value = float(2 * stats.t.sf(abs(mean) / error, n - 1))
    return Paired(mean, mean - half, mean + half, p_value, n, lower, error)


def pooled(values: Iterable[float]) -> float:
    """Mean of finite values; NaN if there is none."""
    kept = [value for value in values if math.isfinite(value)]
    return float(np.mean(kept)) if kept else math.nan


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several tests after Holm: those below 5 % are right together with 95 %."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.asarray(p_values, dtype=float)[order] * np.arange(len(order), 0, -1)
    result = np.empty(len(order))
    result[order] = np.minimum(np.maximum.accumulate(adjusted), 1.0)
    return [float(p) for p in result]
