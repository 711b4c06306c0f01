"""Sorting nodes into intervals and averaging inside them."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics.binning import check_binning, width_index


def unit_bins(values: Floats, bins: int) -> Ints:
    """Interval of each value of [0, 1]: bin k is [k/M, (k+1)/M) and 1.0 falls into the last."""
    check_binning(bins)
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
