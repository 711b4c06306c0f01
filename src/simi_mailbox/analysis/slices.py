"""Calibration error and coverage in slices of nodes: by degree, class, distance, agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.judged import (
    Judged,
    accuracy_error,
    distance_to,
    judge,
    mean_of,
    per_node,
    unit_bins,
)
from simi_mailbox.graph import as_graph
from simi_mailbox.mailbox import mailbox_edges, mailbox_groups
from simi_mailbox.metrics import GroupCoverage, coverage_by_group
from simi_mailbox.metrics._inputs import bin_sum, check_choice
from simi_mailbox.metrics.sets import check_sets
from simi_mailbox.validation import as_numpy, read_classes, read_index, read_probabilities

SetSlices: TypeAlias = Literal["degree", "mailbox", "class", "size"]
BINS, FARTHEST = 15, 5
"""Of the calibration error inside a slice; of distances that have a slice of their own."""


@dataclass(frozen=True)
class Breakdown:
    """Confidence held against accuracy in slices of the judged nodes.

    Attributes
    ----------
    by, labels : str, tuple of str
        What the slices are made by, and their names.
    counts, confidence, accuracy, ece : array [s]
        Nodes in each slice, means and expected calibration error; NaN where it is empty or labels
        are not known. Small slices have a large error by chance alone.

    Examples
    --------
    >>> found = by_class([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 1])
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
        """Standard error of the accuracy, and so of the gap."""
        return accuracy_error(self.accuracy, self.counts)


def by_degree(probs: Any, y: Any, graph: Any, *, nodes: Any = None) -> Breakdown:
    """Slices of equal number of neighbours: 0, 1, 2, 3–4, 5–8, 9–16, …

    ``graph`` is a `Graph` or anything that `as_graph` reads; other parameters are those of `judge`.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]])
    >>> table = by_degree(p, np.array([0, 0, 1]), np.array([[0, 1], [1, 2]]))
    >>> table.labels, table.counts.tolist(), table.gap.round(2).tolist()
    (('1', '2'), [2, 1], [-0.25, 0.2])
    """
    judged = judge(probs, y, nodes)
    return _table("degree", *_degrees(graph, judged.num_nodes, judged.nodes), judged)


def by_class(
    probs: Any, y: Any, *, nodes: Any = None, class_names: Sequence[str] | None = None
) -> Breakdown:
    """Slices of equal predicted class, which is what a user sees.

    ``class_names`` are numbers if not given; other parameters are those of `judge`.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> by_class(p, np.array([0, 1, 1]), class_names=["cat", "dog"]).accuracy.tolist()
    [0.5, 1.0]
    """
    judged = judge(probs, y, nodes)
    names = _class_labels(class_names, as_numpy(probs).shape[1])
    return _table("predicted class", names, judged.predicted, judged)


def by_distance(probs: Any, y: Any, graph: Any, labelled: Any, *, nodes: Any = None) -> Breakdown:
    """Slices of equal distance to the nearest labelled node: 0, 1, …, 5 or more, out of reach.

    ``labelled`` is boolean [n] or indices; other parameters are those of `by_degree`.

    Examples
    --------
    >>> p = np.full((4, 2), 0.5)
    >>> table = by_distance(p, np.zeros(4, dtype=int), np.array([[0, 1], [1, 2]]), [0])
    >>> table.labels, table.counts.tolist()
    (('0', '1', '2', 'out of reach'), [1, 1, 1, 1])
    """
    judged = judge(probs, y, nodes)
    distance = distance_to(as_graph(graph, judged.num_nodes), labelled)[judged.nodes]
    capped = np.where(distance < 0, FARTHEST + 1, np.minimum(distance, FARTHEST))
    present, slices = np.unique(capped, return_inverse=True)
    names = [*map(str, range(FARTHEST)), f"{FARTHEST} or more", "out of reach"]
    return _table("distance", [names[d] for d in present], slices, judged)


