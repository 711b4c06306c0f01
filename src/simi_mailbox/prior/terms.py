"""The two things that a prior says about a residual, as terms of a regression."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

TERMS = ("c - mean c", "c / n")
"""Confidence c relative to its mean over all nodes, and over the number n of labels."""
VARIANCE_FLOOR = 0.005
"""Added to c(1 − c) where nodes are weighted by their precision: none counts for a thousand."""


def terms(confidence: Floats, mean: float, labels: int) -> Floats:
    """Terms [n, 2] of nodes, or of groups at their mean confidence.

    Examples
    --------
    >>> terms(np.array([0.5, 0.9]), mean=0.8, labels=100).round(6).tolist()
    [[-0.3, 0.005], [0.1, 0.009]]
    """
    return np.stack([confidence - mean, confidence / labels], axis=1)


def precision(confidence: Floats) -> Floats:
    """Weight of a node's residual in the regression: the inverse of its variance, bounded.

    Examples
    --------
    >>> precision(np.array([0.5, 1.0])).round(1).tolist()
    [3.9, 200.0]
    """
    return np.asarray(1.0 / (confidence * (1.0 - confidence) + VARIANCE_FLOOR))
