"""Reliability bands, groups, comparisons, temperatures and sensitivity as arrays."""

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.analysis import (
    compare_methods,
    group_map,
    reliability_curve,
    sensitivity,
    temperature_histogram,
)


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


@pytest.fixture
def table(rng):
    n = 200
    before = rng.dirichlet([3.0, 1.0, 1.0], size=n)
    after = before**0.5 / (before**0.5).sum(1, keepdims=True)
    groups = rng.integers(0, 4, n)
    groups[groups == 2] = 3  # a group without nodes stays, with no mean
    y = rng.integers(0, 3, n)
    given = {
        "similarity": rng.random(n),
        "temperatures": np.array([1.0, 2.0, 3.0, 4.0]),
        "calibration": np.arange(50),
        "nodes": np.arange(50, 200),
    }
    return groups, before, after, y, given


def test_group_map_against_loops(table):
    groups, before, after, y, given = table
    made = group_map(groups, before, after, y=y, **given)
    assert len(made) == 4
    assert made.sizes.sum() == 200
    for k in range(4):
        everyone = np.flatnonzero(groups == k)
        judged = everyone[everyone >= 50]
        assert made.calibration_labels[k] == (everyone < 50).sum()
        assert made.judged[k] == len(judged)
        if len(everyone) == 0:
            assert np.isnan(made.confidence[k])
            continue
        right = after[judged].argmax(1) == y[judged]
        np.testing.assert_allclose(made.confidence[k], before[everyone].max(1).mean())
        np.testing.assert_allclose(made.similarity[k], given["similarity"][everyone].mean())
        np.testing.assert_allclose(made.accuracy[k], right.mean())
        np.testing.assert_allclose(made.gap_before[k], right.mean() - before[judged].max(1).mean())
        np.testing.assert_allclose(made.gap_after[k], right.mean() - after[judged].max(1).mean())


def test_worst_groups_hold_the_most_error(table):
    groups, before, after, y, given = table
    made = group_map(groups, before, after, y=y, **given)
    mass = np.nan_to_num(np.abs(made.gap_after) * made.judged)
    assert made.worst(2).tolist() == np.argsort(-mass)[:2].tolist()
    assert 2 not in made.worst(10)


def test_group_map_of_node_temperatures_averages_them(table):
    groups, before, after, _, given = table
    given["temperatures"] = given["temperatures"][groups]
    made = group_map(groups, before, after, **given)
    np.testing.assert_allclose(made.temperatures[[0, 1, 3]], [1.0, 2.0, 4.0])
    assert np.isnan(made.accuracy).all()
    assert made.worst().size == 0


def test_group_map_refuses_what_does_not_fit(table):
    groups, before, after, _, given = table
    with pytest.raises(ValueError, match="group number for each of 200"):
        group_map(groups[:9], before, after, **given)
    with pytest.raises(ValueError, match="2 temperatures for 4 groups"):
        group_map(groups, before, after, **{**given, "temperatures": [1.0, 2.0]})


def test_comparison_holds_the_metrics_of_the_chosen_nodes(rng):
    probs = {"a": rng.dirichlet([3.0, 1.0], size=120), "b": rng.dirichlet([1.0, 1.0], size=120)}
    y = rng.integers(0, 2, 120)
    table = compare_methods(probs, y, nodes=np.arange(100), draws=60)
    for k, p in enumerate(probs.values()):
        assert table.values[k] == metrics.ece(p[:100], y[:100])
        assert table.floor[k] == metrics.noise_floor(p[:100]).mean
    assert (table.low <= table.high).all()
    scores = compare_methods(probs, y, metric="nll", draws=60)
    assert np.isnan(scores.floor).all()
    assert scores.values[0] == metrics.nll(probs["a"], y)
    with pytest.raises(ValueError, match="metric must be one of"):
        compare_methods(probs, y, metric="auc")
    with pytest.raises(ValueError, match="at least one"):
        compare_methods({}, y)


def test_temperature_histogram_counts_every_node(rng):
    t = np.exp(rng.normal(size=500))
    table = temperature_histogram(t, bins=12)
    inside = np.histogram(t, bins=table.edges * np.r_[1 - 1e-12, np.ones(11), 1 + 1e-12])[0]
    assert table.counts.tolist() == inside.tolist()
    assert table.counts.sum() == 500
    assert (table.smallest, table.largest) == (t.min(), t.max())


def test_one_temperature_for_all_is_one_bin_of_some_width():
    table = temperature_histogram(np.full(9, 1.7))
    assert table.counts.max() == 9
    assert table.edges[0] < 1.7 < table.edges[-1]


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [np.nan], [np.inf]])
def test_temperatures_must_be_positive(bad):
    with pytest.raises(ValueError, match="temperature"):
        temperature_histogram(np.array(bad))


def test_sensitivity_means_over_runs_and_refuses_ragged_input():
    curve = sensitivity([1, 2], [[1, 3], [2, 2]], parameter="λ", reference=[4.0, 6.0])
    assert curve.mean.tolist() == [2.0, 2.0]
    assert curve.std.tolist() == [1.0, 0.0]
    assert curve.reference == 5.0
    assert curve.runs == 2
    with pytest.raises(ValueError, match=r"shape \[values, runs\]"):
        sensitivity([1, 2, 3], [[1, 3], [2, 2]], parameter="λ")
