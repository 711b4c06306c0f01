"""The nodes a picture is about: what was said of each, and whether it was right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
    """

    nodes: IntArray
    confidence: FloatArray
    predicted: IntArray
    correct: FloatArray

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
    >>> import numpy as np
    >>> judged = judge(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    >>> judged.confidence.tolist(), judged.correct.tolist()
    ([0.9, 0.6], [1.0, 0.0])
    """
    p = as_numpy(probs)
    if p.ndim != 2 or p.shape[1] < 2:
        raise ValueError(f"probabilities must have shape [nodes, classes], got {list(p.shape)}")
    index = read_nodes(nodes, p.shape[0])
    chosen = p[index]
    if chosen.size and not (chosen.min() >= 0.0 and chosen.max() <= 1.0 + 1e-6):
        raise ValueError(
            "probabilities must lie between 0 and 1, "
            f"got values from {chosen.min():.4g} to {chosen.max():.4g}; pass softmax(logits)"
        )
    predicted = chosen.argmax(axis=1).astype(np.int64)
    confidence = np.minimum(chosen[np.arange(index.size), predicted].astype(np.float64), 1.0)
    if y is None:
        correct = np.full(index.size, np.nan)
    else:
        labels = read_labels(y, index, *p.shape)
        correct = (labels == predicted).astype(np.float64)
    return Judged(index, confidence, predicted, correct)


def read_nodes(nodes: Any, n: int) -> IntArray:
    """Turn a boolean mask or indices into indices of distinct nodes of ``0..n-1``."""
    if nodes is None:
        return np.arange(n, dtype=np.int64)
    index = as_numpy(nodes)
    if index.ndim != 1:
        raise ValueError(f"nodes must be one-dimensional, got shape {list(index.shape)}")
    if index.dtype == bool:
        if index.size != n:
            raise ValueError(f"the mask of nodes has {index.size} entries for {n} nodes")
        return np.flatnonzero(index).astype(np.int64)
    if index.size and not np.issubdtype(index.dtype, np.integer):
        raise TypeError(f"nodes must be boolean or integer, got {index.dtype}")
    index = index.astype(np.int64)
    if index.size and (index.min() < 0 or index.max() >= n):
        bad = int(index[(index < 0) | (index >= n)][0])
        raise ValueError(f"node {bad} does not exist: nodes are numbered 0..{n - 1}")
    if np.unique(index).size != index.size:
        raise ValueError("nodes names a node twice")
    return index


def read_labels(y: Any, index: IntArray, n: int, num_classes: int) -> IntArray:
    """Labels of the nodes of ``index``, checked; other labels are not looked at."""
    labels = as_numpy(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.size not in (n, index.size):
        raise ValueError(
            f"got labels of shape {list(labels.shape)}; expected one per node ({n}) "
            f"or one per judged node ({index.size})"
        )
    if labels.size == n:
        labels = labels[index]
    if labels.size and (labels.min() < 0 or labels.max() >= num_classes):
        k = int(np.flatnonzero((labels < 0) | (labels >= num_classes))[0])
        raise ValueError(
            f"node {int(index[k])} has label {labels[k]}, but there are classes "
            f"0..{num_classes - 1}"
        )
    return labels.astype(np.int64)


def as_numpy(array: Any) -> npt.NDArray[Any]:
    """NumPy view of an array or a tensor."""
    if isinstance(array, Tensor):
        return np.asarray(array.detach().cpu().numpy())
    return np.asarray(array)


def per_node(values: Any, judged: Judged, n: int, name: str) -> FloatArray:
    """Values of the judged nodes, given for all nodes or for the judged ones only."""
    array = as_numpy(values).astype(np.float64)
    if array.ndim != 1 or array.size not in (n, len(judged)):
        raise ValueError(
            f"{name} has shape {list(array.shape)}; expected one value per node ({n}) "
            f"or per judged node ({len(judged)})"
        )
    return array[judged.nodes] if array.size == n else array
