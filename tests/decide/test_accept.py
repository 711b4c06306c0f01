"""Acceptance: the guarantee on errors, what it takes, and what is said when it cannot be given."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from simi_mailbox import CalibrationWarning
from simi_mailbox.decide import Accept, thresholds
from tests.decide.references import frauds

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


def problem(seed, n, sharp=1.0):
    """Two classes; a prediction of confidence c is right with probability ½ + (c − ½)/sharp."""
    rng = np.random.default_rng(seed)
    top = rng.uniform(0.5, 1.0, n)
    right = rng.random(n) < 0.5 + (top - 0.5) / sharp
    return np.stack([top, 1 - top], axis=1), np.where(right, 0, 1)


PROBS, Y = problem(0, 500)


def fit(probs, y, labels, used_for_selection=False, **params):
    return Accept(**params).fit(probs, y, mask=range(labels), used_for_selection=used_for_selection)


@pytest.mark.parametrize("sharp", [1.0, 1.2], ids=["calibrated", "overconfident"])
def test_the_guarantee_is_broken_no_more_often_than_was_said(sharp):
    broken, draws = 0, 400
    for seed in range(draws):
        rule = fit(*problem(seed, 500, sharp), 300, max_error=0.15, confidence=0.8)
        if math.isfinite(rule.threshold_):
            # The true error rate above a threshold is known: no test nodes needed.
            mean = (1 + rule.threshold_) / 2
            broken += 0.5 - (mean - 0.5) / sharp > 0.15
    assert binom.sf(broken - 1, draws, 0.2) > 1e-3  # not surprisingly many
    assert broken > 0.02 * draws  # nor is it so careful that the test could not fail


def test_errors_of_nodes_that_chose_the_model_count_more():
    shares = []
    for seed in range(20):
        case = problem(seed, 1000)
        plain, corrected, none = (
            fit(*case, 200, used, max_error=0.2, prior=prior)
            for prior, used in (("learned", False), ("learned", True), (None, True))
        )
        assert corrected.error_weight_ > 1.0 == plain.error_weight_ == none.error_weight_
        assert plain.threshold_ == none.threshold_
        assert corrected.labels_needed_ > plain.labels_needed_
        shares.append((corrected.expected_share_, plain.expected_share_))
    careful, usual = np.mean(shares, axis=0)
    assert careful < usual - 0.02


def test_most_of_what_could_be_accepted_is():
    rules = [fit(*problem(seed, 3000), 2000, max_error=0.15) for seed in range(20)]
    # Errors above t are (1 − t)/2 on average: 15 % at t = 0.7, which accepts 60 %.
    assert 0.5 < np.mean([rule.expected_share_ for rule in rules]) < 0.6


def test_one_early_error_does_not_end_it():
    top = np.linspace(1.0, 0.9, 1000)
    y = np.arange(1000) == 0  # the most confident prediction of all is wrong, and no other
    rule = fit(np.stack([top, 1 - top], axis=1), y.astype(int), 1000, max_error=0.05)
    assert rule.expected_share_ == 1.0


@given(st.integers(0, 300), st.floats(0.02, 0.3), st.floats(0.5, 0.97))
def test_more_errors_allowed_more_accepted(seed, max_error, confidence):
    strict, loose = (
        fit(*problem(seed, 400), 250, max_error=e, confidence=confidence)
        for e in (max_error, 0.999)
    )
    assert loose.expected_share_ >= strict.expected_share_
    if math.isfinite(strict.threshold_):
        p_value = binom.cdf(strict.errors_, strict.accepted_labels_, max_error)
        assert p_value <= 1 - confidence + 1e-12


def test_nothing_is_accepted_of_too_few_labels_or_of_a_model_that_is_always_wrong():
    probs, y = np.tile([0.99, 0.01], (200, 1)), np.zeros(200, int)
    with pytest.warns(CalibrationWarning, match=r"44 calibration labels are too few.*least 45"):
        rule = fit(probs, y, 44)
    assert (rule.threshold_, rule.expected_share_) == (math.inf, 0)
    assert not rule.accepts(probs).any()
    enough = fit(probs, y, 45)
    assert enough.accepts(probs).all()
    assert (enough.errors_, enough.accepted_labels_) == (0, 45)
    with pytest.warns(CalibrationWarning, match=r"nothing is accepted: .* 60 of 60, .* are wrong"):
        rule = fit(PROBS, np.ones(500, int), 400)
    assert not rule.accepts(PROBS).any()


def test_a_rate_above_the_share_of_a_class_is_warned_of_with_the_missed():
    probs, y = frauds()
    with pytest.warns(CalibrationWarning, match="above the share of 1 of 2 classes") as told:
        rule = fit(probs, y, 2000, max_error=0.05)
    missed = int((rule.accepts(probs) & (y == 1) & (probs[:, 1] < 0.5))[:2000].sum())
    expected = f"{missed} of {int(y[:2000].sum())} of class 1 are accepted as another"
    assert expected in str(told[0].message)
    assert rule.missed_.tolist()[1] == missed


def test_per_class_bounds_the_error_of_each_predicted_class_and_warns_of_none():
    broken = np.zeros(2)
    for seed in range(60):
        probs, y = frauds(4000, 0.2, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rule = fit(probs, y, 2000, max_error=0.2, per_class=True)
        taken, winner = rule.accepts(probs), probs.argmax(axis=1)
        for c in range(2):
            mine = taken & (winner == c)
            broken[c] += bool(mine.any() and (1 - probs[mine, c]).mean() > 0.2)
    assert (broken / 60 <= 0.15).all()
    assert np.isfinite(rule.thresholds_).all()
    assert rule.thresholds_[0] != rule.thresholds_[1]
    assert rule.threshold_ == rule.thresholds_.min()


def test_the_finite_version_bounds_the_observed_share():
    """The rate is kept; the share of 200 nodes exceeds it more often, unless it is asked for."""
    exceeded = {True: 0, False: 0}
    for seed in range(150):
        probs, y = problem(seed, 1200)
        for finite in exceeded:
            taken = fit(probs, y, 1000, max_error=0.1, finite=finite).accepts(probs)[1000:]
            exceeded[finite] += bool(taken.any() and y[1000:][taken].mean() > 0.1)
    assert exceeded[True] / 150 <= 0.15 < exceeded[False] / 150
    with pytest.raises(ValueError, match="nodes outside the mask, and there are none"):
        fit(probs, y, 1200, finite=True)


@given(st.integers(0, 200))
def test_errors_are_counted_at_and_above_a_threshold(seed):
    rng = np.random.default_rng(seed)
    confidence, wrong = rng.integers(0, 8, 50) / 8, rng.random(50) < 0.3
    limits = thresholds.candidate_thresholds(rng.integers(0, 9, 30) / 8)
    accepted, errors = thresholds.count_errors(confidence, wrong, limits)
    assert accepted.tolist() == [(confidence >= t).sum() for t in limits]
    assert errors.tolist() == [wrong[confidence >= t].sum() for t in limits]
    assert (np.diff(limits) < 0).all()


def test_fallback_wastes_nothing_when_all_pass():
    own = np.array([0.05, 0.05, 0.0, 0.0])
    assert thresholds.fallback(np.array([0.04, 0.09, 0.099]), own) == 2
    assert thresholds.fallback(np.array([0.06, 0.09, 0.099]), own) is None
    assert thresholds.fallback(np.array([0.06, 0.05, 0.05, 0.06]), own) == 2
    assert thresholds.fallback(np.array([0.001]), np.zeros(1)) is None


@pytest.mark.parametrize(
    ("labels", "starts"), [(2001, [67, 134, 268]), (240, [59, 118]), (200, [45]), (44, [])]
)
def test_starts_double_and_need_enough_labels(labels, starts):
    assert thresholds.start_positions(np.arange(labels), 0.05, 0.1).tolist() == starts


@pytest.mark.parametrize(("accepted", "errors", "rest"), [(30, 0, 50), (30, 1, 50), (40, 2, 9)])
def test_errors_among_finitely_many_others_are_tested_by_counting_draws(accepted, errors, rest):
    """One error more than allowed in the rest: of all ways to draw the labelled nodes, how many
    have as few errors as were seen?"""
    allowed = 0.1
    total = errors + int(allowed * rest) + 1
    draws = math.comb(accepted + rest, accepted)
    seen = sum(
        math.comb(total, k) * math.comb(accepted + rest - total, accepted - k)
        for k in range(errors + 1)
    )
    counts = [np.array([n]) for n in (accepted, errors)]
    for risk, passes in ((1.001 * seen / draws, True), (0.999 * seen / draws, False)):
        expected = np.zeros(1)  # the only threshold has all of the risk
        best, _ = thresholds.lowest_threshold(
            *counts, allowed, risk, rest=np.array([rest]), expected=expected
        )
        assert (best == 0) == passes
    few = thresholds.lowest_threshold(*counts, 0.9, 0.1, rest=np.array([0]), expected=np.zeros(1))
    assert few[0] == 0  # nobody is left to err on


def test_expected_errors_name_one_more_start_with_half_of_the_risk():
    accepted = np.arange(0, 400, 4)
    expected = 0.02 * np.minimum(accepted, 100) + 0.3 * np.maximum(accepted - 100, 0)
    surplus = [(0.1 * a - e) / math.sqrt(a + 1) for a, e in zip(accepted, expected, strict=True)]
    likely = int(np.argmax(surplus))
    assert accepted[likely] == 100
    # Errors everywhere but there: it must pass by its own part of the risk.
    errors = np.where(np.arange(100) == likely, 0, accepted)
    level = binom.cdf(0, 100, 0.1)
    for risk, passes in ((2.01 * level, True), (1.99 * level, False)):
        best, found = thresholds.lowest_threshold(accepted, errors, 0.1, risk, expected=expected)
        assert set(found) == {*thresholds.start_positions(accepted, 0.1, risk), likely}
        assert len(found) == 2
        assert best == (likely if passes else None)
