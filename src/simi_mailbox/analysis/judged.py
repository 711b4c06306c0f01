"""The nodes that are judged, and what the pictures of them are made of."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
import torch

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.mailbox import agreement
from simi_mailbox.metrics import Reliability, reliability
from simi_mailbox.metrics.calibration_error import check_binning, width_edges, width_index
from simi_mailbox.validation import as_numpy, read_classes, read_index, read_probabilities


@dataclass(frozen=True)
class Judged:
    """Confidence, predicted class and correctness of the nodes that are judged.

    Attributes
    ----------
    nodes : int64 [m]
        Their numbers in the graph.
    confidence : float64 [m]
        Probability of the predicted class.
    predicted : int64 [m]
        Predicted class.
    correct : float64 [m]
        1 where the prediction is right, 0 where it is wrong, NaN where no label is known: every
        accuracy drawn from it is then NaN too, and what needs no label is still there.
    num_nodes : int
        All nodes of the graph, judged or not.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> judged = analysis.judge([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    >>> judged.confidence.tolist(), judged.correct.tolist()
    ([0.9, 0.8], [1.0, 0.0])
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
    rows = judged_rows(probs, y, nodes)
    predicted = rows.probs.argmax(axis=1).astype(np.int64)
    confidence = np.take_along_axis(rows.probs, predicted[:, None], axis=1)[:, 0]
    correct = np.full(rows.nodes.size, np.nan)
    if rows.labels is not None:
        correct = (rows.labels == predicted).astype(np.float64)
    confidence = np.minimum(confidence.astype(np.float64), 1.0)
    return Judged(rows.nodes, confidence, predicted, correct, rows.num_nodes)


class Rows(NamedTuple):
    """Probabilities and labels (None if not known) of the nodes that are judged."""

    nodes: Ints
    probs: Array
    labels: Ints | None
    num_nodes: int

    @property
    def known_labels(self) -> Ints:
        """The labels, for what is not defined without them."""
        if self.labels is None:
            raise ValueError("this needs labels: pass y")
        return self.labels


def judged_rows(probs: Any, y: Any, nodes: Any) -> Rows:
    """Check what `judge` is given and cut it down to ``nodes``."""
    p = as_numpy(probs)
    n = len(p) if p.ndim else 0
    index = np.arange(n) if nodes is None else read_index(nodes, n, "nodes", empty=True)
    chosen = read_probabilities(p, index)
    labels = None if y is None else read_classes(y, index, *p.shape, only_these=True)
    return Rows(index, chosen, labels, n)


def class_labels(names: Sequence[str] | None, classes: int) -> list[str]:
    """Name of each class; its number if none are given."""
    labels = [str(k) for k in range(classes)] if names is None else list(names)
    if len(labels) != classes:
        raise ValueError(f"got {len(labels)} class names for {classes} classes")
    return labels


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


Closed = Literal["below", "above"]


def unit_bins(values: Floats, bins: int, closed: Closed = "below") -> Ints:
    """Interval of each value of [0, 1]: bin k is [k/M, (k+1)/M) and 1.0 falls into the last.

    Closed above, it is (k/M, (k+1)/M] and 0.0 falls into the first.
    """
    check_binning(bins)
    if closed == "above":
        return np.maximum(np.searchsorted(width_edges(bins), values, side="left") - 1, 0)
    return width_index(values, bins)


def counts_of(cell: Ints, num_cells: int) -> Ints:
    """Number of nodes in each cell."""
    return np.bincount(cell, minlength=num_cells).astype(np.int64)


def mean_of(cell: Ints, values: Floats, num_cells: int) -> Floats:
    """Mean of ``values`` in each cell; NaN where a cell is empty."""
    totals = np.bincount(cell, weights=values, minlength=num_cells)
    counts = np.bincount(cell, minlength=num_cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, totals / counts, np.nan)


def accuracy_error(accuracy: Floats, counts: Ints) -> Floats:
    """Standard error of a share of right nodes; NaN where there are none.

    √(p (1 − p) / n) with p of the nodes and of two more right and two more wrong ones (Agresti and
    Coull): three nodes that are all right must not look certain.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (accuracy * counts + 2) / (counts + 4)
        return np.where(counts > 0, np.sqrt(share * (1 - share) / counts), np.nan)


def ece_of(
    cell: Ints, confidence: Floats, correct: Floats, num_cells: int, bins: int = 15
) -> Floats:
    """Expected calibration error inside each cell (equal-width bins); NaN where it is empty."""
    joint = cell * bins + width_index(confidence, bins)
    gaps = np.bincount(joint, weights=correct - confidence, minlength=num_cells * bins)
    totals = np.abs(gaps.reshape(num_cells, bins)).sum(axis=1)
    counts = counts_of(cell, num_cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, totals / counts, np.nan)


def neighbour_agreement(predictions: Any, graph: Any) -> Floats:
    """Share of each node's neighbours that are given the same class, s(i) of the paper.

    s(i) = (number of neighbours j of i with ŷ_j = ŷ_i) / (number of neighbours of i)

    It is NaN for a node without neighbours: such a node neither agrees nor disagrees, and the
    tables of this package keep it apart instead of calling it total disagreement.

    Parameters
    ----------
    predictions : array [n] or [n, K]
        Predicted classes, or probabilities or logits from which they are taken.
    graph
        A `Graph`, a PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].

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

    Breadth-first search from all of ``nodes`` at once. A step goes from a node to one that lists
    it as a neighbour, the way messages flow, which matters for directed graphs only.

    Parameters
    ----------
    graph : Graph
        The graph.
    nodes : array
        Where to start: boolean [n] or indices.

    Examples
    --------
    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=5)
    >>> distance_to(path, [0]).tolist()
    [0, 1, 2, 3, -1]
    """
    n = graph.num_nodes
    start = read_index(nodes, n, "nodes", empty=True)
    reach = sp.csr_array(
        (
            np.ones(graph.num_entries, dtype=np.int32),
            graph.indices.numpy(),
            graph.indptr.numpy(),
        ),
        shape=(n, n),
    )
    distance = np.full(n, -1, dtype=np.int64)
    distance[start] = 0
    frontier = np.zeros(n, dtype=np.int32)
    frontier[start] = 1
    step = 0
    while frontier.any():
        step += 1
        reached = (reach @ frontier > 0) & (distance < 0)
        distance[reached] = step
        frontier = reached.astype(np.int32)
    return distance


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
    """Reliability of ``nodes`` with counts and a bootstrap band around each accuracy.

    Nodes are drawn with replacement ``draws`` times. A bin's counts of right and wrong nodes in
    such a draw are multinomial, so that they are drawn directly: the cost does not grow with the
    number of nodes. Bins in which all nodes are right, or all wrong, show no spread under the
    bootstrap however few they are; they keep the Wilson interval of `metrics.reliability`.

    Parameters
    ----------
    probs, y, nodes
        As in `judge`; labels are needed.
    bins : int
        Number of bins of equal width.
    level : float
        Coverage of the band in each bin.
    draws, seed : int
        Number of bootstrap samples and seed.

    Returns
    -------
    Reliability
        As of `metrics.reliability`, with ``low`` and ``high`` from the bootstrap.

    Examples
    --------
    >>> curve = reliability_curve(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> bool(curve.low[12] < 0.7 < curve.high[12])
    True
    """
    rows = judged_rows(probs, y, nodes)
    curve = reliability(rows.probs, rows.known_labels, bins=bins, band=level)
    right = np.rint(np.nan_to_num(curve.accuracy * curve.counts)).astype(np.int64)
    cells = np.concatenate([right, curve.counts - right])
    total = int(cells.sum())
    drawn = np.random.default_rng(seed).multinomial(total, cells / total, size=draws)
    hits, size = drawn[:, :bins], drawn[:, :bins] + drawn[:, bins:]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(size > 0, hits / size, np.nan)
    mixed = (right > 0) & (right < curve.counts)
    low, high = curve.low.copy(), curve.high.copy()
    tails = [(1 - level) / 2, (1 + level) / 2]
    if mixed.any():
        low[mixed], high[mixed] = np.nanquantile(share[:, mixed], tails, axis=0)
    return dataclasses.replace(curve, low=low, high=high)


Cell = Literal["paper", "own"]


@dataclass(frozen=True)
class SimilarityConfidence:
    """Accuracy minus confidence over (confidence, neighbourhood similarity).

    Rows are confidence intervals B_m, columns are similarity intervals B^(l).

    Attributes
    ----------
    confidence_edges, similarity_edges : float64 [M + 1], [L + 1]
        Edges of the intervals. Each is closed below, the last on both sides, unless
        ``closed="above"`` was asked for.
    counts : int64 [M, L]
        Nodes in each cell.
    confidence : float64 [M, L]
        Mean confidence of each cell; NaN where it is empty.
    accuracy : float64 [M, L]
        The accuracy that the cell is held against; see ``cell``.
    cell : {"paper", "own"}
        ``"paper"``: acc(B_m) − conf(B_m^(l)), the accuracy of the whole confidence interval;
        ``"own"``: acc(B_m^(l)) − conf(B_m^(l)), the accuracy of the cell itself.
    without_neighbours : int
        Judged nodes that have no similarity. They are in no cell, but in acc(B_m).

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> probs = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4]]
    >>> y, similarity = [0, 1, 0], [1.0, 0.2, 1.0]
    >>> table = analysis.similarity_confidence(probs, y, similarity, bins=2, cell="own")
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
        Which accuracy a cell is held against; see `SimilarityConfidence`. The paper's definition
        shows how far confidence scatters inside an interval of equal accuracy; the cell's own
        accuracy shows whether the nodes of this cell can be trusted.
    closed : {"below", "above"}
        Which end belongs to an interval; the paper's are closed above. Shares of neighbours are
        often on an edge.

    Examples
    --------
    Two nodes share a confidence interval. One is right and agrees with its neighbours.

    >>> p = np.array([[0.92, 0.08], [0.96, 0.04]])
    >>> table = similarity_confidence(p, np.array([0, 1]), np.array([1.0, 0.0]), bins=2)
    >>> table.gap[1].round(2).tolist()
    [-0.46, -0.42]
    """
    if cell not in get_args(Cell):
        raise ValueError(f"cell must be 'paper' or 'own', got {cell!r}")
    if closed not in get_args(Closed):
        raise ValueError(f"closed must be 'below' or 'above', got {closed!r}")
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row = unit_bins(judged.confidence, bins, closed)
    inside = row[known] * bins + unit_bins(s[known], bins, closed)
    shape = (bins, bins)
    counts = counts_of(inside, bins * bins).reshape(shape)
    confidence = mean_of(inside, judged.confidence[known], bins * bins).reshape(shape)
    if cell == "own":
        accuracy = mean_of(inside, judged.correct[known], bins * bins).reshape(shape)
    else:
        whole = mean_of(row, judged.correct, bins)
        accuracy = np.where(counts > 0, whole[:, None], np.nan)
    edges = np.linspace(0.0, 1.0, bins + 1)
    without = int((~known).sum())
    return SimilarityConfidence(edges, edges.copy(), counts, confidence, accuracy, cell, without)
