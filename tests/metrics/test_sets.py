"""Metrics of prediction sets against counting by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from simi_mailbox.metrics import coverage, coverage_by_group, mean_set_size, singleton_share
from simi_mailbox.metrics.sets import binomial_interval


@given(st.integers(0, 300), st.integers(1, 40), st.integers(2, 6))
def test_counts(seed, n, k):
    rng = np.random.default_rng(seed)
    sets, y = rng.random((n, k)) < 0.4, rng.integers(0, k, n)
    sizes = [sum(row) for row in sets.tolist()]
    assert coverage(sets, y) == pytest.approx(sum(sets[i, y[i]] for i in range(n)) / n)
    assert mean_set_size(sets) == pytest.approx(sum(sizes) / n)
    assert singleton_share(sets) == pytest.approx(sizes.count(1) / n)
    as_tensors = coverage(torch.from_numpy(sets), torch.from_numpy(y))
    assert as_tensors == coverage(sets, y)


@given(st.integers(0, 60), st.integers(1, 60), st.sampled_from([0.9, 0.95]))
def test_intervals_are_those_of_clopper_and_pearson(hits, count, level):
    hits = min(hits, count)
    low, high = binomial_interval(np.array([hits]), np.array([count]), level)
    expected = binomtest(hits, count).proportion_ci(level, method="exact")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high))


def test_groups_and_the_worst_of_them():
    rng = np.random.default_rng(0)
    groups = rng.integers(10, 15, 3000)
    hit = rng.random(3000) < np.where(groups == 12, 0.7, 0.9)
    sets = np.stack([hit, ~hit], axis=1)
    found = coverage_by_group(sets, np.zeros(3000, int), groups)
    assert found.groups.tolist() == [10, 11, 12, 13, 14]
    for g, name in enumerate(found.groups):
        assert found.coverage[g] == pytest.approx(hit[groups == name].mean())
        assert found.counts[g] == (groups == name).sum()
    assert found.worst == found.coverage[2]
    assert found.high[2] < found.worst_by_chance < hit.mean()  # not an accident


def test_the_least_of_many_groups_is_low_by_chance():
    rng = np.random.default_rng(1)
    worst = []
    for seed in range(60):
        hit = rng.random(1000) < 0.9
        groups = np.arange(1000) % 20
        sets = np.stack([hit, ~hit], axis=1)
        found = coverage_by_group(sets, np.zeros(1000, int), groups, seed=seed)
        worst.append((found.worst, found.worst_by_chance))
    real, expected = np.mean(worst, axis=0)
    assert real == pytest.approx(expected, abs=0.01)
    assert real < 0.85


@pytest.mark.parametrize(
    ("sets", "y", "groups", "message"),
    [
        (np.ones((3, 2)), np.zeros(3, int), None, "dtype float64"),
        (np.ones(3, bool), np.zeros(3, int), None, r"expected booleans \[nodes, classes\]"),
        (np.ones((0, 2), bool), np.zeros(0, int), None, "not empty"),
        (np.ones((3, 2), bool), np.full(3, 2), None, "node 0 has label 2"),
        (np.ones((3, 2), bool), np.zeros(2, int), None, "expected one per node"),
        (np.ones((3, 2), bool), np.zeros(3, int), np.zeros(2), "one group per node"),
    ],
)
def test_bad_input(sets, y, groups, message):
    with pytest.raises(ValueError, match=message):
        coverage(sets, y) if groups is None else coverage_by_group(sets, y, groups)
