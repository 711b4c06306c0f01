"""Do nodes look like the calibration nodes? Permutation tests with one false-alarm rate."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.stats import kstwobign

from simi_mailbox._arrays import Bools, Floats

PERMUTATIONS, MOST_NODES = 499, 10_000
"""More nodes than these make a test slower, and hardly sharper."""


def drift_tests(
    reference: Mapping[str, Floats], target: Mapping[str, Floats], *, seed: int = 0
) -> dict[str, dict[str, float]]:
    """By name: Kolmogorov–Smirnov distance, and its p-value among all tests (Westfall and Young).

    If both samples are drawn alike, the smallest p-value is below 5 % in 5 % of all cases.
    "groups" holds whole numbers without an order: their distance is the total variation.
    """
    rng = np.random.default_rng(seed)
    names = list(reference)
    first, many = len(reference[names[0]]), len(target[names[0]])
    rows = rng.choice(many, MOST_NODES, replace=False) if many > MOST_NODES else slice(None)
    tests = [_distance(np.r_[reference[n], target[n][rows]], n == "groups") for n in names]
    inside = np.arange(first + min(many, MOST_NODES)) < first
    found = np.empty((PERMUTATIONS + 1, len(names)))
    for row in range(PERMUTATIONS + 1):
        found[row] = [distance(inside) for distance in tests]
        inside = rng.permutation(inside)
    # By column, the share of permutations at least as far apart; then the least of each row.
    below = [np.searchsorted(np.sort(column), column - 1e-12) for column in found.T]
    p = 1.0 - np.stack(below, axis=1) / len(found)
    least = p.min(axis=1)
    return {
        name: {"distance": float(found[0, k]), "p": float((least <= p[0, k]).mean())}
        for k, name in enumerate(names)
    }


def p_value(distance: float, first: int, second: int) -> float:
    """Of one Kolmogorov–Smirnov distance by its limit: for p-values far below 1 / permutations."""
    return float(kstwobign.sf(distance * np.sqrt(first * second / (first + second))))


def _distance(values: Floats, is_category: bool) -> Callable[[Bools], float]:
    """How far the values ``inside`` are from the others, which are sorted once for all."""
    order = np.argsort(values, kind="stable")
    last = np.flatnonzero(np.diff(values[order], append=np.inf))

    def distance(inside: Bools) -> float:
        here = inside[order]
        total = int(here.sum())
        upto = here.cumsum()[last]
        gaps = upto / total - (last + 1 - upto) / (len(here) - total)
        if is_category:
            return float(np.abs(np.diff(gaps, prepend=0.0)).sum() / 2.0)
        return float(np.abs(gaps).max())

    return distance
