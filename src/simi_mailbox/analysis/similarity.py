"""Similarity × confidence: the heat maps and the variance table of the paper, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.cells import counts_of, mean_of, unit_bins, variance_of
from simi_mailbox.analysis.judged import judged_similarity

Cell = Literal["paper", "own"]


@dataclass(frozen=True)
class SimilarityConfidence:
    """Accuracy minus confidence over (confidence, neighbourhood similarity).

    Rows are confidence intervals B_m, columns are similarity intervals B^(l).

    Attributes
    ----------
    confidence_edges, similarity_edges : float64 [M + 1], [L + 1]
        Edges of the intervals; each is closed below and open above, the last closed.
    counts : int64 [M, L]
        Nodes in each cell.
    confidence : float64 [M, L]
        Mean confidence of each cell.
    accuracy : float64 [M, L]
        The accuracy that the cell is held against; see ``cell``.
    gap : float64 [M, L]
        ``accuracy - confidence``: positive where the model is under-confident. NaN where empty.
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
    gap: Floats
    cell: Cell
    without_neighbours: int


@dataclass(frozen=True)
class SimilarityBar:
    """Accuracy minus confidence over neighbourhood similarity alone: acc(B^(l)) − conf(B^(l)).

    Attributes
    ----------
    edges : float64 [L + 1]
        Edges of the similarity intervals.
    counts : int64 [L]
        Nodes in each interval.
    confidence, accuracy, gap : float64 [L]
        Means over the interval and ``accuracy - confidence``; NaN where it is empty.
    without_neighbours : int
        Judged nodes that have no similarity and are in no interval.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> bar = analysis.similarity_bar([[0.9, 0.1], [0.9, 0.1]], [0, 1], [1.0, 0.2], bins=2)
    >>> bar.gap.round(2).tolist()
    [-0.9, 0.1]
    """

    edges: Floats
    counts: Ints
    confidence: Floats
    accuracy: Floats
    gap: Floats
    without_neighbours: int


def similarity_confidence(
    probs: Any,
    y: Any,
    similarity: Any,
    *,
    nodes: Any = None,
    bins: int = 10,
    cell: Cell = "paper",
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

    Examples
    --------
    Two nodes share a confidence interval. One is right and agrees with its neighbours.

    >>> import numpy as np
    >>> p = np.array([[0.92, 0.08], [0.96, 0.04]])
    >>> table = similarity_confidence(p, np.array([0, 1]), np.array([1.0, 0.0]), bins=2)
    >>> table.gap[1].round(2).tolist()
    [-0.46, -0.42]
    >>> own = similarity_confidence(p, np.array([0, 1]), [1.0, 0.0], bins=2, cell="own")
    >>> own.gap[1].round(2).tolist()
    [-0.96, 0.08]
    """
    if cell not in get_args(Cell):
        raise ValueError(f"cell must be 'paper' or 'own', got {cell!r}")
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row = unit_bins(judged.confidence, bins)
    inside = row[known] * bins + unit_bins(s[known], bins)
    shape = (bins, bins)
    counts = counts_of(inside, bins * bins).reshape(shape)
    confidence = mean_of(inside, judged.confidence[known], bins * bins).reshape(shape)
    if cell == "own":
        accuracy = mean_of(inside, judged.correct[known], bins * bins).reshape(shape)
    else:
        whole = mean_of(row, judged.correct, bins)
        accuracy = np.where(counts > 0, whole[:, None], np.nan)
    edges = np.linspace(0.0, 1.0, bins + 1)
    return SimilarityConfidence(
        edges,
        edges.copy(),
        counts,
        confidence,
        accuracy,
        accuracy - confidence,
        cell,
        int((~known).sum()),
    )


def similarity_bar(
    probs: Any, y: Any, similarity: Any, *, nodes: Any = None, bins: int = 10
) -> SimilarityBar:
    """Hold confidence against accuracy in intervals of equal similarity.

    Parameters are those of `similarity_confidence`.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3]])
    >>> similarity_bar(p, np.array([0, 1]), [1.0, 0.0], bins=2).gap.round(2).tolist()
    [-0.7, 0.1]
    """
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    column = unit_bins(s[known], bins)
    confidence = mean_of(column, judged.confidence[known], bins)
    accuracy = mean_of(column, judged.correct[known], bins)
    return SimilarityBar(
        np.linspace(0.0, 1.0, bins + 1),
        counts_of(column, bins),
        confidence,
        accuracy,
        accuracy - confidence,
        int((~known).sum()),
    )


@dataclass(frozen=True)
class CalibrationErrorVariance:
    """Variance of the calibration error of nodes, at three degrees of grouping.

    Attributes
    ----------
    node_wise : float
        Variance over all nodes of |acc(B_m) − conf(B_m)|, the error of the interval a node is in.
    confidence : float
        Mean over confidence intervals B_m of the variance of D(i) = |acc(B_m) − p̂_i| inside them.
    similarity : float
        The same inside cells of equal confidence and equal neighbourhood similarity.
    confidence_cells, similarity_cells : int
        How many intervals and cells hold at least two nodes and were averaged over.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> probs = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]
    >>> found = analysis.variance_of_calibration_error(probs, [0, 1, 0], [1.0, 1.0, 1.0], bins=1)
    >>> round(found.confidence, 4), found.confidence_cells
    (0.007, 1)
    """

    node_wise: float
    confidence: float
    similarity: float
    confidence_cells: int
    similarity_cells: int


def variance_of_calibration_error(
    probs: Any, y: Any, similarity: Any, *, nodes: Any = None, bins: int = 10
) -> CalibrationErrorVariance:
    """Variance of calibration errors over all nodes, within intervals, and within cells.

    D(i) = |acc(B_m) − p̂_i| for node i of confidence interval B_m;
    V(B) = Σ_{i in B} (D(i) − mean D)² / (|B| − 1); the table holds unweighted means of V. The paper
    prints them times 100. Cells with fewer than two nodes have no variance and are left out of
    the mean; nodes without neighbours are in no cell.

    Parameters are those of `similarity_confidence`; labels are needed.

    Examples
    --------
    >>> import numpy as np
    >>> p = np.array([[0.90, 0.10], [0.92, 0.08], [0.96, 0.04], [0.98, 0.02]])
    >>> table = variance_of_calibration_error(p, np.zeros(4, dtype=int), [1, 1, 0, 0])
    >>> f"{table.confidence:.6f} {table.similarity:.6f}"
    '0.001333 0.000200'
    """
    if y is None:
        raise ValueError("the variance of calibration errors needs labels")
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row = unit_bins(judged.confidence, bins)
    accuracy = mean_of(row, judged.correct, bins)
    error = np.abs(accuracy[row] - judged.confidence)
    of_interval = np.abs(accuracy - mean_of(row, judged.confidence, bins))
    intervals = variance_of(row, error, bins)
    cell = row[known] * bins + unit_bins(s[known], bins)
    cells = variance_of(cell, error[known], bins * bins)
    return CalibrationErrorVariance(
        node_wise=float(np.var(of_interval[row], ddof=1)) if len(judged) > 1 else float("nan"),
        confidence=_mean(intervals),
        similarity=_mean(cells),
        confidence_cells=int((~np.isnan(intervals)).sum()),
        similarity_cells=int((~np.isnan(cells)).sum()),
    )


def _mean(values: Any) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
