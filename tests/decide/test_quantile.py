"""Thresholds: exact ranks, groups, and the linear programme of overlapping groups."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from simi_mailbox.decide import sets
from tests.decide import references as by_hand

levels = st.sampled_from([0.5, 0.7, 0.8, 0.9, 0.95, 0.99])


@given(st.integers(0, 400) | st.just(20_011), levels | st.sampled_from([0.05, 0.31, 0.83]))
def test_the_threshold_is_the_ranked_score(count, level):
    """With so many scores, finding one by partition does not sort all others by the way."""
    scores = np.random.default_rng(count).random(count)
    assert sets.conformal_quantile(scores, level) == by_hand.threshold(scores, level)


@pytest.mark.parametrize("count", [9, 19, 29, 69, 99, 109, 139, 999, 9_999_999])
def test_the_rank_is_exact_where_floats_are_not(count):
    for tenths in (1, 3, 6, 7, 9):
        assert sets.rank(count, tenths / 10) == (count + 1) * tenths // 10
        needed = sets.labels_needed(tenths / 10)
        assert sets.rank(needed, tenths / 10) == needed
        assert sets.rank(needed - 1, tenths / 10) > needed - 1


@given(st.integers(0, 1000), st.integers(1, 60), levels)
def test_groups_are_by_themselves_and_equal_weights_change_nothing(seed, count, level):
    rng = np.random.default_rng(seed)
    scores, groups = rng.random(count), rng.integers(0, 4, count)
    expected = [sets.conformal_quantile(scores[groups == g], level) for g in range(5)]
    for weights in (None, np.full(count, 1.7)):
        found = sets.group_quantiles(scores, groups, 5, level, weights)
        np.testing.assert_array_equal(found, expected)


@given(st.integers(0, 1000), st.sampled_from([0.8, 0.9, 0.95]))
def test_groups_that_do_not_overlap_get_their_own_quantile(seed, level):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 3, 120)
    scores = rng.random(120)
    members = groups[:, None] == np.arange(3)
    for g in range(3):
        expected = sets.conformal_quantile(scores[groups == g], level)
        found = sets.overlapping_quantile(scores, members, np.arange(3) == g, level)
        assert found == pytest.approx(expected, abs=1e-9)
    # The last of three groups need not be named: it is the rest.
    found = sets.overlapping_quantile(scores, members[:, :2], np.array([False, False]), level)
    assert found == pytest.approx(sets.conformal_quantile(scores[groups == 2], level), abs=1e-9)


def below_its_own_fit(scores, members, member, level, own_score):
    """Whether a new node with this score lies on or below the quantile regression that has it."""
    s = np.append(scores, own_score)
    phi = np.column_stack([np.ones(len(s)), np.vstack([members, member])]).astype(float)
    n, g = phi.shape
    # min Σ level·up + (1 − level)·down with s = φβ + up − down: the definition itself.
    cost = np.concatenate([np.zeros(g), np.full(n, level), np.full(n, 1 - level)])
    equal = np.hstack([phi, np.eye(n), -np.eye(n)])
    bounds = [(None, None)] * g + [(0, None)] * (2 * n)
    fit = linprog(cost, A_eq=equal, b_eq=s, bounds=bounds, method="highs")
    return own_score <= phi[-1] @ fit.x[:g] + 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_overlapping_groups_against_the_definition(seed):
    rng = np.random.default_rng(seed)
    members = rng.random((60, 3)) < [0.5, 0.3, 0.6]
    scores = rng.random(60) + members @ [0.3, 0.0, -0.2]
    member = rng.random(3) < 0.5
    found = sets.overlapping_quantile(scores, members, member, 0.83)
    assert below_its_own_fit(scores, members, member, 0.83, found - 1e-4)
    assert not below_its_own_fit(scores, members, member, 0.83, found + 1e-4)


def test_a_group_without_labels_has_no_threshold():
    members = np.column_stack([np.ones(50, bool), np.zeros(50, bool)])
    scores = np.random.default_rng(0).random(50)
    assert sets.overlapping_quantile(scores, members, np.array([True, True]), 0.9) == math.inf
    assert math.isfinite(sets.overlapping_quantile(scores, members, np.array([True, False]), 0.9))


@given(st.integers(0, 1000), levels, st.integers(2, 4))
def test_weights_count_scores_several_times(seed, level, times):
    rng = np.random.default_rng(seed)
    scores, heavy = rng.random(80), rng.random(80) < 0.3
    weights = np.where(heavy, float(times), 1.0)
    found = sets.conformal_quantile(scores, level, weights)
    # The definition: the least score that this share of all weight, the new node's included, is at.
    total = weights.sum() * 81 / 80
    reached = np.array([weights[scores <= s].sum() for s in scores])
    enough = scores[reached >= level * total - 1e-9]
    assert found == (enough.min() if enough.size and sets.rank(80, level) <= 80 else math.inf)


@given(st.integers(0, 300))
def test_weights_mean_the_same_in_the_linear_programme(seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.random(70), rng.uniform(0.5, 2.0, 70)
    nobody = np.zeros((70, 1), bool)
    found = sets.overlapping_quantile(scores, nobody, np.array([False]), 0.9, weights)
    assert found == pytest.approx(sets.conformal_quantile(scores, 0.9, weights), abs=1e-9)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(2, 6))
def test_edges_of_parts_are_values_that_have_others_below_them(values, groups):
    ordered = sorted(values)
    cuts = {ordered[len(values) * g // groups] for g in range(1, groups)}
    found = sets.quantile_edges(np.array(values), groups)
    assert found.tolist() == sorted(v for v in cuts if v > ordered[0])
