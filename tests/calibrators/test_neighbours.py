"""RBS and LCCal: support by hand and dense loops, known temperatures, constants by brute force."""

import itertools

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from simi_mailbox.calibrators import LCCal, RatioBinnedScaling, TemperatureScaling
from simi_mailbox.calibrators.neighbours import OFFSETS, THRESHOLDS, mean_support
from simi_mailbox.validation import NodeInputs
from tests.calibrators.problems import cloud, draw


def test_support_against_a_dense_loop():
    z, graph = cloud(40)
    p = softmax(z, axis=1)
    found = mean_support(NodeInputs(torch.from_numpy(z), graph=graph))
    for i in range(40):
        neighbours = graph.neighbours(i).numpy()
        expected = p[neighbours, p[i].argmax()].mean() if len(neighbours) else 1.0
        assert found[i].item() == pytest.approx(expected)


def test_recovers_the_temperature_of_each_bin():
    z, graph = cloud(40_000)
    s = mean_support(NodeInputs(torch.from_numpy(z), graph=graph)).numpy()
    truth = np.array([3.0, 1.5, 1.2])
    scaled = z / truth[np.minimum((s * 3).astype(int), 2)][:, None]
    y = draw(scaled, 1)
    cal = RatioBinnedScaling(bins=3).fit(z, y, graph=graph, mask=np.arange(len(z)))
    np.testing.assert_allclose(cal.temperatures_, truth, rtol=0.05)


def test_edges_belong_to_the_bin_below():
    # Two classes at equal odds: the neighbour's support is exactly 1/2.
    z = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    cal = RatioBinnedScaling(bins=2).fit(z, [0, 1, 0, 1], graph=[[0], [1]], mask=range(4))
    cal.temperatures_ = np.array([10.0, 20.0])
    found = cal.node_temperatures(z, graph=[[0], [1]])
    # Node 0 hears 1/2; node 1 hears 0.73; nodes 2 and 3 hear nobody and count as supported.
    np.testing.assert_array_equal(found, [10.0, 20.0, 20.0, 20.0])


def test_bin_without_optimum_takes_the_common_temperature():
    z, graph = cloud(200)
    s = mean_support(NodeInputs(torch.from_numpy(z), graph=graph)).numpy()
    y = draw(z / 2, 2)
    high = s > 0.5
    y[high] = z[high].argmax(1)  # all right: colder is always better
    common = TemperatureScaling().fit(z, y, mask=np.arange(200)).temperature_
    cal = RatioBinnedScaling(bins=2).fit(z, y, graph=graph, mask=np.arange(200))
    assert cal.temperatures_[1] == pytest.approx(common)
    assert cal.temperatures_[0] > common
    # And a bin nobody is in.
    low = np.flatnonzero(~high)
    cal = RatioBinnedScaling(bins=2).fit(z, y, graph=graph, mask=low)
    assert cal.temperatures_[1] == pytest.approx(cal.temperatures_[0])


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
def test_temperatures_of_lccal_against_the_dense_formula(constants):
    z, graph = cloud(60, alone=2)
    threshold, over, under = constants
    cal = LCCal(threshold=threshold, over=over, under=under)
    cal.fit(z, np.zeros(60, dtype=int), graph=graph, mask=[0])
    np.testing.assert_allclose(
        cal.node_temperatures(z, graph=graph), dense_temperatures(z, graph, *constants)
    )


def test_constants_of_lccal_are_the_best_of_the_grid():
    z, graph = cloud(80, 1, alone=2)
    y = draw(z / 1.7, 2)
    cal = LCCal(threshold=0.5).fit(z, y, graph=graph, mask=np.arange(80))

    def loss(over, under):
        t = dense_temperatures(z, graph, 0.5, over, under)
        return float(-log_softmax(z / t[:, None], axis=1)[np.arange(80), y].sum())

    best = min(itertools.product(OFFSETS, OFFSETS), key=lambda pair: loss(*pair))
    assert (cal.over_, cal.under_) == best


def test_lccal_recovers_the_truth_of_its_family():
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
