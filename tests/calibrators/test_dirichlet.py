"""Dirichlet calibration: scikit-learn agrees, a known matrix is found, the optimum is one."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from simi_mailbox import CalibrationWarning
from simi_mailbox.calibrators import Dirichlet, VectorScaling
from tests.calibrators.problems import draw


def test_recovers_a_known_matrix() -> None:
    z = np.random.default_rng(0).normal(size=(20_000, 3)) * 2
    weights = np.array([[0.8, 0.2, 0.0], [-0.1, 0.5, 0.1], [0.0, 0.0, 1.2]])
    bias = np.array([0.3, -0.3, 0.0])
    truth = softmax(log_softmax(z, axis=1) @ weights.T + bias, axis=1)
    cal = Dirichlet(penalty=1e-6).fit(z, draw(np.log(truth)), mask=np.arange(len(z)))
    assert np.abs(cal.predict_proba(z) - truth).mean() < 0.01


def test_without_regularisation_it_is_logistic_regression() -> None:
    z = np.random.default_rng(1).normal(size=(400, 3)) * 2
    y = draw(z / 2)
    found = Dirichlet(penalty=1e-9).fit(z, y, mask=np.arange(400)).predict_proba(z)
    x = log_softmax(z, axis=1)
    reference = LogisticRegression(C=1e8, tol=1e-10, max_iter=5000).fit(x, y)
    np.testing.assert_allclose(found, reference.predict_proba(x), atol=2e-4)


def test_gradient_vanishes_at_the_fit() -> None:
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


def test_strong_regularisation_leaves_class_wise_scales() -> None:
    z = np.random.default_rng(3).normal(size=(2000, 3)) * 2
    y = draw(z * [0.5, 1.0, 1.5])
    cal = Dirichlet(penalty=1e9).fit(z, y, mask=np.arange(2000))
    assert np.abs(cal.weights_ - np.diag(cal.weights_.diagonal())).max() < 1e-6
    assert np.abs(cal.bias_).max() < 1e-6
    # Vector scaling of log-probabilities is the same family.
    logs = log_softmax(z, axis=1)
    same = VectorScaling(bias=False, penalty=1e-9).fit(logs, y, mask=np.arange(2000))
    np.testing.assert_allclose(cal.weights_.diagonal(), same.scales_, rtol=1e-3)


def cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let L-BFGS stop after three iterations."""
    import scipy.optimize

    original = scipy.optimize.minimize

    def hasty(*args: Any, **options: Any) -> Any:
        return original(*args, **options | {"options": options["options"] | {"maxiter": 3}})

    monkeypatch.setattr(scipy.optimize, "minimize", hasty)


@pytest.mark.parametrize("size", [0.1, 3.0, 300.0])
def test_where_l_bfgs_gives_up_newton_goes_on(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(size=(70, 8)) * size
    y = (z / size + rng.gumbel(size=z.shape)).argmax(1)
    whole = Dirichlet().fit(z, y, mask=np.arange(70)).predict_proba(z)
    cut_short(monkeypatch)
    short = Dirichlet().fit(z, y, mask=np.arange(70)).predict_proba(z)
    np.testing.assert_allclose(short, whole, atol=1e-5)


def test_what_does_not_settle_says_by_how_much(monkeypatch: pytest.MonkeyPatch) -> None:
    from simi_mailbox.calibrators.parts import newton

    z = np.random.default_rng(3).normal(size=(70, 8))
    cut_short(monkeypatch)
    monkeypatch.setattr(newton, "STEPS", 1)
    with pytest.warns(CalibrationWarning, match=r"the loss could still fall by about \d"):
        Dirichlet().fit(z, draw(z), mask=np.arange(70))
