"""Vector scaling: known answers, an independent optimiser, its limits."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from simi_mailbox.calibrators import TemperatureScaling, VectorScaling
from tests.calibrators.problems import draw


def test_recovers_scales_and_bias() -> None:
    z = np.random.default_rng(0).normal(size=(40_000, 4)) * 2
    scales, bias = np.array([0.5, 1.0, 1.5, 2.0]), np.array([0.0, 0.8, -0.4, -0.4])
    cal = VectorScaling().fit(z, draw(z * scales + bias), mask=np.arange(len(z)))
    np.testing.assert_allclose(cal.scales_, scales, rtol=0.05)
    # A constant added to all biases changes nothing: the penalty makes them sum to zero.
    np.testing.assert_allclose(cal.bias_, bias, atol=0.05)


@pytest.mark.parametrize("bias", [True, False])
def test_agrees_with_an_independent_optimiser(bias: bool) -> None:
    z = np.random.default_rng(2).normal(size=(60, 3)) * 3
    y = draw(z / 2)
    nodes = np.arange(60)
    cal = VectorScaling(bias=bias, penalty=0.7).fit(z, y, mask=nodes)
    temperature = TemperatureScaling().fit(z, y, mask=nodes).temperature_

    def loss(flat: np.ndarray) -> float:
        w, b = flat[:3], flat[3:] if bias else np.zeros(3)
        fit = -log_softmax(z * w + b, axis=1)[nodes, y].mean()
        return float(fit + 0.7 / 120 * (((temperature * w - 1) ** 2).sum() + (b**2).sum()))

    found = minimize(loss, np.concatenate([np.ones(3), np.zeros(3 * bias)]), tol=1e-10)
    np.testing.assert_allclose(cal.scales_, found.x[:3], atol=1e-5)
    np.testing.assert_allclose(cal.bias_, found.x[3:] if bias else 0.0, atol=1e-5)


def test_two_classes_are_logistic_regression() -> None:
    score = np.random.default_rng(3).normal(size=500)
    z = np.stack([np.zeros(500), score], axis=1)
    y = draw(z * 2 + [0.0, 0.5])
    cal = VectorScaling(penalty=1e-7).fit(z, y, mask=np.arange(500))
    reference = LogisticRegression(C=1e10, tol=1e-10).fit(score[:, None], y)
    np.testing.assert_allclose(
        cal.predict_proba(z), reference.predict_proba(score[:, None]), atol=1e-5
    )


def test_endless_penalty_is_temperature_scaling() -> None:
    z = np.random.default_rng(4).normal(size=(200, 3)) * 3
    y, nodes = draw(z / 2), np.arange(200)
    pulled = VectorScaling(penalty=1e12).fit(z, y, mask=nodes).predict_proba(z)
    plain = TemperatureScaling().fit(z, y, mask=nodes).predict_proba(z)
    np.testing.assert_allclose(pulled, plain, atol=1e-8)


def test_class_without_label_keeps_a_finite_bias() -> None:
    z = np.random.default_rng(5).normal(size=(300, 4))
    y = draw(z[:, :3])
    cal = VectorScaling().fit(z, y, mask=np.arange(300))
    assert -20 < cal.bias_[3] < cal.bias_[:3].min()
    rare = softmax(z * cal.scales_ + cal.bias_, axis=1)[:, 3].mean()
    assert 0 < rare < 0.02
