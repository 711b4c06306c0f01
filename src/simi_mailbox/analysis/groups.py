"""What a calibrator did: its groups, what they hold, and the temperatures of nodes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.judged import accuracy_error, counts_of, judge, mean_of, per_node
from simi_mailbox.validation import as_numpy, read_index


@dataclass(frozen=True)
class GroupMap:
    """One entry per group.

    Attributes
    ----------
    confidence, similarity : float64 [G]
        Mean confidence before calibration and mean neighbourhood similarity of all nodes of the
        group: where it lies on the map. NaN for a group without nodes.
    sizes : int64 [G]
        All nodes.
    calibration_labels : int64 [G]
        Nodes whose labels the calibrator read.
    temperatures : float64 [G]
        Mean temperature of the nodes of the group.
    judged : int64 [G]
        Nodes it is judged on.
    confidence_before, confidence_after, accuracy : float64 [G]
        Mean confidence before and after calibration, and accuracy, of the judged nodes.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
    >>> where = {"similarity": [1.0, 0.5, 0.2], "temperatures": [2.0, 2.0, 1.0]}
    >>> found = analysis.group_map([0, 0, 1], probs, probs, **where)
    >>> found.sizes.tolist(), found.confidence.round(2).tolist()
    ([2, 1], [0.85, 0.6])
    """

    confidence: Floats
    similarity: Floats
    sizes: Ints
    calibration_labels: Ints
    temperatures: Floats
    judged: Ints
    confidence_before: Floats
    confidence_after: Floats
    accuracy: Floats

    @property
    def gap_before(self) -> Floats:
        """Accuracy minus confidence before calibration."""
        return self.accuracy - self.confidence_before

    @property
    def gap_after(self) -> Floats:
        """Accuracy minus confidence after calibration."""
        return self.accuracy - self.confidence_after

    @property
    def gap_error(self) -> Floats:
        """Standard error of the accuracy, and so of both gaps; NaN without judged nodes."""
        return accuracy_error(self.accuracy, self.judged)

    def worst(self, count: int = 3) -> Ints:
        """Groups with the largest |gap| × judged nodes after calibration, worst first."""
        weight = np.nan_to_num(np.abs(self.gap_after) * self.judged)
        order = np.argsort(-weight, kind="stable")
        return order[weight[order] > 0][:count].astype(np.int64)


def group_map(
    groups: Any,
    before: Any,
    after: Any,
    *,
    similarity: Any,
    temperatures: Any,
    calibration: Any = None,
    y: Any = None,
    nodes: Any = None,
) -> GroupMap:
    """Summarise the groups of a calibrator.

    Parameters
    ----------
    groups : int array [n]
        Group of every node, 0..G-1.
    before, after : array [n, K]
        Probabilities before and after calibration.
    similarity : array [n]
        Neighbourhood similarity of every node.
    temperatures : array [G] or [n]
        Temperature of every group or of every node.
    calibration : array, optional
        Nodes whose labels the calibrator read.
    y, nodes
        As in `judge`; accuracy is NaN without labels.

    Examples
    --------
    >>> before = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    >>> table = group_map(
    ...     np.array([1, 0, 0]), before, before,
    ...     similarity=np.array([1.0, 0.5, 0.0]), temperatures=[2.0, 1.0], y=[0, 0, 1],
    ... )
    >>> table.sizes.tolist(), table.accuracy.tolist(), table.confidence_before.round(2).tolist()
    ([2, 1], [0.5, 1.0], [0.65, 0.9])
    """
    g = as_numpy(groups).astype(np.int64)
    p = as_numpy(before)
    n = len(p)
    if g.shape != (n,) or (g.size and g.min() < 0):
        raise ValueError(f"groups must hold a group number for each of {n} nodes, got {g.shape}")
    everyone = judge(p, None)
    judged_before, judged_after = judge(p, y, nodes), judge(after, y, nodes)
    t = as_numpy(temperatures).astype(np.float64)
    count = int(g.max()) + 1 if t.size == n else max(t.size, int(g.max()) + 1)
    if t.size == n:
        t = mean_of(g, t, count)
    elif t.size != count:
        raise ValueError(f"got {t.size} temperatures for {count} groups")
    labels = np.zeros(count, dtype=np.int64)
    if calibration is not None:
        labels = counts_of(g[read_index(calibration, n, "calibration", empty=True)], count)
    own = g[judged_after.nodes]
    return GroupMap(
        confidence=mean_of(g, everyone.confidence, count),
        similarity=mean_of(g, per_node(similarity, everyone, "similarity"), count),
        sizes=counts_of(g, count),
        calibration_labels=labels,
        temperatures=t,
        judged=counts_of(own, count),
        confidence_before=mean_of(own, judged_before.confidence, count),
        confidence_after=mean_of(own, judged_after.confidence, count),
        accuracy=mean_of(own, judged_after.correct, count),
    )


@dataclass(frozen=True)
class TemperatureHistogram:
    """How many nodes have which temperature.

    Attributes
    ----------
    edges : float64 [B + 1]
        Edges of equal width in log T; T = 1 changes nothing, above 1 lowers confidence.
    counts : int64 [B]
        Nodes between the edges.
    smallest, median, largest : float
        Of the temperatures themselves.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> found = analysis.temperature_histogram([0.5, 1.0, 1.0, 2.0], bins=2)
    >>> found.counts.tolist(), found.median
    ([1, 3], 1.0)
    """

    edges: Floats
    counts: Ints
    smallest: float
    median: float
    largest: float


def temperature_histogram(temperatures: Any, *, bins: int = 30) -> TemperatureHistogram:
    """Count nodes by temperature, in bins of equal width on a logarithmic scale.

    Parameters
    ----------
    temperatures : array [n]
        Positive temperature of every node.
    bins : int
        Number of bins.

    Examples
    --------
    >>> table = temperature_histogram(np.array([0.5, 1.0, 2.0]), bins=2)
    >>> table.edges.round(2).tolist(), table.counts.tolist(), table.median
    ([0.5, 1.0, 2.0], [1, 2], 1.0)
    """
    t = as_numpy(temperatures).astype(np.float64).ravel()
    if t.size == 0:
        raise ValueError("no temperature given")
    if not (np.isfinite(t).all() and t.min() > 0):
        raise ValueError("temperatures must be positive and finite")
    low, high = np.log(t.min()), np.log(t.max())
    if high - low < 1e-9:  # one temperature for all: a bin around it, not of width zero
        low, high = low - 0.05, high + 0.05
    counts, edges = np.histogram(np.log(t), bins=bins, range=(low, high))
    return TemperatureHistogram(
        np.exp(edges), counts.astype(np.int64), float(t.min()), float(np.median(t)), float(t.max())
    )