def by_agreement(
    probs: Any, y: Any, similarity: Any, *, nodes: Any = None, slices: int = 5
) -> Breakdown:
    """Slices of equal share of agreeing neighbours; nodes without neighbours apart.

    ``similarity`` [n] or [m] is the share of agreeing neighbours, NaN without neighbours;
    ``slices`` is the number of slices of equal width. Other parameters are those of `judge`.

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
    count, gaps = len(labels), judged.correct - judged.confidence
    counts = np.bincount(slices, minlength=count)
    confidence = mean_of(slices, judged.confidence, count)
    accuracy = mean_of(slices, judged.correct, count)
    cells = bin_sum(slices * BINS + unit_bins(judged.confidence, BINS), gaps, count * BINS)
    with np.errstate(invalid="ignore"):
        ece = np.abs(cells.reshape(count, BINS)).sum(axis=1) / counts
    return Breakdown(by, tuple(labels), counts, confidence, accuracy, ece)


def _degrees(graph: Any, num_nodes: int, nodes: Ints) -> tuple[list[str], Ints]:
    """Names of the slices by degree that hold ``nodes``, and the slice of each."""
    degree = as_graph(graph, num_nodes).degree.numpy()[nodes]
    octave = np.where(degree > 0, np.ceil(np.log2(np.maximum(degree, 1))) + 1, 0).astype(np.int64)
    present, slices = np.unique(octave, return_inverse=True)
    labels = [str(k) if k <= 2 else f"{2 ** (k - 2) + 1}–{2 ** (k - 1)}" for k in present.tolist()]
    return labels, slices


def _class_labels(names: Sequence[str] | None, classes: int) -> list[str]:
    """Name of each class; its number if none are given."""
    labels = [str(k) for k in range(classes)] if names is None else list(names)
    if len(labels) != classes:
        raise ValueError(f"got {len(labels)} class names for {classes} classes")
    return labels


@dataclass(frozen=True)
class CoverageBreakdown:
    """Coverage in slices of the judged nodes.

    ``labels`` are the names of slices that have nodes, ``found`` the `GroupCoverage` of these.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> covered_by("size", sets, [0, 1, 1]).worst
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


def covered_by(
    by: SetSlices,
    sets: Any,
    y: Any,
    *,
    nodes: Any = None,
    graph: Any = None,
    probs: Any = None,
    class_names: Sequence[str] | None = None,
) -> CoverageBreakdown:
    """Coverage of prediction sets in slices of nodes.

    Parameters
    ----------
    by : {"degree", "mailbox", "class", "size"}
        ``"degree"``: slices as of `by_degree`, with ``graph``. ``"mailbox"``: low and high
        confidence, each with low and high neighbour agreement, as
        ``PredictionSets(condition_on="mailbox")`` makes them, with ``graph`` and ``probs`` [n, K].
        ``"class"``: the true class. ``"size"``: large sets should cover no more often than small.
    sets : bool array [n, K]
        Of all nodes.
    y, nodes, class_names
        As in `by_class`.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [False, True]])
    >>> table = covered_by("class", sets, [0, 1, 1], class_names=["cat", "dog"])
    >>> table.labels, table.found.coverage.tolist()
    (('cat', 'dog'), [1.0, 0.5])
    """
    check_choice(by, "by", get_args(SetSlices))
    every = check_sets(sets)
    n, k = every.shape
    index = np.arange(n) if nodes is None else read_index(nodes, n, "nodes")
    labels = read_classes(y, index, n, k, of="nodes", only_these=True)
    if by == "degree":
        names, place = _degrees(graph, n, index)
    elif by == "class":
        names, place = _class_labels(class_names, k), labels
    elif by == "size":
        names, place = [str(size) for size in range(k + 1)], every[index].sum(axis=1)
    else:
        p, links = read_probabilities(probs), as_graph(graph, n)
        names = ["low / low", "low / high", "high / low", "high / high"]  # confidence / agreement
        place = mailbox_groups(p, links, mailbox_edges(p, links))[index]
    found = coverage_by_group(every[index], labels, place)
    return CoverageBreakdown(by, tuple(names[int(g)] for g in found.groups), found)
