"""Logistic regressions: known answers, independent optimisers, their limits."""

import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax
from sklearn.calibration import _SigmoidCalibration

from simi_mailbox import CalibrationWarning, calibrators
from simi_mailbox.calibrators import Dirichlet, TemperatureScaling, VectorScaling, logistic
from simi_mailbox.calibrators.logistic import log_probabilities
from tests.calibrators.problems import binary, draw

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
    z = torch.tensor([[0.0, 60.0, -5.0], [1.0, 2.0, 3.0]])
    log_p, log_rest = log_probabilities(z)
    assert log_rest[0, 1] == pytest.approx(-60.0 + np.log1p(np.exp(-5.0)), abs=1e-9)
    assert torch.allclose(log_p.exp() + log_rest.exp(), torch.ones(2, 3, dtype=torch.float64))


def test_recovers_scales_and_bias():
    z = np.random.default_rng(0).normal(size=(40_000, 4)) * 2
    scales, bias = np.array([0.5, 1.0, 1.5, 2.0]), np.array([0.0, 0.8, -0.4, -0.4])
    cal = VectorScaling().fit(z, draw(z * scales + bias), mask=np.arange(len(z)))
    np.testing.assert_allclose(cal.scales_, scales, rtol=0.05)
    # A constant added to all biases changes nothing: the penalty makes them sum to zero.
    np.testing.assert_allclose(cal.bias_, bias, atol=0.05)


@pytest.mark.parametrize("bias", [True, False])
def test_agrees_with_an_independent_optimiser(bias):
    z = np.random.default_rng(2).normal(size=(60, 3)) * 3
    y = draw(z / 2)
    nodes = np.arange(60)
    cal = VectorScaling(bias=bias, penalty=0.7).fit(z, y, mask=nodes)
    temperature = TemperatureScaling().fit(z, y, mask=nodes).temperature_

    def loss(flat):
        w, b = flat[:3], flat[3:] if bias else np.zeros(3)
        fit = -log_softmax(z * w + b, axis=1)[nodes, y].mean()
        return float(fit + 0.7 / 120 * (((temperature * w - 1) ** 2).sum() + (b**2).sum()))

    found = minimize(loss, np.concatenate([np.ones(3), np.zeros(3 * bias)]), tol=1e-10)
    np.testing.assert_allclose(cal.scales_, found.x[:3], atol=1e-5)
    np.testing.assert_allclose(cal.bias_, found.x[3:] if bias else 0.0, atol=1e-5)


def test_class_without_label_keeps_a_finite_bias():
    z = np.random.default_rng(5).normal(size=(300, 4))
    y = draw(z[:, :3])
    cal = VectorScaling().fit(z, y, mask=np.arange(300))
    assert -20 < cal.bias_[3] < cal.bias_[:3].min()
    rare = softmax(z * cal.scales_ + cal.bias_, axis=1)[:, 3].mean()
    assert 0 < rare < 0.02


def test_recovers_a_known_matrix():
    z = np.random.default_rng(0).normal(size=(20_000, 3)) * 2
    weights = np.array([[0.8, 0.2, 0.0], [-0.1, 0.5, 0.1], [0.0, 0.0, 1.2]])
    bias = np.array([0.3, -0.3, 0.0])
    truth = softmax(log_softmax(z, axis=1) @ weights.T + bias, axis=1)
    cal = Dirichlet(penalty=1e-6).fit(z, draw(np.log(truth)), mask=np.arange(len(z)))
    assert np.abs(cal.predict_proba(z) - truth).mean() < 0.01


def test_gradient_vanishes_at_the_fit():
    z = np.random.default_rng(2).normal(size=(80, 4)) * 2
    y = draw(z / 2)
    cal = Dirichlet(penalty=0.5, intercept_penalty=0.2).fit(z, y, mask=np.arange(80))
    w = torch.tensor(cal.weights_, requires_grad=True)
    b = torch.tensor(cal.bias_, requires_grad=True)
    x = torch.log_softmax(torch.from_numpy(z), dim=1)
    off = w - torch.diag(w.diagonal())
    loss = torch.nn.functional.cross_entropy(x @ w.T + b, torch.from_numpy(y))
    loss = loss + 0.5 * off.square().sum() / 12 + 0.2 * b.square().sum() / 4
    loss.backward()
    # What is left is the 1e-6 that keeps the diagonal finite.
    assert float(w.grad.abs().max()) < 2e-5
    assert float(b.grad.abs().max()) < 1e-6


def cut_short(monkeypatch):
    """Let L-BFGS stop after three iterations."""
    import scipy.optimize

    original = scipy.optimize.minimize

    def hasty(*args, **options):
        return original(*args, **options | {"options": options["options"] | {"maxiter": 3}})

    monkeypatch.setattr(scipy.optimize, "minimize", hasty)


@pytest.mark.parametrize("size", [0.1, 3.0, 300.0])
def test_where_l_bfgs_gives_up_newton_goes_on(size, monkeypatch):
    rng = np.random.default_rng(3)
    z = rng.normal(size=(70, 8)) * size
    y = (z / size + rng.gumbel(size=z.shape)).argmax(1)
    whole = Dirichlet().fit(z, y, mask=np.arange(70)).predict_proba(z)
    cut_short(monkeypatch)
    short = Dirichlet().fit(z, y, mask=np.arange(70)).predict_proba(z)
    np.testing.assert_allclose(short, whole, atol=1e-5)


def test_what_does_not_settle_says_by_how_much(monkeypatch):
    z = np.random.default_rng(3).normal(size=(70, 8))
    cut_short(monkeypatch)
    monkeypatch.setattr(logistic, "STEPS", 1)
    with pytest.warns(CalibrationWarning, match=r"the loss could still fall by about \d"):
        Dirichlet().fit(z, draw(z), mask=np.arange(70))
