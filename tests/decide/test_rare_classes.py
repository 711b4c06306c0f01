"""Acceptance and costs where one class is rare: nothing may hide behind an error rate."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from simi_mailbox.decide import Accept, Costs
from simi_mailbox.decide.costs import mean_interval
from simi_mailbox.exceptions import CalibrationWarning


def frauds(n=6000, share=0.03, seed=0):
    """Calibrated P(fraud) of a useful model, and labels."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.1, 0.1 * (1 - share) / share, n)
    return np.stack([1 - p, p], axis=1), (rng.random(n) < p).astype(int)


def accept(probs, y, mask=range(2000), **params):
    return Accept(**params).fit(probs, y, mask=mask, used_for_selection=False)


def test_a_rate_above_the_share_of_a_class_is_warned_of_with_the_missed():
    probs, y = frauds()
    with pytest.warns(CalibrationWarning, match="above the share of 1 of 2 classes") as told:
        rule = accept(probs, y, max_error=0.05)
    missed = int((y[:2000][rule.accepts(probs)[:2000]] == 1).sum())
    missed -= int((y[:2000] == 1)[rule.accepts(probs)[:2000] & (probs[:2000, 1] > 0.5)].sum())
    assert f"{missed} of {int(y[:2000].sum())} of class 1 are accepted as another" in str(
        told[0].message
    )
    assert rule.missed_.tolist()[1] == missed


def test_per_class_bounds_the_error_of_each_predicted_class():
    broken = np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for seed in range(60):
            probs, y = frauds(4000, 0.2, seed)
            rule = accept(probs, y, max_error=0.2, per_class=True)
            taken, winner = rule.accepts(probs), probs.argmax(axis=1)
            for c in range(2):
                mine = taken & (winner == c)
                broken[c] += bool(mine.any() and (1 - probs[mine, c]).mean() > 0.2)
    assert (broken / 60 <= 0.15).all()
    assert np.isfinite(rule.thresholds_).all()


def test_per_class_says_nothing_of_rare_classes_and_has_a_threshold_each():
    probs, y = frauds(6000, 0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule = accept(probs, y, max_error=0.25, per_class=True)
    assert rule.thresholds_[0] != rule.thresholds_[1]
    assert rule.threshold_ == rule.thresholds_.min()


def test_the_finite_version_bounds_the_observed_share():
    """The rate is kept; the share of 200 nodes exceeds it more often, unless it is asked for."""
    exceeded = {True: 0, False: 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        for seed in range(150):
            rng = np.random.default_rng(seed)
            top = rng.uniform(0.5, 1.0, 1200)
            probs = np.stack([top, 1 - top], axis=1)
            y = (rng.random(1200) > top).astype(int)
            for finite in exceeded:
                rule = accept(probs, y, range(1000), max_error=0.1, finite=finite)
                taken = rule.accepts(probs)[1000:]
                exceeded[finite] += bool(taken.any() and y[1000:][taken].mean() > 0.1)
    assert exceeded[True] / 150 <= 0.15 < exceeded[False] / 150


def test_finite_needs_other_nodes():
    probs, y = frauds(300)
    with pytest.raises(ValueError, match="nodes outside the mask, and there are none"):
        accept(probs, y, range(300), finite=True)


def test_costs_without_a_reviewer():
    wrong = np.array([[0.0, 1.0], [20.0, 0.0]])  # a missed fraud costs twenty reviews
    probs, y = frauds()
    rule = Costs(wrong=wrong, defer=None).fit(probs, y, mask=range(2000))
    actions = rule.actions(probs)
    assert set(actions.tolist()) == {0, 1}
    assert (actions == (20 * probs[:, 1] > probs[:, 0])).all()
    assert rule.saving_ > 0  # beside acting on the predicted class
    assert rule.shares_["defer"] == 0


@pytest.mark.parametrize("errors", [0.3, 1.0, 3.0])
def test_the_interval_of_a_saving_holds_where_nobody_erred(errors):
    n, held = 200, 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        saved = np.where(rng.random(n) < errors / n, -9.0, 1.0)
        low, high = mean_interval(saved, (-9.0, 1.0))
        held += low <= 1 - 10 * errors / n <= high
    assert held / 400 >= 0.94
