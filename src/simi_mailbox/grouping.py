"""Groups of nodes alike in confidence and similarity, and how far a node belongs to each."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning

Scaling = Literal["min-max", "standard"]
Combine = Callable[[list[Any]], Any]

HISTOGRAM_ABOVE = 50_000  # nodes, from which on k-means runs on a weighted histogram of them
HISTOGRAM_CELLS = 256
NARROW, DIGITS = 1e-3, 11
"""Where points differ by less, rounding errors are made equal: they would decide ties."""
BLOCK = 1 << 12  # points of a pass: their distances to all centroids stay in a cache

NARROWEST = 1e-4  # the least bandwidth of `SoftGroups`
_FILTERS = threading.Lock()  # of the whole process: two threads must not restore them crosswise


@dataclass(frozen=True)
class Grouping:
    """What gives any node its group: ordered centroids [groups, 2] of (points − shift) / scale."""

    shift: Floats
    scale: Floats
    centroids: Floats

    def scaled(self, points: Floats) -> Floats:
        """Points in the coordinates of the centroids."""
        return (points - self.shift) / self.scale

    def assign(self, points: Floats) -> Ints:
        """Group of every point: the nearest centroid (the first of several)."""
        return np.concatenate([part.argmin(axis=1) for part in self.squared_distances(points)])

    def squared_distances(self, points: Floats) -> Iterator[Floats]:
        """Of every point to every centroid, a few points at a time."""
        a, b = self.centroids.T
        for start in range(0, max(1, len(points)), BLOCK):
            x, y = self.scaled(points[start : start + BLOCK]).T
            yield (x[:, None] - a) ** 2 + (y[:, None] - b) ** 2


@dataclass(frozen=True)
class SoftGroups:
    """Membership of a node in group g, ∝ exp(−d² / (2 bandwidth²)) with the distance d to its
    centroid; bandwidth² is twice the median d² to the nearest one: neighbouring groups overlap."""

    grouping: Grouping
    bandwidth: float

    @classmethod
    def around(cls, grouping: Grouping, median: float) -> SoftGroups:
        """With the bandwidth that the median of `nearest` of all nodes asks for."""
        return cls(grouping, max(math.sqrt(2.0 * median), NARROWEST))

    def membership(self, points: Floats) -> Floats:
        """Rows that sum to one, [n, groups]; no column where there is one group only."""
        if len(self.grouping.centroids) < 2:
            return np.empty((len(points), 0))
        shares = []
        for part in self.grouping.squared_distances(points):
            part -= part.min(axis=1, keepdims=True)
            weight = np.exp(part / (-2.0 * self.bandwidth**2))
            shares.append(weight / weight.sum(axis=1, keepdims=True))
        return np.concatenate(shares)


def nearest(grouping: Grouping, points: Floats) -> Floats:
    """Squared distance of every point to the nearest centroid."""
    return np.concatenate([part.min(axis=1) for part in grouping.squared_distances(points)])


def find_groups(
    points: Floats, n_groups: int, *, scaling: Scaling = "min-max", seed: int = 0
) -> Grouping:
    """Group points [n, 2], in any order, by k-means after scaling each coordinate; above
    `HISTOGRAM_ABOVE` points weighted means of the cells of a histogram stand for them."""
    return find_groups_in(
        lambda function, _, *args: function(points, *args), len(points), n_groups, scaling, seed
    )


def find_groups_in(
    total: Callable[..., Any], count: int, n_groups: int, scaling: Scaling, seed: int
) -> Grouping:
    """`find_groups` of ``count`` points in parts; ``total(function, combine, *args)`` is
    ``combine`` of ``function(points, *args)`` of all parts."""
    for digits in (None, DIGITS):
        shift, scale = _scaling(total, count, scaling, digits)
        if (scale >= NARROW).all():
            break
    how = (digits, shift, scale)
    if count > HISTOGRAM_ABOVE:
        ends = total(_corners, _outermost, *how)
        cells = total(_cells, added, *ends, *how)
        weight, *sums = cells[:, cells[0] > 0]
        x = (np.stack(sums) / weight).T
    else:
        # Sorted: the order of nodes is forgotten.
        x, counts = np.unique(total(_scaled, stacked, *how), axis=0, return_counts=True)
        weight = counts.astype(np.float64)
    if len(x) < n_groups:
        warnings.warn(
            f"{n_groups} groups were asked for, but there are only {len(x)} different points "
            f"(confidence, similarity): making {len(x)} groups",
            CalibrationWarning,
            stacklevel=5,
        )
        n_groups = len(x)
    return Grouping(shift, scale, _kmeans(x, weight, n_groups, seed))


def added(parts: list[Any]) -> Any:
    """Sum of arrays, in order."""
    return sum(parts[1:], start=parts[0])


def stacked(parts: list[Array]) -> Array:
    """Rows of all parts, in order."""
    return np.concatenate(parts)


# --- functions of some of the points --------------------------------------------------------------


def _scaled(
    points: Floats, digits: int | None, shift: Floats | float = 0.0, scale: Floats | float = 1.0
) -> Floats:
    rounded = points if digits is None else points.round(digits)
    return (rounded - shift) / scale


def _corners(points: Floats, *how: Any) -> Floats:
    """Smallest and largest coordinates, [2, 2]."""
    columns = _scaled(points, *how).T  # one after the other: much faster than along axis 0
    return np.array([[column.min() for column in columns], [column.max() for column in columns]])


def _outermost(parts: list[Floats]) -> Floats:
    lowest, highest = zip(*parts, strict=True)
    return np.stack([np.min(lowest, axis=0), np.max(highest, axis=0)])


def _sums(points: Floats, digits: int | None, centre: Floats | float, power: int) -> Floats:
    return np.asarray((_scaled(points, digits, centre) ** power).sum(axis=0))


def _cells(points: Floats, low: Floats, high: Floats, *how: Any) -> Floats:
    """Count and sums of both coordinates in the cells of a histogram, [3, cells]."""
    x, width = _scaled(points, *how), np.where(high > low, high - low, 1.0)
    cell = np.minimum(((x - low) / width * HISTOGRAM_CELLS).astype(np.int64), HISTOGRAM_CELLS - 1)
    flat = cell[:, 0] * HISTOGRAM_CELLS + cell[:, 1]
    parts = [np.bincount(flat, w, minlength=HISTOGRAM_CELLS**2) for w in (None, x[:, 0], x[:, 1])]
    return np.stack([part.astype(np.float64) for part in parts])


def _scaling(
    total: Callable[..., Any], count: int, scaling: Scaling, digits: int | None
) -> tuple[Floats, Floats]:
    if scaling == "min-max":
        shift, high = total(_corners, _outermost, digits)
        scale = high - shift
    elif scaling == "standard":
        shift = total(_sums, added, digits, 0.0, 1) / count
        scale = np.sqrt(total(_sums, added, digits, shift, 2) / count)
    else:
        raise ValueError(f"scaling must be 'min-max' or 'standard', got {scaling!r}")
    return shift, np.where(scale > 0, scale, 1.0)


def _kmeans(x: Floats, weight: Floats, n_groups: int, seed: int) -> Floats:
    kmeans = KMeans(n_groups, init="k-means++", n_init=1, random_state=seed)
    # Fewer distinct points than groups is dealt with above; near-ties may still merge.
    with _FILTERS, warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        kmeans.fit(x, sample_weight=weight)
    centroids: Floats = np.unique(kmeans.cluster_centers_.astype(np.float64), axis=0)
    return centroids
