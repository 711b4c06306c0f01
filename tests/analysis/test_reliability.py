"""Reliability bands as arrays."""

import numpy as np

from simi_mailbox import metrics
from simi_mailbox.analysis import reliability_curve


def test_band_agrees_with_resampling_the_nodes_themselves(rng):
    probs = rng.dirichlet([3.0, 1.0], size=500)
    y = (rng.random(500) > 0.8).astype(int)
    curve = reliability_curve(probs, y, bins=5, draws=4000, seed=1)
    resampled = []
    for _ in range(1500):
        chosen = rng.integers(0, 500, 500)
        resampled.append(metrics.reliability(probs[chosen], y[chosen], bins=5).accuracy)
    full = curve.counts > 20
    assert full.sum() == 3
    low, high = np.quantile(np.array(resampled)[:, full], [0.025, 0.975], axis=0)
    np.testing.assert_allclose(curve.low[full], low, atol=0.02)
    np.testing.assert_allclose(curve.high[full], high, atol=0.02)


def test_band_of_a_bin_that_is_all_right_is_not_a_point():
    probs = np.tile([0.95, 0.05], (3, 1))
    curve = reliability_curve(probs, np.zeros(3, dtype=int), bins=10)
    assert curve.accuracy[9] == 1.0
    assert curve.low[9] < 0.5


def test_curve_is_that_of_the_chosen_nodes(rng):
    probs = rng.dirichlet([3.0, 1.0], size=100)
    y = np.zeros(100, dtype=int)
    curve = reliability_curve(probs, y, nodes=np.arange(40))
    expected = metrics.reliability(probs[:40], y[:40])
    np.testing.assert_array_equal(curve.accuracy, expected.accuracy)
    assert curve.ece == expected.ece
    same = reliability_curve(probs, y[:40], nodes=np.arange(40))
    np.testing.assert_array_equal(same.low, curve.low)
