"""Accuracy, NLL and Brier against scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from simi_mailbox.metrics import accuracy, brier, nll

from .samples import overconfident, predictions


@pytest.mark.parametrize(("n", "classes"), [(200, 2), (1000, 7), (500, 40)])
def test_scores_equal_scikit_learn(n, classes):
    probs, y = overconfident(n, classes, seed=classes)
    probs = np.maximum(probs, 1e-12)  # scikit-learn clips at 2e-16, we at 1e-38
    probs /= probs.sum(axis=1, keepdims=True)
    labels = np.arange(classes)
    assert accuracy(probs, y) == accuracy_score(y, probs.argmax(axis=1))
    assert nll(probs, y) == pytest.approx(log_loss(y, probs, labels=labels), rel=1e-12)
    reference = brier_score_loss(y, probs, labels=labels, scale_by_half=False)
    assert brier(probs, y) == pytest.approx(reference, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_zero_at_the_true_class_has_a_documented_finite_cost(dtype):
    probs = np.array([[1, 0]], dtype=dtype)
    assert nll(probs, np.array([0])) == 0.0
    assert nll(probs, np.array([1])) == pytest.approx(87.3365, abs=1e-4)


def test_small_probabilities_are_not_clipped_above_the_floor():
    probs = np.array([[1.0, 1e-30]])
    assert nll(probs, np.array([1])) == pytest.approx(30 * np.log(10))


def test_brier_at_its_ends():
    sure = np.array([[1.0, 0.0, 0.0]])
    assert brier(sure, np.array([0])) == 0.0
    assert brier(sure, np.array([2])) == 2.0


def test_a_tie_predicts_the_first_class():
    even = np.array([[0.5, 0.5]])
    assert accuracy(even, np.array([0])) == 1.0
    assert accuracy(even, np.array([1])) == 0.0


@given(predictions())
def test_bounds_and_the_brier_identity(sample):
    probs, y = sample
    onehot = np.eye(probs.shape[1])[y]
    assert 0 <= accuracy(probs, y) <= 1
    assert 0 <= nll(probs, y) < 87.34
    assert 0 <= brier(probs, y) <= 2
    squared = ((probs - onehot) ** 2).sum(axis=1).mean()
    assert brier(probs, y) == pytest.approx(squared, abs=1e-12)


@given(predictions())
def test_the_order_of_nodes_does_not_matter(sample):
    probs, y = sample
    for metric in (accuracy, nll, brier):
        assert metric(probs[::-1], y[::-1]) == pytest.approx(metric(probs, y), abs=1e-12)
