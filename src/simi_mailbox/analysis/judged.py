"""The nodes that are judged, and what the pictures of them are made of."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.mailbox import agreement
from simi_mailbox.metrics import Reliability
from simi_mailbox.metrics._inputs import bin_sum, check_choice
from simi_mailbox.metrics.calibration_error import (
    bin_outcomes,
    check_binning,
    width_edges,
    width_index,
)
from simi_mailbox.validation import as_numpy, read_classes, read_index, read_probabilities

Cell = Literal["paper", "own"]
Closed = Literal["below", "above"]


@dataclass(frozen=True)
class Judged:
    """Confidence, predicted class and correctness of the nodes that are judged.

    Attributes
    ----------
    nodes, predicted, confidence : int64 [m], int64 [m], float64 [m]
        Their numbers in the graph, predicted classes, and probabilities of these.
    correct : float64 [m]
        1 where the prediction is right, 0 where it is wrong, NaN where no label is known: every
        accuracy drawn from it is then NaN too, and what needs no label is still there.
    num_nodes : int
        All nodes of the graph, judged or not.

    Examples
    --------
    >>> judged = judge([[0.9, 0.1], [0.8, 0.2]], None, nodes=[1])
    >>> judged.confidence.tolist(), judged.correct.tolist(), judged.num_nodes
    ([0.8], [nan], 2)
    """

    nodes: Ints
    confidence: Floats
    predicted: Ints
    correct: Floats
    num_nodes: int

    def __len__(self) -> int:
        return int(self.nodes.size)


def judge(probs: Any, y: Any, nodes: Any = None) -> Judged:
    """Read off confidence and correctness of ``nodes``.

    Parameters
    ----------
    probs : array [n, K]
        Probabilities of all nodes, NumPy or torch.
    y : array [n] or [m], or None
        Labels, of all nodes or of ``nodes`` only. Labels of other nodes are not looked at.
    nodes : array, optional
        The nodes to judge: boolean [n] or indices [m]; all nodes if not given.

    Examples
    --------
    >>> judged = judge(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    >>> judged.confidence.tolist(), judged.correct.tolist()
    ([0.9, 0.6], [1.0, 0.0])
    """
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
    check_binning(bins)
    if closed == "above":
        return np.maximum(np.searchsorted(width_edges(bins), values, side="left") - 1, 0)
    return width_index(values, bins)


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

    s(i) = (number of neighbours j of i with ŷ_j = ŷ_i) / (number of neighbours of i)

    It is NaN for a node without neighbours: such a node neither agrees nor disagrees, and the
    tables of this package keep it apart instead of calling it total disagreement.

    ``predictions`` are classes [n], or probabilities or logits [n, K]; ``graph`` is a `Graph`, a
    PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].

    Examples
    --------
    >>> neighbour_agreement(np.array([0, 0, 1, 1]), np.array([[0, 1], [1, 2]])).tolist()
    [1.0, 0.5, 0.0, nan]
    """
    classes = as_numpy(predictions)
    if classes.ndim == 2:
        classes = classes.argmax(axis=1)
    g = as_graph(graph, classes.size)
    share: Floats = agreement(torch.tensor(classes), g).numpy()
    return np.where(g.degree.numpy() > 0, share, np.nan)


def distance_to(graph: Graph, nodes: Any) -> Ints:
    """Number of steps from the nearest of ``nodes`` to every node; −1 where none leads there.

    A step goes from a node to one that lists it as a neighbour, the way messages flow, which
    matters for directed graphs only. ``nodes`` is boolean [n] or indices.

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

    Nodes are drawn with replacement ``draws`` times. A bin's counts of right and wrong nodes in
    such a draw are multinomial, so that they are drawn directly: the cost does not grow with the
    number of nodes. Bins in which all nodes are right, or all wrong, show no spread under the
    bootstrap however few they are; they keep the Wilson interval of `metrics.reliability`.

    ``level`` is the coverage of the band in each of the ``bins`` bins of equal width. Other
    parameters are those of `judge`; labels are needed.

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
    curve = bin_outcomes(judged.confidence, judged.correct, bins).reliability(level)
    right = np.rint(np.nan_to_num(curve.accuracy * curve.counts)).astype(np.int64)
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
    return dataclasses.replace(curve, low=low, high=high)


@dataclass(frozen=True)
class SimilarityConfidence:
    """Accuracy minus confidence over (confidence, neighbourhood similarity).

    Rows are confidence intervals B_m, columns are similarity intervals B^(l).

    Attributes
    ----------
    confidence_edges, similarity_edges : float64 [M + 1], [L + 1]
        Edges of the intervals.
    counts, confidence, accuracy : [M, L]
        Nodes in each cell, their mean confidence (NaN where there are none), and the accuracy that
        the cell is held against, as ``cell`` says.
    without_neighbours : int
        Judged nodes that have no similarity. They are in no cell, but in acc(B_m).

    Examples
    --------
    >>> probs, similarity = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]], [1.0, 0.2, 1.0]
    >>> table = similarity_confidence(probs, [0, 1, 0], similarity, bins=2, cell="own")
    >>> table.counts.tolist(), table.gap.round(2).tolist()
    ([[0, 0], [1, 2]], [[nan, nan], [-0.9, 0.25]])
    """

    confidence_edges: Floats
    similarity_edges: Floats
    counts: Ints
    confidence: Floats
    accuracy: Floats
    cell: Cell
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
        As in `judge`; without labels accuracy and gap are NaN and the counts are still there.
    similarity : array [n] or [m]
        Neighbourhood similarity in [0, 1], as of `neighbour_agreement`; NaN for a node without
        neighbours.
    bins : int
        Number of intervals on each axis; the paper uses 10.
    cell : {"paper", "own"}
        ``"paper"``: acc(B_m) − conf(B_m^(l)), which shows how far confidence scatters inside a
        confidence interval; ``"own"``: acc(B_m^(l)) − conf(B_m^(l)), which shows whether the nodes
        of this cell can be trusted.
    closed : {"below", "above"}
        Which end belongs to an interval; the paper's are closed above. Shares of neighbours are
        often on an edge.

    Examples
    --------
    >>> p = np.array([[0.92, 0.08], [0.96, 0.04]])
    >>> table = similarity_confidence(p, np.array([0, 1]), np.array([1.0, 0.0]), bins=2)
    >>> table.gap[1].round(2).tolist()
    [-0.46, -0.42]
    """
    check_choice(cell, "cell", get_args(Cell))
    check_choice(closed, "closed", get_args(Closed))
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row = unit_bins(judged.confidence, bins, closed)
    inside = row[known] * bins + unit_bins(s[known], bins, closed)
    shape = (bins, bins)
    counts = np.bincount(inside, minlength=bins * bins).reshape(shape)
    confidence = mean_of(inside, judged.confidence[known], bins * bins).reshape(shape)
    accuracy = mean_of(inside, judged.correct[known], bins * bins).reshape(shape)
    if cell == "paper":
        whole = mean_of(row, judged.correct, bins)
        accuracy = np.where(counts > 0, whole[:, None], np.nan)
    edges, without = width_edges(bins), int((~known).sum())
    return SimilarityConfidence(edges, edges, counts, confidence, accuracy, cell, without)
