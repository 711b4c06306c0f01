"""The paper's table of variances: how far calibration errors of nodes scatter."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.judged import judged_similarity, mean_of, unit_bins


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

    Parameters are those of `analysis.similarity_confidence`; labels are needed.
    """
    if y is None:
        raise ValueError("the variance of calibration errors needs labels")
    judged, s, known = judged_similarity(probs, y, similarity, nodes)
    row = unit_bins(judged.confidence, bins)
    accuracy = mean_of(row, judged.correct, bins)
    error = np.abs(accuracy[row] - judged.confidence)
    of_interval = np.abs(accuracy - mean_of(row, judged.confidence, bins))
    intervals = _variances(row, error, bins)
    cell = row[known] * bins + unit_bins(s[known], bins)
    cells = _variances(cell, error[known], bins * bins)
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


def _variances(cell: Ints, values: Floats, num_cells: int) -> Floats:
    """Unbiased variance of ``values`` in each cell; NaN where fewer than two nodes are."""
    counts = np.bincount(cell, minlength=num_cells)
    centre = mean_of(cell, values, num_cells)
    squares = np.bincount(cell, weights=(values - centre[cell]) ** 2, minlength=num_cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 1, squares / (counts - 1), np.nan)
