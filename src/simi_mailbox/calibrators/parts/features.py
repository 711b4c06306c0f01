"""Node features: dense or sparse, and their distances to class prototypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from simi_mailbox._arrays import Floats
from simi_mailbox.inputs import NodeInputs

SHRINKAGE = 0.1
WIDEST = 512
"""Representations wider than this get a diagonal covariance: a full one would be all noise."""


def check_width(data: NodeInputs, width: int) -> None:
    """Refuse features of another number of columns than a calibrator was fitted on."""
    assert data.features is not None
    if data.features.shape[1] != width:
        raise ValueError(
            f"features have {data.features.shape[1]} columns, "
            f"but this calibrator was fitted on {width}"
        )


def feature_matrix(data: NodeInputs, width: int | None = None) -> Any:
    """Features as a float64 NumPy array, or as a SciPy CSR array if they are sparse.

    ``width`` is the number of columns that a fitted calibrator expects.

    Examples
    --------
    >>> nodes = NodeInputs(torch.zeros(2, 3), features=torch.eye(2).to_sparse_csr())
    >>> feature_matrix(nodes).toarray().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    features = data.features
    assert features is not None
    if width is not None:
        check_width(data, width)
    if features.layout == torch.sparse_csr:
        parts = (features.values(), features.col_indices(), features.crow_indices())
        values, columns, offsets = (part.numpy() for part in parts)
        return csr_array((values.astype(np.float64), columns, offsets), shape=features.shape)
    return features.numpy().astype(np.float64)


def fit_prototypes(x: Any, probs: Floats) -> tuple[Floats, Floats]:
    """Class means [K, d], and the precision within classes: [d, d], or its diagonal [d].

    Node i counts for class k with weight ``probs[i, k]``. The covariance S within classes is shrunk
    towards its mean variance v: 0.9 S + 0.1 v I. A class of (almost) no weight gets the mean of all
    nodes as its prototype.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [0.0, 2.0], [4.0, 0.0], [4.0, 2.0]])
    >>> means, precision = fit_prototypes(x, np.repeat(np.eye(2), 2, axis=0))
    >>> means.tolist()
    [[0.0, 1.0], [4.0, 1.0]]
    >>> distances(x[:1], means, precision).round(3).tolist()  # 4 apart where nothing varies
    [[0.725, 12.67]]
    """
    n, width = x.shape
    mass = probs.sum(axis=0)
    overall = np.asarray(x.sum(axis=0)).reshape(1, -1) / n
    share = probs / np.maximum(mass, 1e-12)
    # One memory layout before and after a file: products round the same way.
    means = np.ascontiguousarray(np.where(mass[:, None] > 1e-6, np.asarray(x.T @ share).T, overall))
    between = means * np.sqrt(mass[:, None] / n)
    if width > WIDEST:
        scatter = np.asarray((x * x).sum(axis=0)).ravel() / n - (between**2).sum(axis=0)
        scatter = np.maximum(scatter, 0.0)
        mean = scatter.mean() or 1.0
        return means, 1 / ((1 - SHRINKAGE) * scatter + SHRINKAGE * mean)
    dense = _dense(x)
    scatter = dense.T @ dense / n - between.T @ between
    mean = max(float(np.trace(scatter)) / width, 0.0) or 1.0
    return means, np.linalg.inv((1 - SHRINKAGE) * scatter + SHRINKAGE * mean * np.eye(width))


def distances(x: Any, means: Floats, precision: Floats) -> Floats:
    """sqrt((x_i − μ_k)ᵀ P (x_i − μ_k) / d) for all nodes and classes [n, K]; about 1 inside."""
    width = x.shape[1]
    if precision.ndim == 1:
        own = np.asarray((x * x) @ precision)
        moved = means * precision
        cross = np.asarray(x @ moved.T)
    else:
        dense = _dense(x)
        moved = means @ precision
        own = ((dense @ precision) * dense).sum(axis=1)
        cross = dense @ moved.T
    squared = own[:, None] - 2 * cross + (moved * means).sum(axis=1)
    # Rounding can leave a node that sits on its prototype slightly below zero.
    result: Floats = np.sqrt(np.maximum(squared, 0.0) / width)
    return result


def _dense(x: Any) -> Floats:
    dense: Floats = x.toarray() if hasattr(x, "toarray") else x
    return dense
