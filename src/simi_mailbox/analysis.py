"""Where a model is calibrated and where not: the arrays behind every picture.

Everything here computes and nothing draws; `simi_mailbox.plots` and the report draw what these
functions return. Definitions: ``docs/pictures.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.mailbox import agreement, mailbox_edges, mailbox_groups
from simi_mailbox.metrics import GroupCoverage, Reliability, coverage_by_group
from simi_mailbox.metrics import calibration_error as binned
from simi_mailbox.metrics._inputs import bin_sum, check_choice
from simi_mailbox.metrics.sets import check_sets
from simi_mailbox.validation import as_numpy, read_classes, read_index, read_probabilities

__all__ = [
    "Breakdown",
    "CoverageBreakdown",
    "GroupMap",
    "SimilarityConfidence",
    "TemperatureHistogram",
    "by_agreement",
    "by_class",
    "by_degree",
    "by_distance",
    "covered_by",
    "distance_to",
    "group_map",
    "neighbour_agreement",
    "reliability_curve",
    "similarity_confidence",
    "temperature_histogram",
]

Cell = Literal["paper", "own"]
Closed = Literal["below", "above"]
SetSlices: TypeAlias = Literal["degree", "mailbox", "class", "size"]
BINS, FARTHEST = 15, 5
"""Of the calibration error inside a slice; of distances that have a slice of their own."""


@dataclass(frozen=True)
class Judged:
    """Confidence, predicted class and correctness (1, 0; NaN without label) of some nodes."""

    nodes: Ints
    confidence: Floats
    predicted: Ints
    correct: Floats
    num_nodes: int

    def __len__(self) -> int:
        return int(self.nodes.size)


def judge(probs: Any, y: Any, nodes: Any = None) -> Judged:
    """Read off confidence and correctness of ``nodes``; labels of others are not looked at."""
    p = as_numpy(probs)
    n = len(p) if p.ndim else 0
    index = np.arange(n) if nodes is None else read_index(nodes, n, "nodes", empty=True)
    chosen = read_probabilities(p, index)
    predicted = chosen.argmax(axis=1).astype(np.int64)
    confidence = np.take_along_axis(chosen, predicted[:, None], axis=1)[:, 0]
    correct = np.full(index.size, np.nan)
    if y is not None:
        correct = (read_classes(y, index, *p.shape, only_these=True) == predicted).astype(float)
    return Judged(index, np.minimum(confidence.astype(float), 1.0), predicted, correct, n)


def per_node(values: Any, judged: Judged, name: str) -> Floats:
    """Values of the judged nodes, given for all nodes or for the judged ones only."""
    array = as_numpy(values).astype(np.float64)
    if array.ndim != 1 or array.size not in (judged.num_nodes, len(judged)):
        raise ValueError(
            f"{name} has shape {list(array.shape)}; expected one value per node "
            f"({judged.num_nodes}) or per judged node ({len(judged)})"
        )
    return array[judged.nodes] if array.size == judged.num_nodes else array


def judged_similarity(
    probs: Any, y: Any, similarity: Any, nodes: Any
) -> tuple[Judged, Floats, Bools]:
    """The judged nodes, their neighbourhood similarity, and which of them have one."""
    judged = judge(probs, y, nodes)
    s = per_node(similarity, judged, "similarity")
    outside = (s < 0) | (s > 1)
    if outside.any():
        raise ValueError(
            f"similarity must lie between 0 and 1, got {s[outside][0]:.4g}; "
            "pass the share of agreeing neighbours (neighbour_agreement)"
        )
    return judged, s, ~np.isnan(s)


def unit_bins(values: Floats, bins: int, closed: Closed = "below") -> Ints:
    """Interval of each value of [0, 1]: [k/M, (k+1)/M), the last closed; or (k/M, (k+1)/M]."""
    binned.check_binning(bins)
    if closed == "above":
        return np.maximum(np.searchsorted(binned.width_edges(bins), values, side="left") - 1, 0)
    return binned.width_index(values, bins)


def mean_of(cell: Ints, values: Floats, num_cells: int) -> Floats:
    """Mean of ``values`` in each cell; NaN where a cell is empty."""
    with np.errstate(invalid="ignore"):
        return bin_sum(cell, values, num_cells) / np.bincount(cell, minlength=num_cells)


def accuracy_error(accuracy: Floats, counts: Ints) -> Floats:
    """Standard error of a share of right nodes; NaN where there are none."""
    # Two more right and two more wrong (Agresti and Coull): three right nodes are not certain.
    share = (accuracy * counts + 2) / (counts + 4)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(share * (1 - share) / counts)


def neighbour_agreement(predictions: Any, graph: Any) -> Floats:
    """Share of each node's neighbours that are given the same class, s(i) of the paper.

    s(i) = (number of neighbours j of i with ŷ_j = ŷ_i) / (number of neighbours of i), NaN without
    neighbours. ``predictions`` are classes [n], or probabilities or logits [n, K]; ``graph`` is
    anything that `as_graph` reads.

    Examples
    --------
    >>> neighbour_agreement(np.array([0, 0, 1, 1]), np.array([[0, 1], [1, 2]])).tolist()
    [1.0, 0.5, 0.0, nan]
    """
    classes = as_numpy(predictions)
    if classes.ndim == 2:
        classes = classes.argmax(axis=1)
    g = as_graph(graph, classes.size)
    return np.where(g.degree.numpy() > 0, agreement(torch.tensor(classes), g).numpy(), np.nan)


def distance_to(graph: Graph, nodes: Any) -> Ints:
    """Number of steps from the nearest of ``nodes`` to every node; −1 where none leads there.

    A step goes from a node to one that lists it as a neighbour, the way messages flow. ``nodes``
    is boolean [n] or indices.

    Examples
    --------
    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=5)
    >>> distance_to(path, [0]).tolist()
    [0, 1, 2, 3, -1]
    """
    n = graph.num_nodes
    start = read_index(nodes, n, "nodes", empty=True)
    if not start.size:
        return np.full(n, -1, dtype=np.int64)
    links = (part.to(torch.int32).numpy() for part in (graph.indices, graph.indptr))
    reach = sp.csr_array((np.ones(graph.num_entries), *links), shape=(n, n)).T
    steps = dijkstra(reach, indices=start, unweighted=True, min_only=True)
    return np.where(np.isinf(steps), -1, steps).astype(np.int64)


def reliability_curve(
    probs: Any,
    y: Any,
    *,
    nodes: Any = None,
    bins: int = 15,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Reliability:
    """`metrics.reliability` of ``nodes`` with a bootstrap band around each accuracy.

    Bins in which all nodes are right, or all wrong, show no spread under the bootstrap; they keep
    the Wilson interval of `metrics.reliability`.

    Parameters
    ----------
    probs : array [n, K]
        Probabilities of all nodes, NumPy or torch.
    y, nodes : array, optional
        Labels, of all nodes [n] or of those to judge [m], and these: boolean [n] or indices [m],
        all if not given. Labels of other nodes are not looked at.
    bins, level, draws, seed
        Bins of equal width, coverage of the band in each, draws and their seed.

    Examples
    --------
    >>> curve = reliability_curve(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> bool(curve.low[12] < 0.7 < curve.high[12])
    True
    """
    if y is None:
        raise ValueError("this needs labels: pass y")
    judged = judge(probs, y, nodes)
    if not len(judged):
        raise ValueError("nodes selects no node")
    curve = binned.bin_outcomes(judged.confidence, judged.correct, bins).reliability(level)
    right = np.rint(np.nan_to_num(curve.accuracy * curve.counts)).astype(np.int64)
    # Of nodes drawn with replacement, the numbers of right and wrong ones per bin are multinomial.
    cells = np.concatenate([right, curve.counts - right])
    drawn = np.random.default_rng(seed).multinomial(len(judged), cells / len(judged), size=draws)
    hits, size = drawn[:, :bins], drawn[:, :bins] + drawn[:, bins:]
    mixed = (right > 0) & (right < curve.counts)
    low, high = curve.low.copy(), curve.high.copy()
    if mixed.any():
        with np.errstate(invalid="ignore"):
            share = hits[:, mixed] / size[:, mixed]
        ends = np.nanquantile(share, [(1 - level) / 2, (1 + level) / 2], axis=0)
        low[mixed], high[mixed] = ends
    return replace(curve, low=low, high=high)


@dataclass(frozen=True)
class SimilarityConfidence:
    """Accuracy minus confidence over confidence (rows B_m) and similarity (columns B^(l)).

    Attributes
    ----------
    edges, counts, confidence, accuracy : [M + 1], [M, M]
        Edges of the intervals, on both axes; nodes in each cell, their mean confidence (NaN without
        nodes), and the accuracy compared.
    without_neighbours : int
        Judged nodes that have no similarity. They are in no cell, but in acc(B_m).
    """

    edges: Floats
    counts: Ints
    confidence: Floats
    accuracy: Floats
    without_neighbours: int

    @property
    def gap(self) -> Floats:
        """Accuracy minus confidence [M, L]: positive where the model is under-confident."""
        return self.accuracy - self.confidence


def similarity_confidence(
    probs: Any,
    y: Any,
    similarity: Any,
    *,
    nodes: Any = None,
    bins: int = 10,
    cell: Cell = "paper",
    closed: Closed = "below",
) -> SimilarityConfidence:
    """Hold confidence against accuracy in cells of equal confidence and similarity.

    Parameters
    ----------
    probs, y, nodes
        As in `reliability_curve`; without labels (None) accuracy and gap are NaN.
    similarity : array [n] or [m]
        In [0, 1], as of `neighbour_agreement`; NaN for a node without neighbours.
    bins : int
        Number of intervals on each axis; the paper uses 10.
    cell : {"paper", "own"}
        Whether a cell's confidence is held against acc(B_m), the accuracy of its confidence
        interval, or against acc(B_m^(l)), that of its own nodes.
    closed : {"below", "above"}
        Which end belongs to an interval; the paper's are closed above.
    """
    check_choice(cell, "cell", get_args(Cell))
    check_choice(closed, "closed", get_args(Closed))
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row, cells, shape = unit_bins(judged.confidence, bins, closed), bins * bins, (bins, bins)
    inside = row[known] * bins + unit_bins(s[known], bins, closed)
    counts = np.bincount(inside, minlength=cells).reshape(shape)
    confidence = mean_of(inside, judged.confidence[known], cells).reshape(shape)
    accuracy = mean_of(inside, judged.correct[known], cells).reshape(shape)
    if cell == "paper":
        whole = mean_of(row, judged.correct, bins)
        accuracy = np.where(counts > 0, whole[:, None], np.nan)
    without = int((~known).sum())
    return SimilarityConfidence(binned.width_edges(bins), counts, confidence, accuracy, without)


@dataclass(frozen=True)
class Breakdown:
    """Confidence held against accuracy in slices of the judged nodes.

    Attributes
    ----------
    by, labels : str, tuple of str
        What the slices are made by, and their names.
    counts, confidence, accuracy, ece : array [s]
        Nodes in each slice, means and calibration error (large by chance in small slices); NaN
        where it is empty or labels are not known.
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

    ``graph`` is anything that `as_graph` reads; the rest as in `reliability_curve`.
    """
    judged = judge(probs, y, nodes)
    return _table("degree", *_degrees(graph, judged.num_nodes, judged.nodes), judged)


def by_class(
    probs: Any, y: Any, *, nodes: Any = None, class_names: Sequence[str] | None = None
) -> Breakdown:
    """Slices of equal predicted class, which is what a user sees.

    ``class_names`` are numbers if not given; the rest as in `reliability_curve`.
    """
    judged = judge(probs, y, nodes)
    names = _class_labels(class_names, as_numpy(probs).shape[1])
    return _table("predicted class", names, judged.predicted, judged)


def by_distance(probs: Any, y: Any, graph: Any, labelled: Any, *, nodes: Any = None) -> Breakdown:
    """Slices of equal distance to the nearest labelled node: 0, 1, …, 5 or more, out of reach.

    ``labelled`` is boolean [n] or indices; the rest as in `by_degree`.
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

    ``slices`` of equal width; the rest as in `similarity_confidence`.
    """
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    place = np.where(known, unit_bins(s, slices), slices)
    edges = [f"{100 * k / slices:.0f}" for k in range(slices + 1)]
    labels = [f"{low}–{high} %" for low, high in pairwise(edges)]
    labels += [] if known.all() else ["no neighbours"]
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
    """The `GroupCoverage` of slices that have nodes, and their names."""

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
        As `by_degree` (with ``graph``); low and high confidence with low and high neighbour
        agreement, as of ``PredictionSets(condition_on="mailbox")`` (with ``graph`` and ``probs``
        [n, K]); the true class; the size of the set.
    sets, y, nodes, class_names
        Booleans [n, K] of all nodes; the rest as in `by_class`.
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


@dataclass(frozen=True)
class GroupMap:
    """One entry per group.

    Attributes
    ----------
    confidence, similarity, temperatures : float64 [G]
        Means over all nodes of the group, before calibration; NaN for a group without nodes.
    sizes, calibration_labels, judged : int64 [G]
        All nodes, those whose labels the calibrator read, and those that it is judged on.
    confidence_before, confidence_after, accuracy : float64 [G]
        Means of the judged nodes, before and after calibration.
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
    groups, similarity, temperatures : array [n]
        Group of every node, 0..G-1, its neighbourhood similarity and its temperature.
    before, after : array [n, K]
        Probabilities before and after calibration.
    calibration, y, nodes : array, optional
        Nodes whose labels the calibrator read; the rest as in `reliability_curve`.
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
    """Nodes between ``edges`` of equal width in log T; T > 1 lowers confidence."""

    edges: Floats
    counts: Ints
    smallest: float
    median: float
    largest: float


def temperature_histogram(temperatures: Any, *, bins: int = 30) -> TemperatureHistogram:
    """Count nodes by temperature, in bins of equal width on a logarithmic scale."""
    t = as_numpy(temperatures).astype(np.float64).ravel()
    if not (t.size and np.isfinite(t).all() and t.min() > 0):
        raise ValueError("temperatures must be at least one, all positive and finite")
    low, high = np.log(t.min()), np.log(t.max())
    if high - low < 1e-9:  # one temperature for all: a bin around it, not of width zero
        low, high = low - 0.05, high + 0.05
    counts, edges = np.histogram(np.log(t), bins=bins, range=(low, high))
    told = (float(value) for value in (t.min(), np.median(t), t.max()))
    return TemperatureHistogram(np.exp(edges), counts, *told)
