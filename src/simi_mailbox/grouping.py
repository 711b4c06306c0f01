"""Groups of nodes that are alike in confidence and in neighbourhood similarity."""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning

Scaling = Literal["min-max", "standard"]

HISTOGRAM_ABOVE = 50_000
"""From this many nodes on, k-means runs on a weighted histogram instead of on the nodes."""
HISTOGRAM_CELLS = 256
NARROW, DIGITS = 1e-3, 11
"""Where points differ by less, rounding errors are made equal: they would decide ties."""
BLOCK = 1 << 12
"""Points looked at together: their distances to all centroids stay in a processor's cache."""

_FILTERS = threading.Lock()
"""Warning filters belong to the whole process: two threads must not put them back crosswise."""


@dataclass(frozen=True)
class Grouping:
    """A scaling and centroids: what is needed to give any node, seen or unseen, its group.

    Attributes
    ----------
    shift, scale : array [2]
        A point ``x`` is scaled to ``(x − shift) / scale``.
    centroids : array [groups, 2]
        In scaled coordinates, ordered by confidence, then similarity.
    """

    shift: Floats
    scale: Floats
    centroids: Floats

    def scaled(self, points: Floats) -> Floats:
        """Points in the coordinates of the centroids."""
        return (points - self.shift) / self.scale

    def assign(self, points: Floats) -> Ints:
        """Group of every point: the nearest centroid (the first of several)."""
        group = np.empty(len(points), dtype=np.int64)
        for start in range(0, len(points), BLOCK):
            x, y = self.scaled(points[start : start + BLOCK]).T
            a, b = self.centroids.T[:, :, None]
            group[start : start + BLOCK] = ((x - a) ** 2 + (y - b) ** 2).argmin(axis=0)
        return group


def find_groups(
    points: Floats, n_groups: int, *, scaling: Scaling = "min-max", seed: int = 0
) -> Grouping:
    """Group points [n, 2] by k-means (k-means++, one start) after scaling each coordinate.

    The result depends on the set of points, not on their order. Above `HISTOGRAM_ABOVE` points
    the means of the cells of a 256 × 256 histogram, weighted by their counts, stand for the points.
    """
    shift, scale = _scaling(points, scaling)
    if (scale < NARROW).any():
        points = points.round(DIGITS)
        shift, scale = _scaling(points, scaling)
    x = (points - shift) / scale
    if len(x) > HISTOGRAM_ABOVE:
        x, weight = histogram_means(x)
    else:
        x, counts = np.unique(x, axis=0, return_counts=True)  # sorts: order of nodes is forgotten
        weight = counts.astype(np.float64)
    return group_points(x, weight, n_groups, shift, scale, seed)


def group_points(
    x: Floats, weight: Floats, n_groups: int, shift: Floats, scale: Floats, seed: int
) -> Grouping:
    """K-means of weighted points that are scaled already."""
    if len(x) < n_groups:
        warnings.warn(
            f"{n_groups} groups were asked for, but there are only {len(x)} different points "
            f"(confidence, similarity): making {len(x)} groups",
            CalibrationWarning,
            stacklevel=5,
        )
        n_groups = len(x)
    centroids = _kmeans(x, weight, n_groups, seed)
    return Grouping(shift, scale, centroids)


def histogram_means(x: Floats) -> tuple[Floats, Floats]:
    """Mean point and count of every occupied cell of a histogram over the points' range."""
    return cell_means(histogram_sums(x, x.min(axis=0), x.max(axis=0)))


def histogram_sums(x: Floats, low: Floats, high: Floats) -> Floats:
    """Count and sums of both coordinates in the cells of a histogram over [low, high], [3, cells].

    Of parts of the points they add up to those of all.
    """
    width = np.where(high > low, high - low, 1.0)
    cell = np.minimum(((x - low) / width * HISTOGRAM_CELLS).astype(np.int64), HISTOGRAM_CELLS - 1)
    flat = cell[:, 0] * HISTOGRAM_CELLS + cell[:, 1]
    parts = [np.bincount(flat, w, minlength=HISTOGRAM_CELLS**2) for w in (None, x[:, 0], x[:, 1])]
    return np.stack([part.astype(np.float64) for part in parts])


def cell_means(sums: Floats) -> tuple[Floats, Floats]:
    """Mean point and count of every occupied cell."""
    weight = sums[0][sums[0] > 0]
    return sums[1:, sums[0] > 0].T / weight[:, None], weight


def _scaling(points: Floats, scaling: Scaling) -> tuple[Floats, Floats]:
    if scaling == "min-max":
        shift = points.min(axis=0)
        scale = points.max(axis=0) - shift
    elif scaling == "standard":
        shift, scale = points.mean(axis=0), points.std(axis=0)
    else:
        raise ValueError(f"scaling must be 'min-max' or 'standard', got {scaling!r}")
    return shift, np.where(scale > 0, scale, 1.0)


def _kmeans(x: Floats, weight: Floats, n_groups: int, seed: int) -> Floats:
    kmeans = KMeans(n_groups, init="k-means++", n_init=1, random_state=seed)
    with _FILTERS, warnings.catch_warnings():
        # Fewer distinct points than groups is dealt with above; near-ties may still merge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        kmeans.fit(x, sample_weight=weight)
    centroids: Floats = np.unique(kmeans.cluster_centers_.astype(np.float64), axis=0)
    return centroids
