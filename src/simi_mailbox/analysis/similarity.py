"""Similarity × confidence: the heat map of the paper, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.cells import counts_of, mean_of, unit_bins
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

    >>> p = np.array([[0.92, 0.08], [0.96, 0.04]])
    >>> table = similarity_confidence(p, np.array([0, 1]), np.array([1.0, 0.0]), bins=2)
    >>> table.gap[1].round(2).tolist()
    [-0.46, -0.42]
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
    without = int((~known).sum())
    return SimilarityConfidence(edges, edges.copy(), counts, confidence, accuracy, cell, without)
