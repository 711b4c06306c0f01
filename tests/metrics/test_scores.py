"""Accuracy, NLL and Brier against scikit-learn; of edges against the joint distribution."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

from simi_mailbox import metrics
from simi_mailbox.metrics import accuracy, brier, ece, edgewise_ece, nll

from .samples import overconfident


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
def test_ends_of_the_scores_and_ties(dtype):
    sure, even = np.array([[1, 0, 0]], dtype=dtype), np.array([[0.5, 0.5]], dtype=dtype)
    right, wrong = np.array([0]), np.array([1])
    assert (nll(sure, right), brier(sure, right), brier(sure, wrong)) == (0.0, 0.0, 2.0)
    assert nll(sure, wrong) == pytest.approx(87.3365, abs=1e-4)
    assert nll(np.array([[1.0, 1e-30]]), wrong) == pytest.approx(30 * np.log(10))
    assert (accuracy(even, right), accuracy(even, wrong)) == (1.0, 0.0)  # the first is predicted


@pytest.mark.parametrize(
    ("metric", "of_nodes"),
    [(edgewise_ece, ece), (metrics.edgewise_nll, nll), (metrics.edgewise_brier, brier)],
)
def test_edgewise_scores_are_those_of_the_joint_distribution(metric, of_nodes):
    edges = np.random.default_rng(0).integers(0, 200, (2, 600))
    left, right = edges
    probs, y = overconfident(200, 4, seed=0)
    pairs = np.einsum("ea,eb->eab", probs[left], probs[right]).reshape(len(left), -1)
    expected = pytest.approx(of_nodes(pairs, y[left] * 4 + y[right]))
    both_ways = np.concatenate([edges, edges[::-1]], axis=1)
    for given_edges in (edges, edges[::-1], both_ways):
        assert metric(probs, y, given_edges) == expected


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (np.zeros((2, 0), int), "at least one edge"),
        (np.zeros((3, 2), int), r"shape \(3, 2\).* expected integers \[2, edges\]"),
        (np.zeros((2, 2)), "dtype float64; expected integers"),
        (np.array([[0, 1], [1, 7]]), r"edge 1, \(1, 7\)"),
    ],
)
def test_bad_edges_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        edgewise_ece(np.eye(2), np.arange(2), edges)
