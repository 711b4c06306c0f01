"""Soft groups: shares that sum to one, and change little where a node changes little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.calibrators.simi_mailbox.groups import SoftGroups, nearest
from simi_mailbox.grouping import Grouping, find_groups


def soft(seed, groups, n=300):
    points = np.random.default_rng(seed).beta(2, 1, size=(n, 2))
    grouping = find_groups(points, groups, seed=0)
    return SoftGroups.around(grouping, float(np.median(nearest(grouping, points)))), points


@given(seed=st.integers(0, 500), groups=st.integers(2, 25))
def test_membership_is_that_of_normal_kernels_and_sums_to_one(seed, groups):
    found, points = soft(seed, groups)
    shares = found.membership(points)
    centroids = found.grouping.centroids
    assert shares.shape == (300, len(centroids))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    i = int(seed) % 300
    distance = ((found.grouping.scaled(points[[i]]) - centroids) ** 2).sum(axis=1)
    kernel = np.exp(-(distance - distance.min()) / (2 * found.bandwidth**2))
    np.testing.assert_allclose(shares[i], kernel / kernel.sum(), atol=1e-12)
    assert shares[i].argmax() == found.grouping.assign(points[[i]])[0]


@given(seed=st.integers(0, 500), groups=st.integers(2, 25))
def test_membership_is_continuous(seed, groups):
    found, points = soft(seed, groups)
    near = points + 1e-6 * np.random.default_rng(seed).normal(size=points.shape)
    assert np.abs(found.membership(near) - found.membership(points)).max() < 1e-3


def test_far_away_points_belong_to_the_nearest_group():
    found, _ = soft(0, 5)
    shares = found.membership(np.array([[1e3, 1e3], [-1e3, 0.0]]))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.isfinite(shares).all()


@pytest.mark.parametrize("centroids", [np.zeros((1, 2)), np.zeros((2, 2))])
def test_groups_in_one_place(centroids):
    """One group has no share to tell; two in one place have equal ones."""
    found = SoftGroups.around(Grouping(np.zeros(2), np.ones(2), centroids), 0.0)
    shares = found.membership(np.zeros((4, 2)))
    assert shares.shape == (4, 0 if len(centroids) == 1 else 2)
    np.testing.assert_allclose(shares, 0.5)
