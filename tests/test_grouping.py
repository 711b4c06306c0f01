"""Groups of points by k-means, and soft groups: shares that change little where a node does."""

from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from simi_mailbox import CalibrationWarning, grouping
from simi_mailbox.grouping import Grouping, SoftGroups, find_groups, nearest


def cloud(n: int, seed: int = 0) -> np.ndarray:
    """Points shaped like (confidence, mailbox) of a real GNN: crowded at the upper right."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1.5, n)
    return np.stack([confidence, np.clip(rng.normal(0.3 + 0.6 * confidence, 0.15), 0, 1)], axis=1)


def histogram_means(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What k-means runs on above `HISTOGRAM_ABOVE` points: means of cells and their counts."""
    with pytest.MonkeyPatch.context() as patch:
        kmeans = Mock(return_value=np.zeros((1, 2)))
        patch.setattr(grouping, "HISTOGRAM_ABOVE", 0)
        patch.setattr(grouping, "_kmeans", kmeans)
        find_groups(points, 1)
    return kmeans.call_args.args[:2]


def inertia(points: np.ndarray, centroids: np.ndarray) -> float:
    return float(((points[:, None] - centroids[None]) ** 2).sum(-1).min(axis=1).sum())


def test_order_of_points_does_not_matter():
    points = cloud(3000)
    order = np.random.default_rng(1).permutation(len(points))
    one, two = find_groups(points, 15), find_groups(points[order], 15)
    np.testing.assert_array_equal(one.centroids, two.centroids)
    np.testing.assert_array_equal(one.assign(points)[order], two.assign(points[order]))


@pytest.mark.parametrize("seed", range(5))
def test_rounding_errors_do_not_decide_ties_among_nodes_of_full_confidence(seed):
    rng = np.random.default_rng(seed)
    points = np.stack([1 - rng.integers(0, 3, 40) * 1e-5, rng.integers(0, 6, 40) / 5], axis=1)
    nearly = points - 3e-16 * np.abs(rng.normal(size=points.shape))
    one, two = (find_groups(given, 4) for given in (points, nearly))
    np.testing.assert_allclose(two.centroids, one.centroids, atol=1e-9)


def test_groups_are_as_good_as_scikit_learns():
    points = cloud(3000)
    found = find_groups(points, 10, seed=0)
    scaled = (points - points.min(0)) / np.ptp(points, axis=0)
    reference = [KMeans(10, n_init=1, random_state=s).fit(scaled).inertia_ for s in range(10)]
    assert inertia(scaled, found.centroids) <= max(reference)


def test_the_histogram_groups_as_well_as_the_points_do(monkeypatch):
    points = cloud(60_000)
    starts = range(8)
    coarse = [find_groups(points, 15, seed=s) for s in starts]
    monkeypatch.setattr(grouping, "HISTOGRAM_ABOVE", 10**9)
    fine = [find_groups(points, 15, seed=s) for s in starts]
    scaled = fine[0].scaled(points)
    # One start lands in one of several optima about 2 % apart; on average they are equally good.
    quality = [np.mean([inertia(scaled, g.centroids) for g in kind]) for kind in (coarse, fine)]
    assert quality[0] == pytest.approx(quality[1], rel=0.01)
    # Started where the points' solution ended, the histogram's k-means stays there.
    means, weight = histogram_means(points)
    again = KMeans(15, init=fine[0].centroids, n_init=1).fit(means, sample_weight=weight)
    np.testing.assert_allclose(again.cluster_centers_, fine[0].centroids, atol=0.02)
    labels = ((scaled[:, None] - again.cluster_centers_[None]) ** 2).sum(-1).argmin(1)
    assert adjusted_rand_score(labels, fine[0].assign(points)) > 0.97
    assert weight.sum() == len(points)
    np.testing.assert_allclose(weight @ means, scaled.sum(axis=0))


def test_unseen_points_go_to_the_nearest_centroid():
    points = cloud(500)
    found = find_groups(points, 6)
    unseen = np.random.default_rng(5).uniform(-1, 2, (200, 2))
    distance = ((found.scaled(unseen)[:, None] - found.centroids[None]) ** 2).sum(-1)
    np.testing.assert_array_equal(found.assign(unseen), distance.argmin(1))
    corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    found = Grouping(np.zeros(2), np.ones(2), corners)  # the first of several
    between = np.array([[0.5, 0.5], [0.5, 1.0], [1.0, 0.5], [0.0, 0.5]])
    assert found.assign(between).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("scaling", ["min-max", "standard"])
def test_scaling(scaling):
    points = cloud(500)
    scaled = find_groups(points, 4, scaling=scaling).scaled(points)
    if scaling == "min-max":
        np.testing.assert_allclose([scaled.min(0), scaled.max(0)], [[0, 0], [1, 1]], atol=1e-12)
    else:
        np.testing.assert_allclose([scaled.mean(0), scaled.std(0)], [[0, 0], [1, 1]], atol=1e-9)
    with pytest.raises(ValueError, match="'min-max' or 'standard', got 'log'"):
        find_groups(cloud(10), 2, scaling="log")


def test_fewer_distinct_points_than_groups():
    points = np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]])
    with pytest.warns(CalibrationWarning, match="only 2 different points"):
        found = find_groups(points, 5)
    assert found.assign(points).tolist() == [0, 0, 1]
    # One constant coordinate is no division by zero.
    points = np.stack([np.linspace(0, 1, 50), np.zeros(50)], axis=1)
    assert np.isfinite(find_groups(points, 3).centroids).all()


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
    near = points + 1e-6 * np.random.default_rng(seed).normal(size=points.shape)
    assert np.abs(found.membership(near) - shares).max() < 1e-3  # it is continuous


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
