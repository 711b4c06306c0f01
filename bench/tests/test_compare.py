"""Summaries and paired comparisons, against brute force and SciPy."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simi_mailbox_bench.compare import differing, holm, paired, standing, summarise


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


def test_runs_on_different_logits_are_no_pairs() -> None:
    ours = {(s, 0, 0): float(s) for s in range(4)}
    theirs = {(s, 0, 0): s + 1.0 + s % 2 for s in range(4)}
    here = {place: "aaa" for place in ours}
    there = {(0, 0, 0): "aaa", (1, 0, 0): "bbb", (2, 0, 0): "aaa"}  # of the last nothing is known
    assert differing(here, there) == differing(there, here) == {(1, 0, 0)}
    found = paired(ours, theirs, differing(here, there))
    assert found is not None
    assert (found.splits, found.difference) == (3, pytest.approx(-4 / 3))
    values = {"ours": ours, "theirs": theirs}
    elsewhere = {place: "bbb" for place in ours}
    judged = standing("ours", values, least=4, logits={"ours": here, "theirs": elsewhere})
    assert (judged.verdict, judged.paired) == ("", None)
    assert standing("ours", values, least=4, logits={"ours": here}).verdict == "best"


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


def runs_of(
    mean: float, by_split: list[float], folds: int = 3
) -> dict[tuple[int, int, int], float]:
    """Values of five splits with three folds each: a mean and what each split adds."""
    return {
        (split, fold, 0): mean + extra + 0.01 * (fold - 1)
        for split, extra in enumerate(by_split)
        for fold in range(folds)
    }


OURS = runs_of(3.0, [0.0, 0.4, -0.3, 0.1, -0.2])


def test_the_lowest_mean_is_best_however_close_the_rival() -> None:
    values = {
        "near": runs_of(3.01, [0.3, -0.4, 0.2, 0.0, -0.1]),
        "ours": OURS,
        "far": runs_of(9.0, [0.0] * 5),
    }
    found = standing("ours", values, least=15)
    assert (found.verdict, found.best, found.rival) == ("best", "ours", "near")
    assert found.paired is not None
    assert found.paired.difference == pytest.approx(found.mean - found.rival_mean)
    assert found.few == ()


def test_a_lower_mean_whose_interval_holds_zero_is_a_tie() -> None:
    values = {"ours": OURS, "theirs": runs_of(2.9, [0.5, -0.6, 0.4, -0.5, 0.2])}
    found = standing("ours", values, least=15)
    assert found.paired is not None
    assert found.paired.low < 0 < found.paired.high
    assert (found.verdict, found.best) == ("tied", "theirs")


def test_a_rival_that_is_lower_in_every_split_leaves_us_behind() -> None:
    values = {"ours": OURS, "theirs": runs_of(2.5, [0.0, 0.4, -0.3, 0.12, -0.22])}
    found = standing("ours", values, least=15)
    assert (found.verdict, found.best) == ("behind", "theirs")
    assert found.rival_mean < found.mean


def test_a_rival_needs_all_runs() -> None:
    """The same clearly better rival with one run missing, or one not finite, does not count."""
    better = runs_of(1.0, [0.0] * 5)
    short = dict(list(better.items())[:-1])
    broken = {**better, (0, 0, 0): math.nan}
    values = {
        "ours": OURS,
        "short": short,
        "broken": broken,
        "none": {},
        "full": runs_of(5, [0] * 5),
    }
    found = standing("ours", values, least=15)
    assert (found.verdict, found.rival) == ("best", "full")
    assert found.few == (("short", 14), ("broken", 14), ("none", 0))


@pytest.mark.parametrize("ours", [{}, dict(list(OURS.items())[:14])], ids=["none", "one short"])
def test_a_method_that_lacks_runs_itself_is_not_judged(ours: dict[Any, float]) -> None:
    found = standing("ours", {"ours": ours, "theirs": OURS}, least=15)
    assert (found.verdict, found.paired, found.runs) == ("", None, len(ours))
    assert found.rival == "theirs"


def test_without_a_rival_there_is_no_verdict() -> None:
    found = standing("ours", {"ours": OURS, "theirs": {}}, least=15)
    assert (found.verdict, found.rival) == ("", "")
    assert math.isnan(found.rival_mean)


def test_equal_means_are_best() -> None:
    assert standing("ours", {"twin": dict(OURS), "ours": OURS}, least=15).verdict == "best"


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_by_step_rule_rejects(
    p_values: list[float], level: float
) -> None:
    """From the smallest p up, each is held against the level over the tests that are left."""
    rejected = []
    for left, p in zip(range(len(p_values), 0, -1), sorted(p_values), strict=True):
        if p * left > level:
            break
        rejected.append(p)
    assert sorted(p for p, both in zip(p_values, holm(p_values), strict=True) if both <= level) == (
        rejected
    )
