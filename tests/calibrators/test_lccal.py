"""LCCal: the formula against dense loops, the constants against brute force."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from simi_mailbox.calibrators import LCCal
from simi_mailbox.calibrators.lccal import OFFSETS, THRESHOLDS
from tests.calibrators.problems import cloud, draw


def dense_temperatures(z, graph, threshold, over, under):
    """The released computation: all pairs, then the edges."""
    n = len(z)
    p = softmax(z, axis=1)
    conf, predicted = p.max(axis=1), p.argmax(axis=1)
    unit = p / np.linalg.norm(p, axis=1, keepdims=True)
    adjacency = np.zeros((n, n))
    adjacency[graph.rows().numpy(), graph.indices.numpy()] = 1
    heard = ((adjacency * (unit @ unit.T)) @ p)[np.arange(n), predicted]
    local = (conf + heard / np.maximum(adjacency.sum(axis=1), 1)) / 2
    low = local <= threshold
    left = np.exp(conf - local) - 1 + over + (conf[low].mean() if low.any() else conf.mean())
    right = (1 - conf) * (np.exp(-local) - 1) + under
    right = right + (conf[~low].mean() if (~low).any() else conf.mean())
    return np.maximum(np.where(low, left, right), 0.1)


@pytest.mark.parametrize("constants", [(0.35, 0.1, 0.0), (0.4, 1.0, 1.0), (0.5, -2.0, 0.0)])
def test_temperatures_against_the_dense_formula(constants):
    z, graph = cloud(60, alone=2)
    threshold, over, under = constants
    cal = LCCal(threshold=threshold, over=over, under=under)
    cal.fit(z, np.zeros(60, dtype=int), graph=graph, mask=[0])
    np.testing.assert_allclose(
        cal.node_temperatures(z, graph=graph), dense_temperatures(z, graph, *constants)
    )


def test_constants_are_the_best_of_the_grid():
    z, graph = cloud(80, 1, alone=2)
    y = draw(z / 1.7, 2)
    cal = LCCal(threshold=0.5).fit(z, y, graph=graph, mask=np.arange(80))

    def loss(over, under):
        t = dense_temperatures(z, graph, 0.5, over, under)
        return float(-log_softmax(z / t[:, None], axis=1)[np.arange(80), y].sum())

    best = min(itertools.product(OFFSETS, OFFSETS), key=lambda pair: loss(*pair))
    assert (cal.over_, cal.under_) == best


def test_recovers_the_truth_of_its_family():
    z, graph = cloud(3000, 3, alone=2)
    truth = dense_temperatures(z, graph, 0.6, 2.0, 0.4)
    log_truth = log_softmax(z / truth[:, None], axis=1)
    y = draw(log_truth, 4)
    cal = LCCal().fit(z, y, graph=graph, mask=np.arange(1500))
    rest = np.arange(1500, 3000)
    found = -np.log(cal.predict_proba(z, graph=graph))[rest, y[rest]].mean()
    oracle = -log_truth[rest, y[rest]].mean()
    assert found < 1.005 * oracle
    assert cal.threshold_ in THRESHOLDS
