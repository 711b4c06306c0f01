"""Edge-wise metrics against the joint distribution written out."""

import numpy as np
import pytest

from simi_mailbox.metrics import ece, edgewise_brier, edgewise_ece, edgewise_nll

from .samples import overconfident


@pytest.fixture
def edges():
    return np.random.default_rng(0).integers(0, 200, (2, 600))


def joint(probs, y, edges):
    """Distribution over label pairs of every edge, and the true pair."""
    left, right = edges
    pairs = np.einsum("ea,eb->eab", probs[left], probs[right]).reshape(len(left), -1)
    return pairs, y[left] * probs.shape[1] + y[right]


def test_equal_the_node_metrics_of_the_joint_distribution(edges):
    probs, y = overconfident(200, 4, seed=0)
    pairs, truth = joint(probs, y, edges)
    rows = np.arange(len(truth))
    assert edgewise_ece(probs, y, edges) == pytest.approx(ece(pairs, truth), abs=1e-12)
    assert edgewise_nll(probs, y, edges) == pytest.approx(-np.log(pairs[rows, truth]).mean())
    onehot = np.zeros_like(pairs)
    onehot[rows, truth] = 1
    brier = ((pairs - onehot) ** 2).sum(axis=1).mean()
    assert edgewise_brier(probs, y, edges) == pytest.approx(brier)


@pytest.mark.parametrize("metric", [edgewise_ece, edgewise_nll, edgewise_brier])
def test_direction_and_doubling_do_not_matter(metric, edges):
    probs, y = overconfident(200, 4, seed=1)
    value = metric(probs, y, edges)
    assert metric(probs, y, edges[::-1]) == pytest.approx(value)
    assert metric(probs, y, np.concatenate([edges, edges[::-1]], axis=1)) == pytest.approx(value)


@pytest.mark.parametrize(
    ("edges", "error", "message"),
    [
        (np.zeros((2, 0), int), ValueError, "no edge"),
        (np.zeros((3, 2), int), ValueError, r"expected \[2, edges\]"),
        (np.zeros((2, 2)), TypeError, "expected integers"),
        (np.array([[0, 1], [1, 7]]), ValueError, r"edge 1, \(1, 7\)"),
    ],
)
def test_bad_edges_are_refused(edges, error, message):
    with pytest.raises(error, match=message):
        edgewise_ece(np.eye(2), np.arange(2), edges)
