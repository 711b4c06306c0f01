"""Ratio-binned scaling: support by hand, known temperatures, bins without an optimum."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from simi_mailbox.calibrators import RatioBinnedScaling, TemperatureScaling
from simi_mailbox.calibrators.ratio_binned import mean_support
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
