"""Summaries and paired comparisons, against brute force and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from simi_mailbox.experiments.compare import paired, summarise


def grid(values: np.ndarray) -> dict[tuple[int, int, int], float]:
    return {place: float(values[place]) for place in np.ndindex(values.shape)}


def test_paired_comparison_is_the_t_test_over_split_means() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(3, 1, (5, 3, 2)), rng.normal(4, 1, (5, 3, 2))
    found = paired(grid(ours), grid(theirs))
    assert found is not None
    a, b = (array.reshape(5, -1).mean(axis=1) for array in (ours, theirs))
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.difference == pytest.approx((a - b).mean())
    assert found.lower == int((a < b).sum())
    assert found.splits == 5
    assert found.clear == (expected.pvalue < 0.05)


def test_only_runs_that_both_have_are_compared() -> None:
    ours = {(0, 0, 0): 1.0, (1, 0, 0): 2.0, (2, 0, 0): 99.0, (0, 1, 0): math.nan}
    theirs = {(0, 0, 0): 2.0, (1, 0, 0): 2.5, (0, 1, 0): 50.0, (3, 0, 0): 0.0}
    found = paired(ours, theirs)
    assert found is not None
    assert (found.splits, found.difference) == (2, -0.75)


def test_folds_of_one_split_are_one_unit() -> None:
    """Copying runs within a split must not make the comparison look surer."""
    ours = {(s, 0, 0): float(s) for s in range(4)}
    theirs = {(s, 0, 0): s + 1.0 + 0.3 * s for s in range(4)}
    copies = [
        {(s, f, 0): v for (s, _, _), v in d.items() for f in range(20)} for d in (ours, theirs)
    ]
    once, many = paired(ours, theirs), paired(*copies)
    assert once is not None
    assert many is not None
    assert many.p_value == pytest.approx(once.p_value)
    assert many.low == pytest.approx(once.low)


def test_one_split_gives_no_comparison() -> None:
    assert paired({(0, 0, 0): 1.0, (0, 1, 0): 2.0}, {(0, 0, 0): 2.0, (0, 1, 0): 1.0}) is None
    assert paired({}, {}) is None


def test_equal_values_differ_by_nothing() -> None:
    values = {(s, 0, 0): float(s) for s in range(3)}
    found = paired(values, values)
    assert found is not None
    assert (found.difference, found.p_value, found.lower, found.clear) == (0.0, 1.0, 0, False)


def test_summary_has_the_population_std() -> None:
    values = np.random.default_rng(1).random((5, 3, 1))
    found = summarise(grid(values))
    assert found is not None
    assert found.mean == pytest.approx(values.mean())
    assert found.std == pytest.approx(math.sqrt(np.var(values)))
    assert (found.runs, found.splits) == (15, 5)


def test_summary_leaves_out_what_is_not_finite() -> None:
    found = summarise({(0, 0, 0): 1.0, (1, 0, 0): math.nan})
    assert found is not None
    assert (found.mean, found.runs) == (1.0, 1)
    assert summarise({(0, 0, 0): math.nan}) is None
