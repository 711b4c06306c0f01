"""Acceptance: the promise on errors, what it takes, and what is said when it cannot be made."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from simi_mailbox import CalibrationWarning, NotFittedError, audit
from simi_mailbox.decide import Accept, load_rule
from simi_mailbox.decide.accept import (
    candidate_thresholds,
    count_errors,
    fallback,
    labels_without_error,
    lowest_threshold,
    start_positions,
)

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


def problem(rng, n, sharp=1.0):
    """Two classes; a prediction of confidence c is right with probability ½ + (c − ½)/sharp."""
    sure = rng.uniform(0.5, 1.0, n)
    right = rng.random(n) < 0.5 + (sure - 0.5) / sharp
    return np.stack([sure, 1 - sure], axis=1), np.where(right, 0, 1), sure


def fit(probs, y, labels, **params):
    return Accept(**params).fit(probs, y, mask=range(labels), used_for_selection=False)


@pytest.mark.parametrize("sharp", [1.0, 1.2], ids=["calibrated", "too sure"])
def test_the_promise_is_broken_no_more_often_than_was_said(sharp):
    rng, broken, draws = np.random.default_rng(0), 0, 400
    for _ in range(draws):
        probs, y, _ = problem(rng, 500, sharp)
        rule = fit(probs, y, 300, max_error=0.15, confidence=0.8)
        if math.isfinite(rule.threshold_):
            # The true error rate above a threshold is known: no test nodes needed.
            middle = (1 + rule.threshold_) / 2
            broken += 0.5 - (middle - 0.5) / sharp > 0.15
    assert binom.sf(broken - 1, draws, 0.2) > 1e-3  # not surprisingly many
    assert broken > 0.02 * draws  # nor is it so careful that the test could not fail


def test_errors_of_nodes_that_chose_the_model_count_more():
    shares = []
    for seed in range(20):
        probs, y, _ = problem(np.random.default_rng(seed), 1000)
        fresh, not_fresh, none = (
            Accept(max_error=0.2, prior=given).fit(
                probs, y, mask=range(200), used_for_selection=not f
            )
            for given, f in (("learned", True), ("learned", False), (None, False))
        )
        assert not_fresh.error_weight_ > 1.0 == fresh.error_weight_ == none.error_weight_
        assert fresh.threshold_ == none.threshold_
        assert not_fresh.labels_needed_ > fresh.labels_needed_
        shares.append((not_fresh.expected_share_, fresh.expected_share_))
    careful, plain = np.mean(shares, axis=0)
    assert careful < plain - 0.02


def test_most_of_what_could_be_accepted_is():
    rng = np.random.default_rng(1)
    shares = [fit(*problem(rng, 3000)[:2], 2000, max_error=0.15).expected_share_ for _ in range(20)]
    # Errors above t are (1 − t)/2 on average: 15 % at t = 0.7, which accepts 60 %.
    assert 0.5 < np.mean(shares) < 0.6


def test_one_early_error_does_not_end_it():
    n = 1000
    sure = np.linspace(1.0, 0.9, n)
    probs = np.stack([sure, 1 - sure], axis=1)
    y = np.zeros(n, int)
    y[0] = 1  # the surest prediction of all is wrong, and no other
    assert fit(probs, y, n, max_error=0.05).expected_share_ == 1.0


@given(st.integers(0, 300), st.floats(0.02, 0.3), st.floats(0.5, 0.97))
def test_more_errors_allowed_more_accepted(seed, max_error, confidence):
    probs, y, _ = problem(np.random.default_rng(seed), 400)
    strict, loose = (
        fit(probs, y, 250, max_error=e, confidence=confidence) for e in (max_error, 0.999)
    )
    assert loose.expected_share_ >= strict.expected_share_
    if math.isfinite(strict.threshold_):
        p_value = binom.cdf(strict.errors_, strict.accepted_labels_, max_error)
        assert p_value <= 1 - confidence + 1e-12


@given(st.integers(0, 300), st.randoms())
def test_the_order_of_nodes_changes_nothing(seed, random):
    probs, y, _ = problem(np.random.default_rng(seed), 300)
    order = list(range(300))
    random.shuffle(order)
    rule = fit(probs, y, 200, max_error=0.2)
    moved = Accept(max_error=0.2).fit(
        probs[order], y[order], mask=np.argsort(order)[:200], used_for_selection=False
    )
    assert moved.threshold_ == rule.threshold_
    np.testing.assert_array_equal(moved.accepts(probs), rule.accepts(probs))


def test_labels_outside_the_mask_cannot_be_read():
    probs, y, _ = problem(np.random.default_rng(0), 500)
    found = audit.reads_only(Accept(max_error=0.2), probs, y, mask=range(300))
    assert found.passed, found.detail


def test_too_few_labels_accept_nothing_and_say_how_many_are_needed():
    probs = np.tile([0.99, 0.01], (200, 1))
    y = np.zeros(200, int)
    with pytest.warns(CalibrationWarning, match=r"44 calibration labels are too few.*least 45"):
        rule = fit(probs, y, 44)
    assert rule.threshold_ == math.inf
    assert rule.expected_share_ == 0
    assert not rule.accepts(probs).any()
    assert fit(probs, y, 45).accepts(probs).all()


def test_a_model_that_is_always_wrong_is_never_accepted():
    probs, _, _ = problem(np.random.default_rng(0), 500)
    with pytest.warns(CalibrationWarning, match=r"nothing is accepted: .* 60 of 60, .* are wrong"):
        rule = fit(probs, np.ones(500, int), 400)
    assert not rule.accepts(probs).any()


def test_torch_in_torch_out_and_files(tmp_path):
    probs, y, _ = problem(np.random.default_rng(0), 500)
    rule = fit(torch.from_numpy(probs), torch.from_numpy(y), 300, max_error=0.2)
    accepted = rule.accepts(torch.from_numpy(probs))
    assert accepted.dtype == torch.bool
    np.testing.assert_array_equal(accepted.numpy(), probs.max(axis=1) >= rule.threshold_)
    rule.save(tmp_path / "rule")
    again = load_rule(tmp_path / "rule")
    assert repr(again) == "Accept(max_error=0.2)"
    np.testing.assert_array_equal(again.accepts(probs), accepted.numpy())
    nothing = fit(probs, 1 - probs.argmax(axis=1), 300)
    nothing.save(tmp_path / "nothing")
    assert load_rule(tmp_path / "nothing").threshold_ == math.inf


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_error": 0}, r"max_error must be a finite number in \(0, 1\), got 0"),
        ({"max_error": 5}, r"max_error must be a finite number in \(0, 1\), got 5"),
        ({"confidence": 1.0}, "confidence must be a finite number"),
        ({"confidence": math.nan}, "confidence must be a finite number"),
    ],
)
def test_bad_parameters(params, message):
    probs, y, _ = problem(np.random.default_rng(0), 50)
    with pytest.raises(ValueError, match=message):
        fit(probs, y, 30, **params)


def test_bad_use():
    probs, y, _ = problem(np.random.default_rng(0), 500)
    with pytest.raises(NotFittedError, match="Accept is not fitted"):
        Accept().accepts(probs)
    with pytest.raises(ValueError, match="3 classes, but this Accept was fitted on 2"):
        fit(probs, y, 300).accepts(np.full((4, 3), 1 / 3))
    with pytest.raises(TypeError, match="mask is missing"):
        Accept().fit(probs, y, mask=None)


# --- parts ------------------------------------------------------------------------------------


@given(st.integers(0, 200))
def test_errors_are_counted_at_and_above_a_threshold(seed):
    rng = np.random.default_rng(seed)
    confidence, wrong = rng.integers(0, 8, 50) / 8, rng.random(50) < 0.3
    limits = candidate_thresholds(rng.integers(0, 9, 30) / 8, 10)
    accepted, errors = count_errors(confidence, wrong, limits)
    assert accepted.tolist() == [(confidence >= t).sum() for t in limits]
    assert errors.tolist() == [wrong[confidence >= t].sum() for t in limits]
    assert (np.diff(limits) < 0).all()


@given(st.floats(0.005, 0.5), st.floats(0.01, 0.5))
def test_labels_without_error_are_just_enough(max_error, risk):
    needed = labels_without_error(max_error, risk)
    assert binom.cdf(0, needed, max_error) <= risk + 1e-12
    assert binom.cdf(0, needed - 1, max_error) > risk - 1e-12


def test_fallback_wastes_nothing_when_all_pass():
    own = np.array([0.05, 0.05, 0.0, 0.0])
    assert fallback(np.array([0.04, 0.09, 0.099]), own) == 2
    assert fallback(np.array([0.06, 0.09, 0.099]), own) is None
    assert fallback(np.array([0.06, 0.05, 0.05, 0.06]), own) == 2
    assert fallback(np.array([0.001]), np.zeros(1)) is None


def test_fallback_keeps_the_risk_whatever_is_true():
    # All hypotheses true, p-values uniform and independent: the worst case.
    rng = np.random.default_rng(0)
    own = np.zeros(8)
    own[[0, 2, 5]] = 0.2 / 3
    found = [fallback(rng.random(8), own) is not None for _ in range(4000)]
    assert np.mean(found) == pytest.approx(0.2, abs=0.02)


def test_starts_double_and_need_enough_labels():
    accepted = np.arange(0, 2001)
    starts = accepted[start_positions(accepted, 0.05, 0.1)]
    assert starts.tolist() == [67, 134, 268]
    assert accepted[start_positions(accepted[:240], 0.05, 0.1)].tolist() == [59, 118]
    assert accepted[start_positions(accepted[:200], 0.05, 0.1)].tolist() == [45]
    assert start_positions(accepted[:44], 0.05, 0.1).size == 0


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
        best, _ = lowest_threshold(*counts, allowed, risk, rest=np.array([rest]), expected=expected)
        assert (best == 0) == passes
    few = lowest_threshold(*counts, 0.9, 0.1, rest=np.array([0]), expected=np.zeros(1))
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
        best, found = lowest_threshold(accepted, errors, 0.1, risk, expected=expected)
        starts = start_positions(accepted, 0.1, risk)
        assert set(found) == {*starts, likely}
        assert len(found) == 2
        assert best == (likely if passes else None)


def test_subclasses_without_a_name_of_their_own_do_not_take_the_place_of_a_rule(tmp_path):
    class Quiet(Accept):
        pass

    class Named(Accept):
        name = "accept-of-a-test"

    probs, y, _ = problem(np.random.default_rng(0), 300)
    for rule, cls in ((Accept(), Accept), (Named(), Named), (Quiet(), Accept)):
        rule.fit(probs, y, mask=range(200)).save(tmp_path / "rule")
        assert type(load_rule(tmp_path / "rule")) is cls
