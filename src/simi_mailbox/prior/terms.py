"""What the prior's expectation is a linear combination of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SHAPE = ("1", "c", "p", "c*c", "c*p", "p*p")
"""Terms in confidence c and mailbox percentile p: where on a graph the confidence is wrong."""
LEVEL = ("e",)
"""Terms of the calibration set as a whole: e is the standard error of its accuracy."""
TERMS = SHAPE + LEVEL


def shape_terms(confidence: Floats, percentile: Floats) -> Floats:
    """Terms [n, 6] of nodes, or of groups at their means.

    Examples
    --------
    >>> shape_terms(np.array([0.5]), np.array([0.2])).round(2).tolist()
    [[1.0, 0.5, 0.2, 0.25, 0.1, 0.04]]
    """
    c, p = confidence, percentile
    return np.stack([np.ones_like(c), c, p, c * c, c * p, p * p], axis=1)


def level_terms(confidence: Floats) -> Floats:
    """Terms [1] of a calibration set, from the confidences of its nodes.

    A fold of few labels that has chosen the checkpoint of the GNN is luckier than a fresh one, by
    some part of its standard error √Σ c(1 − c) / n: one cannot see this on the fold itself.

    Examples
    --------
    >>> level_terms(np.full(100, 0.5)).round(3)
    array([0.05])
    """
    c = confidence
    return np.array([np.sqrt((c * (1.0 - c)).sum()) / len(c)])


def percentiles(values: Floats) -> Floats:
    """Share of all values below each value, equal values counting half: between 0 and 1.

    Percentiles make graphs comparable whose mailboxes live on different scales. On a graph
    without edges, where all are equal, every node gets one half.

    Examples
    --------
    >>> percentiles(np.array([0.3, 0.1, 0.3, 0.9]))
    array([0.5  , 0.125, 0.5  , 0.875])
    """
    order = np.argsort(values)
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(values)])
    result = np.empty(len(values))
    result[order] = np.repeat((starts + lengths / 2) / len(values), lengths)
    return result
