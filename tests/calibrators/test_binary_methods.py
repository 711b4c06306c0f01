"""Platt scaling and beta calibration: known answers, references, separable labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from simi_mailbox.calibrators.platt import log_probabilities
from sklearn.calibration import _SigmoidCalibration

from simi_mailbox import calibrators
from simi_mailbox.exceptions import CalibrationWarning
from tests.calibrators.problems import binary

BOTH = pytest.mark.parametrize("name", ["platt", "beta"])


def test_platt_is_scikit_learns_sigmoid():
    s, y = binary(600, seed=1)
    ours = calibrators.get("platt")().fit(s, y, mask=range(600), input_type="binary-logits")
    theirs = _SigmoidCalibration().fit(s, y)
    assert np.abs(ours.predict_proba(s)[:, 1] - theirs.predict(s)).max() < 1e-3
    # ours is at the minimum itself
    targets = np.where(y == 1, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))
    x = np.stack([s, np.ones(600)], axis=1)
    q = expit(x @ ours.coefficients_[1][[0, 2]])
    assert np.abs(x.T @ (q - targets)).max() < 1e-6


@pytest.mark.parametrize("flip", [1, -1])
def test_beta_is_the_constrained_minimum(flip):
    s, y = binary(400, seed=2)
    s = flip * s  # -1: higher scores, fewer positives: both bounds hold
    cal = calibrators.get("beta")().fit(s, y, mask=range(400), input_type="binary-logits")
    x = np.stack([-np.logaddexp(0, -s), np.logaddexp(0, s), np.ones(400)], axis=1)
    n = y.sum()
    t = np.where(y == 1, (n + 1) / (n + 2), 1 / (400 - n + 2))

    def loss(b):
        return np.sum(np.logaddexp(0, x @ b) - t * (x @ b))

    best = minimize(loss, [1, 1, 0], bounds=[(0, None), (0, None), (None, None)])
    assert loss(cal.coefficients_[1] * [1, -1, 1]) <= best.fun + 1e-6


@BOTH
def test_separable_and_one_sided_labels_stay_finite(name):
    s = np.linspace(-3, 3, 40)
    for y in (s > 0, np.zeros(40)):
        cal = calibrators.get(name)()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrationWarning)  # all of one class
            cal.fit(s, y.astype(int), mask=range(40), input_type="binary-logits")
        found = cal.predict_proba(s)
        assert np.isfinite(found).all()
        assert found.min() > 0
        assert found.max() < 1


@BOTH
def test_both_fits_of_two_classes_are_one(name):
    s, y = binary(300, seed=3)
    cal = calibrators.get(name)().fit(s, y, mask=range(300), input_type="binary-logits")
    one, other = cal.coefficients_
    assert np.allclose(one, [-other[1], -other[0], -other[2]], atol=1e-6)


@BOTH
def test_more_classes_are_one_against_the_rest(name):
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=(2000, 3))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    cal = calibrators.get(name)().fit(2 * z, y, mask=range(1000))
    test = slice(1000, None)
    p = cal.predict_proba(2 * z)[test]
    raw = calibrators.get("uncalibrated")().fit(2 * z, y, mask=range(9)).predict_proba(2 * z)[test]
    own = np.arange(1000), y[test]
    assert -np.log(p[own]).mean() < -np.log(raw[own]).mean() - 0.1
    assert np.allclose(p.sum(axis=1), 1)


def test_logarithms_are_exact_where_a_class_is_certain():
    import torch

    z = torch.tensor([[0.0, 60.0, -5.0], [1.0, 2.0, 3.0]])
    log_p, log_rest = log_probabilities(z)
    assert log_rest[0, 1] == pytest.approx(-60.0 + np.log1p(np.exp(-5.0)), abs=1e-9)
    assert torch.allclose(log_p.exp() + log_rest.exp(), torch.ones(2, 3, dtype=torch.float64))
