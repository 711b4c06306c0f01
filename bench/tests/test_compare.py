"""Summaries and paired comparisons, against brute force and SciPy."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from simi_mailbox_bench.compare import differing, holm, paired, standing, summarise


def grid(values):
    return {place: float(values[place]) for place in np.ndindex(values.shape)}


def test_paired_comparison_is_the_t_test_over_split_means():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(3, 1, (5, 3, 2)), rng.normal(4, 1, (5, 3, 2))
    found = paired(grid(ours), grid(theirs))
    a, b = (array.reshape(5, -1).mean(axis=1) for array in (ours, theirs))
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert found.difference == pytest.approx((a - b).mean())
    assert found.lower == int((a < b).sum())
    assert found.splits == 5
    assert found.clear == (expected.pvalue < 0.05)


def test_only_runs_that_both_have_are_compared():
    ours = {(0, 0, 0): 1.0, (1, 0, 0): 2.0, (2, 0, 0): 99.0, (0, 1, 0): math.nan}
    theirs = {(0, 0, 0): 2.0, (1, 0, 0): 2.5, (0, 1, 0): 50.0, (3, 0, 0): 0.0}
    found = paired(ours, theirs)
    assert (found.splits, found.difference) == (2, -0.75)


def test_runs_on_different_logits_are_no_pairs():
    ours = {(s, 0, 0): float(s) for s in range(4)}
    theirs = {(s, 0, 0): s + 1.0 + s % 2 for s in range(4)}
    here = {place: "aaa" for place in ours}
    there = {(0, 0, 0): "aaa", (1, 0, 0): "bbb", (2, 0, 0): "aaa"}  # of the last nothing is known
    assert differing(here, there) == differing(there, here) == {(1, 0, 0)}
    found = paired(ours, theirs, differing(here, there))
    assert (found.splits, found.difference) == (3, pytest.approx(-4 / 3))
    values = {"ours": ours, "theirs": theirs}
    elsewhere = {place: "bbb" for place in ours}
    judged = standing("ours", values, least=4, logits={"ours": here, "theirs": elsewhere})
    assert (judged.verdict, judged.paired) == ("", None)
    assert standing("ours", values, least=4, logits={"ours": here}).verdict == "best"


def test_one_split_gives_no_comparison_and_equal_values_differ_by_nothing():
    assert paired({(0, 0, 0): 1.0, (0, 1, 0): 2.0}, {(0, 0, 0): 2.0, (0, 1, 0): 1.0}) is None
    assert paired({}, {}) is None
    values = {(s, 0, 0): float(s) for s in range(3)}
    found = paired(values, values)
    assert (found.difference, found.p_value, found.lower, found.clear) == (0.0, 1.0, 0, False)


def test_a_summary_has_the_population_std_of_what_is_finite():
    values = np.random.default_rng(1).random((5, 3, 1))
    found = summarise(grid(values) | {(9, 0, 0): math.nan})
    assert (found.mean, found.std) == pytest.approx((values.mean(), values.std()))
    assert (found.runs, found.splits) == (15, 5)
    assert summarise({(0, 0, 0): math.nan}) is None


def runs_of(mean, by_split, folds=3):
    """Values of five splits with three folds each: a mean and what each split adds."""
    return {
        (split, fold, 0): mean + extra + 0.01 * (fold - 1)
        for split, extra in enumerate(by_split)
        for fold in range(folds)
    }


OURS = runs_of(3.0, [0.0, 0.4, -0.3, 0.1, -0.2])


BETTER = runs_of(1.0, [0.0] * 5)
FAR = runs_of(9.0, [0.0] * 5)


@pytest.mark.parametrize(
    ("others", "verdict", "best", "rival"),
    [
        (
            {"near": runs_of(3.01, [0.3, -0.4, 0.2, 0.0, -0.1]), "far": FAR},
            *("best", "ours", "near"),
        ),
        ({"twin": dict(OURS)}, "best", "ours", "twin"),
        ({"wild": runs_of(2.9, [0.5, -0.6, 0.4, -0.5, 0.2])}, "tied", "wild", "wild"),
        ({"low": runs_of(2.5, [0.0, 0.4, -0.3, 0.12, -0.22])}, "behind", "low", "low"),
        (  # a rival needs all runs
            {
                "short": dict(list(BETTER.items())[:-1]),
                "broken": {**BETTER, (0, 0, 0): math.nan},
                "none": {},
                "full": FAR,
            },
            *("best", "ours", "full"),
        ),
        ({"none": {}}, "", "", ""),
    ],
    ids=["lowest", "equal", "interval holds zero", "lower in every split", "all runs", "no rival"],
)
def test_where_a_method_stands(others, verdict, best, rival):
    found = standing("ours", {**others, "ours": OURS}, least=15)
    assert (found.verdict, found.best, found.rival) == (verdict, best, rival)
    if rival:
        assert found.paired.difference == pytest.approx(found.mean - found.rival_mean)
        assert found.paired.clear == (rival in ("low", "full"))
    else:
        assert math.isnan(found.rival_mean)


@pytest.mark.parametrize("ours", [{}, dict(list(OURS.items())[:14])], ids=["none", "one short"])
def test_a_method_that_lacks_runs_itself_is_not_judged(ours):
    found = standing("ours", {"ours": ours, "theirs": OURS}, least=15)
    assert (found.verdict, found.paired, found.runs) == ("", None, len(ours))
    assert found.rival == "theirs"


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.001, 0.999))
def test_holm_rejects_what_the_step_by_step_rule_rejects(p_values, level):
    """From the smallest p up, each is held against the level over the tests that are left."""
    rejected = []
    for left, p in zip(range(len(p_values), 0, -1), sorted(p_values), strict=True):
        if p * left > level:
            break
        rejected.append(p)
    assert sorted(p for p, both in zip(p_values, holm(p_values), strict=True) if both <= level) == (
        rejected
    )
