"""What a calibrator did: its groups, what they hold, and the temperatures of nodes."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.judged import accuracy_error, judge, mean_of, per_node
from simi_mailbox.validation import as_numpy, read_index


@dataclass(frozen=True)
class GroupMap:
    """One entry per group.

    Attributes
    ----------
    confidence, similarity : float64 [G]
        Mean confidence before calibration and mean neighbourhood similarity of all nodes of the
        group: where it lies on the map. NaN for a group without nodes.
    sizes, calibration_labels, judged : int64 [G]
        All nodes, those whose labels the calibrator read, and those that it is judged on.
    temperatures : float64 [G]
        Mean temperature of the nodes of the group.
    confidence_before, confidence_after, accuracy : float64 [G]
        Mean confidence before and after calibration, and accuracy, of the judged nodes.

    Examples
    --------
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
    >>> where = {"similarity": [1.0, 0.5, 0.2], "temperatures": [2.0, 2.0, 1.0]}
    >>> found = group_map([0, 0, 1], probs, probs, **where)
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
        return order[weight[order] > 0][:count]


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
    similarity, temperatures : array [n]
        Neighbourhood similarity and temperature of every node.
    calibration : array, optional
        Nodes whose labels the calibrator read.
    y, nodes
        As in `judge`; accuracy is NaN without labels.

    Examples
    --------
    >>> before = np.array([[0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    >>> where = {"similarity": np.array([1.0, 0.5, 0.0]), "temperatures": [2.0, 1.0, 1.0]}
    >>> table = group_map(np.array([1, 0, 0]), before, before, y=[0, 0, 1], **where)
    >>> table.sizes.tolist(), table.accuracy.tolist(), table.confidence_before.round(2).tolist()
    ([2, 1], [0.5, 1.0], [0.65, 0.9])
    """
    g, everyone = as_numpy(groups).astype(np.int64), judge(before, None)
    n = len(everyone)
    if g.shape != (n,) or (g.size and g.min() < 0):
        raise ValueError(f"groups must hold a group number for each of {n} nodes, got {g.shape}")
    judged_before, judged_after = judge(before, y, nodes), judge(after, y, nodes)
    read = [] if calibration is None else calibration
    count, fitted = int(g.max()) + 1, g[read_index(read, n, "calibration", empty=True)]
    own = g[judged_after.nodes]
    return GroupMap(
        confidence=mean_of(g, everyone.confidence, count),
        similarity=mean_of(g, per_node(similarity, everyone, "similarity"), count),
        sizes=np.bincount(g, minlength=count),
        calibration_labels=np.bincount(fitted, minlength=count),
        temperatures=mean_of(g, per_node(temperatures, everyone, "temperatures"), count),
        judged=np.bincount(own, minlength=count),
        confidence_before=mean_of(own, judged_before.confidence, count),
        confidence_after=mean_of(own, judged_after.confidence, count),
        accuracy=mean_of(own, judged_after.correct, count),
    )


@dataclass(frozen=True)
class TemperatureHistogram:
    """How many nodes have which temperature.

    ``counts`` are nodes between ``edges`` of equal width in log T; T > 1 lowers confidence.

    Examples
    --------
    >>> found = temperature_histogram([0.5, 1.0, 1.0, 2.0], bins=2)
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

    Examples
    --------
    >>> table = temperature_histogram(np.array([0.5, 1.0, 2.0]), bins=2)
    >>> table.edges.round(2).tolist(), table.counts.tolist(), table.median
    ([0.5, 1.0, 2.0], [1, 2], 1.0)
    """
    t = as_numpy(temperatures).astype(np.float64).ravel()
    if not (t.size and np.isfinite(t).all() and t.min() > 0):
        raise ValueError("temperatures must be at least one, all positive and finite")
    low, high = np.log(t.min()), np.log(t.max())
    if high - low < 1e-9:  # one temperature for all: a bin around it, not of width zero
        low, high = low - 0.05, high + 0.05
    counts, edges = np.histogram(np.log(t), bins=bins, range=(low, high))
    told = (float(value) for value in (t.min(), np.median(t), t.max()))
    return TemperatureHistogram(np.exp(edges), counts, *told)
