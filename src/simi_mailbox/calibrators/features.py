"""Node features: dense or sparse, and their distances to class prototypes."""

from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from simi_mailbox._arrays import Floats
from simi_mailbox.validation import NodeInputs

SHRINKAGE = 0.1
WIDEST = 512  # columns; of more the covariance is diagonal: a full one would be noise


def check_width(data: NodeInputs, width: int) -> None:
    """Refuse features of another number of columns than a calibrator was fitted on."""
    found = data.features.shape[1] if data.features is not None else 0
    if found != width:
        raise ValueError(
            f"features have {found} columns, but this calibrator was fitted on {width}"
        )


def feature_matrix(data: NodeInputs) -> Any:
    """Features as a float64 NumPy array, or as a SciPy CSR array if they are sparse."""
    features = data.features
    assert features is not None
    if features.layout == torch.sparse_csr:
        parts = (features.values(), features.col_indices(), features.crow_indices())
        values, columns, offsets = (part.numpy() for part in parts)
        return csr_array((values.astype(np.float64), columns, offsets), shape=features.shape)
    return features.numpy().astype(np.float64)


def fit_prototypes(x: Any, probs: Floats) -> tuple[Floats, Floats]:
    """Class means [K, d], weighted by ``probs``, and the precision within classes: [d, d], or its
    diagonal [d]. Their covariance S is shrunk towards its mean variance v: 0.9 S + 0.1 v I."""
    mass = probs.sum(axis=0)
    return prototypes_of(mass, len(probs), *prototype_sums(x, probs, mass))


def prototype_sums(x: Any, probs: Floats, mass: Floats) -> tuple[Floats, Floats, Floats]:
    """What prototypes are made of, summed over some nodes: x [d], its means by class of ``mass`` in
    all [K, d], and its products [d, d], or squares [d]."""
    means = np.asarray(x.T @ (probs / np.maximum(mass, 1e-12))).T
    dense = x if x.shape[1] > WIDEST else _dense(x)
    second = (x * x).sum(axis=0) if x.shape[1] > WIDEST else dense.T @ dense
    return np.asarray(x.sum(axis=0)), means, np.asarray(second)


def prototypes_of(
    mass: Floats, n: int, total: Floats, means: Floats, second: Floats
) -> tuple[Floats, Floats]:
    """`fit_prototypes` of ``n`` nodes whose sums are known."""
    # One memory layout before and after a file: products round the same way.
    means = np.ascontiguousarray(np.where(mass[:, None] > 1e-6, means, total / n))
    between = means * np.sqrt(mass[:, None] / n)
    if second.ndim == 1:
        scatter = np.maximum(second / n - (between**2).sum(axis=0), 0.0)
        mean = scatter.mean() or 1.0
        return means, 1 / ((1 - SHRINKAGE) * scatter + SHRINKAGE * mean)
    scatter, width = second / n - between.T @ between, len(second)
    mean = max(float(np.trace(scatter)) / width, 0.0) or 1.0
    shrunk = (1 - SHRINKAGE) * scatter + SHRINKAGE * mean * np.eye(width)
    return means, np.asarray(np.linalg.inv(shrunk), dtype=np.float64)


def nearness(x: Any, means: Floats, precision: Floats) -> Floats:
    """−log of the distance of all nodes to all prototypes, less its mean of every node, [n, K]."""
    near: Floats = -np.log(distances(x, means, precision) + 1e-9)
    near -= near.mean(axis=1, keepdims=True)
    return near


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
    return np.asarray(np.sqrt(np.maximum(squared, 0.0) / width))


def _dense(x: Any) -> Floats:
    dense: Floats = x.toarray() if hasattr(x, "toarray") else x
    return dense
