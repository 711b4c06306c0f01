"""Preserved predictions: the nearest probabilities, against scipy's minimiser and enumeration."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax

from simi_mailbox.softmax import APART, preserve_predictions


def rows(seed, m=60, k=5, sharpness=2.0):
    rng = np.random.default_rng(seed)
    return softmax(rng.normal(size=(m, k)) * sharpness, axis=1), rng.integers(k, size=m)


def preserved(probs, predicted, dtype=torch.float64):
    found = torch.from_numpy(probs.copy()).to(dtype)
    share = preserve_predictions(found, torch.from_numpy(predicted))
    return found.numpy(), share


def kl(p, q):
    """From the nearest row p to the row q that was meant: Σ q log(q / p)."""
    return float((q * np.log(q / p)).sum())


@given(
    seed=st.integers(0, 10_000),
    k=st.integers(2, 8),
    sharpness=st.floats(0.01, 20),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_the_predicted_class_is_on_top_and_other_rows_are_untouched(seed, k, sharpness, dtype):
    probs, predicted = rows(seed, k=k, sharpness=sharpness)
    probs = torch.from_numpy(probs).to(dtype).numpy()
    found, share = preserved(probs, predicted, dtype)
    np.testing.assert_array_equal(found.argmax(axis=1), predicted)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)
    assert (found >= 0).all()
    fine = probs[np.arange(60), predicted] == probs.max(axis=1)
    assert share == pytest.approx(1 - fine.mean())
    np.testing.assert_array_equal(found[fine], probs[fine])


@given(seed=st.integers(0, 10_000), k=st.integers(2, 8), sharpness=st.floats(0.01, 5))
def test_no_pooling_of_classes_comes_nearer(seed, k, sharpness):
    """The nearest row pools some classes with the predicted one: all sets are tried."""
    probs, predicted = rows(seed, m=5, k=k, sharpness=sharpness)
    found, _ = preserved(probs, predicted)
    for q, top, p in zip(probs, predicted, found, strict=True):
        others = [c for c in range(k) if c != top]
        best = np.inf
        for chosen in range(1 << len(others)):
            pool = [top, *(c for bit, c in enumerate(others) if chosen >> bit & 1)]
            trial = q.copy()
            trial[pool] = q[pool].mean()
            if trial[top] >= trial.max() - 1e-15:
                best = min(best, kl(trial, q))
        assert kl(p, q) == pytest.approx(best, abs=4 * APART)  # pooled classes are set apart


@pytest.mark.parametrize("seed", range(5))
def test_scipy_finds_the_same_row(seed):
    (q,), (top,) = rows(seed, m=1)
    q = np.roll(np.sort(q), top + 1)  # the predicted class is the least likely
    (found,), _ = preserved(q[None], np.array([top]))
    limits = [{"type": "eq", "fun": lambda p: p.sum() - 1}]
    limits += [{"type": "ineq", "fun": lambda p, c=c: p[top] - p[c]} for c in range(5) if c != top]
    best = minimize(
        lambda p: -(q * np.log(p)).sum(), np.full(5, 0.2), bounds=[(1e-9, 1)] * 5,
        constraints=limits, method="SLSQP", options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    np.testing.assert_allclose(found, best.x, atol=1e-5)
