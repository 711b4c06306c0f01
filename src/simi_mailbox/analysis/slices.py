"""Calibration error and coverage in slices of nodes: by degree, class, distance, agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.analysis.judged import (
    Judged,
    accuracy_error,
    class_labels,
    counts_of,
    distance_to,
    ece_of,
    judge,
    judged_rows,
    mean_of,
    per_node,
    unit_bins,
)
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.mailbox import mailbox_edges, mailbox_groups
from simi_mailbox.metrics import GroupCoverage, coverage_by_group
from simi_mailbox.metrics.sets import check_sets
from simi_mailbox.validation import as_numpy, read_classes, read_index, read_probabilities


@dataclass(frozen=True)
class Breakdown:
    """Confidence held against accuracy in slices of the judged nodes.

    Attributes
    ----------
    by : str
        What the slices are made by.
    labels : tuple of str
        Name of each slice.
    counts : int64 [s]
        Nodes in each slice.
    confidence, accuracy : float64 [s]
        Means; NaN where a slice is empty or labels are not known.
    ece : float64 [s]
        Expected calibration error inside the slice; small slices have a large one by chance alone.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> probs, y = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 1]
    >>> found = analysis.by_class(probs, y)
    >>> found.labels, found.counts.tolist(), found.gap.round(2).tolist()
    (('0', '1'), [3, 0], [-0.1, nan])
    """

    by: str
    labels: tuple[str, ...]
    counts: Ints
    confidence: Floats
    accuracy: Floats
    ece: Floats

    @property
    def gap(self) -> Floats:
        """Accuracy minus confidence."""
        return self.accuracy - self.confidence

    @property
    def gap_error(self) -> Floats:
        """Standard error of the accuracy, and so of the gap (see `cells.accuracy_error`)."""
        return accuracy_error(self.accuracy, self.counts)


def by_degree(probs: Any, y: Any, graph: Any, *, nodes: Any = None) -> Breakdown:
    """Slices of equal number of neighbours: 0, 1, 2, 3–4, 5–8, 9–16, …

    Parameters
    ----------
    probs, y, nodes
        As in `judge`.
    graph
        A `Graph` or anything that `as_graph` reads.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> table = by_degree(p, np.array([0, 0, 1]), np.array([[0, 1], [1, 2]]))
    >>> table.labels, table.counts.tolist(), table.gap.round(2).tolist()
    (('1', '2'), [2, 1], [-0.25, 0.2])
    """
    judged = judge(probs, y, nodes)
    return _table("degree", *degree_slices(as_graph(graph, judged.num_nodes), judged.nodes), judged)


def degree_slices(graph: Graph, nodes: Ints) -> tuple[list[str], Ints]:
    """Names of the slices by degree that hold ``nodes``, and the slice of each."""
    degree = graph.degree.numpy()[nodes]
    octave = np.where(degree > 0, np.ceil(np.log2(np.maximum(degree, 1))).astype(np.int64) + 1, 0)
    present = np.unique(octave)
    labels = [str(k) if k <= 2 else f"{2 ** (k - 2) + 1}–{2 ** (k - 1)}" for k in present.tolist()]
    return labels, np.searchsorted(present, octave)


def by_class(
    probs: Any,
    y: Any,
    *,
    nodes: Any = None,
    class_names: Sequence[str] | None = None,
    of: Literal["predicted", "true"] = "predicted",
) -> Breakdown:
    """Slices of equal class: the predicted one, which a user sees, or the true one.

    Parameters
    ----------
    probs, y, nodes
        As in `judge`.
    class_names : sequence of str, optional
        Name of each class; its number if not given.
    of : {"predicted", "true"}
        Which class. With ``"true"`` the accuracy is the recall of the class.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> by_class(p, np.array([0, 1, 1]), class_names=["cat", "dog"]).accuracy.tolist()
    [0.5, 1.0]
    """
    judged = judge(probs, y, nodes)
    names = class_labels(class_names, as_numpy(probs).shape[1])
    if of not in ("predicted", "true"):
        raise ValueError(f"of must be 'predicted' or 'true', got {of!r}")
    slices = judged.predicted if of == "predicted" else judged_rows(probs, y, nodes).known_labels
    return _table(f"{of} class", names, slices, judged)


def by_distance(
    probs: Any, y: Any, graph: Any, labelled: Any, *, nodes: Any = None, farthest: int = 5
) -> Breakdown:
    """Slices of equal distance to the nearest labelled node: 0, 1, 2, …, out of reach.

    Parameters
    ----------
    probs, y, graph, nodes
        As in `by_degree`.
    labelled : array
        The labelled nodes: boolean [n] or indices.
    farthest : int
        Nodes at this distance or farther share a slice.

    Examples
    --------
    >>> p = np.full((4, 2), 0.5)
    >>> table = by_distance(p, np.zeros(4, dtype=int), np.array([[0, 1], [1, 2]]), [0])
    >>> table.labels, table.counts.tolist()
    (('0', '1', '2', 'out of reach'), [1, 1, 1, 1])
    """
    if farthest < 1:
        raise ValueError(f"farthest must be at least 1, got {farthest}")
    judged = judge(probs, y, nodes)
    distance = distance_to(as_graph(graph, judged.num_nodes), labelled)[judged.nodes]
    capped = np.where(distance < 0, farthest + 1, np.minimum(distance, farthest))
    present = np.unique(capped)
    names = [str(d) for d in range(farthest)] + [f"{farthest} or more", "out of reach"]
    labels = [names[int(d)] for d in present]
    return _table("distance", labels, np.searchsorted(present, capped), judged)


def by_agreement(
    probs: Any, y: Any, similarity: Any, *, nodes: Any = None, slices: int = 5
) -> Breakdown:
    """Slices of equal share of agreeing neighbours; nodes without neighbours apart.

    Parameters
    ----------
    probs, y, nodes
        As in `judge`.
    similarity : array [n] or [m]
        Share of agreeing neighbours, NaN for nodes without neighbours.
    slices : int
        Number of slices of equal width.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> table = by_agreement(p, np.array([0, 1]), [1.0, np.nan], slices=2)
    >>> table.labels, table.counts.tolist()
    (('0–50 %', '50–100 %', 'no neighbours'), [0, 1, 1])
    """
    judged = judge(probs, y, nodes)
    s = per_node(similarity, judged, "similarity")
    known = ~np.isnan(s)
    place = np.full(len(judged), slices, dtype=np.int64)
    place[known] = unit_bins(s[known], slices)
    edges = [round(100 * k / slices) for k in range(slices + 1)]
    labels = [f"{edges[k]}–{edges[k + 1]} %" for k in range(slices)]
    if not known.all():
        labels.append("no neighbours")
    return _table("agreement", labels, place, judged)


def _table(by: str, labels: Sequence[str], slices: Ints, judged: Judged) -> Breakdown:
    count = len(labels)
    return Breakdown(
        by,
        tuple(labels),
        counts_of(slices, count),
        mean_of(slices, judged.confidence, count),
        mean_of(slices, judged.correct, count),
        ece_of(slices, judged.confidence, judged.correct, count),
    )


MAILBOX_GROUPS = ("low / low", "low / high", "high / low", "high / high")
"""Confidence / neighbour agreement."""


@dataclass(frozen=True)
class CoverageBreakdown:
    """Coverage in slices of the judged nodes.

    Attributes
    ----------
    by : str
        What the slices are made by.
    labels : tuple of str
        Name of each slice that has nodes.
    found : GroupCoverage
        Their counts and coverages with exact intervals; the worst, and what chance would make it.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> covered_by_size(sets, [0, 1, 1]).worst
    '1'
    """

    by: str
    labels: tuple[str, ...]
    found: GroupCoverage

    @property
    def worst(self) -> str:
        """Name of the slice that is covered least."""
        return self.labels[int(self.found.coverage.argmin())]

    @property
    def significant(self) -> bool:
        """Whether some slice is covered less than chance makes the worst of so many."""
        return self.found.worst_p_value < 1.0 - self.found.level


def covered_by_degree(sets: Any, y: Any, graph: Any, *, nodes: Any = None) -> CoverageBreakdown:
    """Slices of equal number of neighbours: 0, 1, 2, 3–4, 5–8, …

    Parameters
    ----------
    sets : array of bool [n, K]
        Prediction sets of all nodes.
    y : array [n] or [m]
        Labels, of all nodes or of ``nodes`` only. Labels of other nodes are not looked at.
    graph
        A `Graph` or anything that `as_graph` reads.
    nodes : array, optional
        The nodes to judge: boolean [n] or indices [m]; all nodes if not given.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [False, True]])
    >>> table = covered_by_degree(sets, [0, 1, 1], np.array([[0, 1], [1, 2]]))
    >>> table.labels, table.found.coverage.tolist()
    (('1', '2'), [1.0, 0.0])
    """
    judged = _Judged.of(sets, y, nodes)
    labels, slices = degree_slices(as_graph(graph, len(judged.all)), judged.nodes)
    return judged.table("degree", labels, slices)


def covered_by_class(
    sets: Any, y: Any, *, nodes: Any = None, class_names: Sequence[str] | None = None
) -> CoverageBreakdown:
    """Slices of equal true class.

    Parameters
    ----------
    sets, y, nodes
        As in `covered_by_degree`.
    class_names : sequence of str, optional
        Name of each class; its number if not given.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [False, True]])
    >>> covered_by_class(sets, [0, 1, 1], class_names=["cat", "dog"]).found.coverage.tolist()
    [1.0, 0.5]
    """
    judged = _Judged.of(sets, y, nodes)
    return judged.table("class", class_labels(class_names, judged.all.shape[1]), judged.y)


def covered_by_size(sets: Any, y: Any, *, nodes: Any = None) -> CoverageBreakdown:
    """Slices of equal size of the set: large sets should cover no more often than small ones.

    Parameters: sets, y, nodes as in `covered_by_degree`.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> table = covered_by_size(sets, [0, 1, 1])
    >>> table.labels, table.found.coverage.tolist()
    (('1', '2'), [0.5, 1.0])
    """
    judged = _Judged.of(sets, y, nodes)
    sizes = judged.all[judged.nodes].sum(axis=1)
    return judged.table("size", [str(s) for s in range(judged.all.shape[1] + 1)], sizes)


def covered_by_mailbox(
    sets: Any, y: Any, probs: Any, graph: Any, *, nodes: Any = None
) -> CoverageBreakdown:
    """Slices of low and high confidence, each with low and high neighbour agreement.

    Halves by confidence, and each of them by the probability that a neighbour is of one class with
    the node, as ``PredictionSets(condition_on="mailbox")`` makes them.

    Parameters
    ----------
    sets, y, graph, nodes
        As in `covered_by_degree`.
    probs : array [n, K]
        Probabilities of all nodes.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> sets = p > 0.3
    >>> table = covered_by_mailbox(sets, [0, 0, 0, 1], p, np.array([[0, 1, 2], [1, 0, 3]]))
    >>> table.labels[0], table.found.coverage.tolist()
    ('low / high', [0.5, 1.0])
    """
    judged = _Judged.of(sets, y, nodes)
    p = read_probabilities(probs)
    links = as_graph(graph, len(p))
    place = mailbox_groups(p, links, mailbox_edges(p, links))
    return judged.table("mailbox", MAILBOX_GROUPS, place[judged.nodes])


@dataclass(frozen=True)
class _Judged:
    all: Bools
    nodes: Ints
    y: Ints

    @classmethod
    def of(cls, sets: Any, y: Any, nodes: Any) -> _Judged:
        array = check_sets(sets)
        n, k = array.shape
        index = np.arange(n) if nodes is None else read_index(nodes, n, "nodes")
        return cls(array, index, read_classes(y, index, n, k, of="nodes", only_these=True))

    def table(self, by: str, labels: Sequence[str], slices: Ints) -> CoverageBreakdown:
        found = coverage_by_group(self.all[self.nodes], self.y, slices)
        return CoverageBreakdown(by, tuple(labels[int(g)] for g in found.groups), found)
