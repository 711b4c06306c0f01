"""Ensemble temperature scaling: known weights, an independent algorithm, its limits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import softmax

from simi_mailbox.calibrators import EnsembleTemperatureScaling, TemperatureScaling
from simi_mailbox.calibrators.ensemble_temperature import ensemble_softmax, ensemble_weights


def draw(probs: np.ndarray, seed: int = 0) -> np.ndarray:
    uniform = np.random.default_rng(seed).random((len(probs), 1))
    return (probs.cumsum(axis=1)[:, :-1] < uniform).sum(axis=1)


def members(z: np.ndarray, y: np.ndarray, temperature: float) -> np.ndarray:
    rows = np.arange(len(y))
    parts = (softmax(z / temperature, axis=1), softmax(z, axis=1), np.full(z.shape, 1 / z.shape[1]))
    return np.stack([part[rows, y] for part in parts], axis=1)


def test_recovers_the_weights() -> None:
    z = np.random.default_rng(0).normal(size=(60_000, 4)) * 3
    weights = np.array([0.5, 0.3, 0.2])
    y = draw(ensemble_softmax(torch.from_numpy(z), 6.0, weights).numpy())
    found = ensemble_weights(torch.from_numpy(z), torch.from_numpy(y), 6.0)
    np.testing.assert_allclose(found, weights, atol=0.03)


def test_recovers_a_mixture_with_uniform_noise() -> None:
    z = np.random.default_rng(1).normal(size=(20_000, 4)) * 4
    truth = 0.7 * softmax(z, axis=1) + 0.3 / 4
    cal = EnsembleTemperatureScaling().fit(z, draw(truth), mask=np.arange(len(z)))
    probs = cal.predict_proba(z)
    assert np.abs(probs - truth).mean() < 0.01
    plain = TemperatureScaling().fit(z, draw(truth), mask=np.arange(len(z))).predict_proba(z)
    assert np.abs(plain - truth).mean() > 0.02  # one temperature cannot say that


def test_agrees_with_expectation_maximisation() -> None:
    z = np.random.default_rng(2).normal(size=(300, 5)) * 3
    y = draw(0.8 * softmax(z / 3, axis=1) + 0.2 / 5)
    cal = EnsembleTemperatureScaling().fit(z, y, mask=np.arange(300))
    given = members(z, y, cal.temperature_)
    weights = np.full(3, 1 / 3)
    for _ in range(20_000):
        duty = given * weights
        weights = (duty / duty.sum(axis=1, keepdims=True)).mean(axis=0)
    expected = -np.log(given @ weights).mean()
    assert -np.log(given @ cal.weights_).mean() <= expected + 1e-9


def test_never_worse_than_temperature_scaling_on_its_own_labels() -> None:
    for seed in range(5):
        z = np.random.default_rng(seed).normal(size=(50, 3)) * 4
        y = np.random.default_rng(seed + 10).integers(3, size=50)
        cal = EnsembleTemperatureScaling().fit(z, y, mask=np.arange(50))
        given = members(z, y, cal.temperature_)
        assert -np.log(given @ cal.weights_).mean() <= -np.log(given[:, 0]).mean() + 1e-9
        assert cal.weights_.min() >= 0
        assert abs(cal.weights_.sum() - 1) < 1e-12


def test_enormous_logits_do_not_overflow() -> None:
    z = np.random.default_rng(3).normal(size=(100, 3)) * 1e4
    y = z.argmax(1)
    y[::4] = (y[::4] + 1) % 3
    probs = EnsembleTemperatureScaling().fit(z, y, mask=np.arange(100)).predict_proba(z)
    assert abs(probs.max(axis=1).mean() - 0.75) < 0.05


@pytest.mark.parametrize("seed", range(20))
def test_no_member_alone_could_do_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 9))
    z = rng.normal(size=(60, k)) * 10 ** rng.uniform(-2, 3)
    y = (z / z.std() + rng.gumbel(size=z.shape)).argmax(1)
    cal = EnsembleTemperatureScaling().fit(z, y, mask=np.arange(60))
    rows, t = np.arange(60), cal.temperature_
    members = np.stack([softmax(z / t, axis=1)[rows, y], softmax(z, axis=1)[rows, y]])
    members = np.concatenate([members, np.full((1, 60), 1 / k)])
    mixed = cal.weights_ @ members
    assert ((members / mixed).mean(axis=1) <= 1 + 2e-5).all()
