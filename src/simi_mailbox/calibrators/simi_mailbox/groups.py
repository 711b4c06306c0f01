"""Groups of nodes alike in confidence and similarity, and how far a node belongs to each."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.grouping import Grouping

BLOCK = 1 << 12
"""Points looked at together: their distances to all centroids stay in a processor's cache."""
NARROWEST = 1e-4


@dataclass(frozen=True)
class SoftGroups:
    """Membership of a node in group g, proportional to exp(−d² / (2 bandwidth²)).

    d is its distance to the centroid, the squared bandwidth twice the median squared distance of
    a node to its nearest centroid: neighbouring groups overlap, so that a small change of a node
    changes little.

    Examples
    --------
    >>> groups = SoftGroups(Grouping(np.zeros(2), np.ones(2), np.array([[0.0, 0], [1, 0]])), 0.5)
    >>> groups.membership(np.array([[0.0, 0.0], [0.5, 0.0]])).round(2).tolist()
    [[0.88, 0.12], [0.5, 0.5]]
    """

    grouping: Grouping
    bandwidth: float

    @classmethod
    def around(cls, grouping: Grouping, median: float) -> SoftGroups:
        """With the bandwidth that the median of `nearest` of all nodes asks for."""
        return cls(grouping, max(math.sqrt(2.0 * median), NARROWEST))

    def membership(self, points: Floats) -> Floats:
        """Rows that sum to one, [n, groups]; no column where there is one group only."""
        count = len(self.grouping.centroids)
        if count < 2:
            return np.empty((len(points), 0))
        found = np.empty((len(points), count))
        start = 0
        for part in _squared_distances(self.grouping, points):
            part -= part.min(axis=1, keepdims=True)
            weight = np.exp(part / (-2.0 * self.bandwidth**2))
            weight /= weight.sum(axis=1, keepdims=True)
            found[start : start + len(part)] = weight
            start += len(part)
        return found


def nearest(grouping: Grouping, points: Floats) -> Floats:
    """Squared distance of every point to the nearest centroid."""
    return np.concatenate([part.min(axis=1) for part in _squared_distances(grouping, points)])


def _squared_distances(grouping: Grouping, points: Floats) -> list[Floats]:
    a, b = grouping.centroids.T
    parts = []
    for start in range(0, len(points), BLOCK):
        x, y = grouping.scaled(points[start : start + BLOCK]).T
        parts.append((x[:, None] - a) ** 2 + (y[:, None] - b) ** 2)
    return parts
