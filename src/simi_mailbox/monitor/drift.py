"""Do nodes look like the calibration nodes? Permutation tests with one false-alarm rate."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import kstwobign

from simi_mailbox._arrays import Floats, Ints

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
    many = len(target[names[0]])
    rows = rng.choice(many, MOST_NODES, replace=False) if many > MOST_NODES else slice(None)
    first = len(reference[names[0]])
    columns = [_Column(np.r_[reference[n], target[n][rows]], n == "groups") for n in names]
    inside = np.zeros(len(columns[0].order), dtype=bool)
    inside[:first] = True
    found = np.empty((PERMUTATIONS + 1, len(names)))
    for row in range(PERMUTATIONS + 1):
        found[row] = [column.distance(inside) for column in columns]
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


class _Column:
    """Two samples in one order, so that a distance is one cumulative sum."""

    def __init__(self, values: Floats, is_category: bool) -> None:
        self.is_category = is_category
        self.order: Ints = np.argsort(values, kind="stable")
        self.last = np.flatnonzero(np.diff(values[self.order], append=np.inf))

    def distance(self, inside: Floats) -> float:
        here = inside[self.order]
        total = int(here.sum())
        upto = here.cumsum()[self.last]
        gaps = upto / total - (self.last + 1 - upto) / (len(here) - total)
        if self.is_category:
            return float(np.abs(np.diff(gaps, prepend=0.0)).sum() / 2.0)
        return float(np.abs(gaps).max())
