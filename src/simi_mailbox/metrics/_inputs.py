"""The door of the metrics: every public function checks its input here, once.

Values are probabilities and nothing else. Logits are never recognised and converted: a metric that
guesses its input kind is silently wrong for a user whose logits look like probabilities.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

    Array: TypeAlias = NDArray[Any] | torch.Tensor

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

RANGE_TOLERANCE = 1e-6
ROW_SUM_TOLERANCE = 1e-3


class Checked(NamedTuple):
    """Validated input: probabilities in the floating dtype given, labels as int64."""

    probs: NDArray[np.floating[Any]]
    y: Ints


class TopLabel(NamedTuple):
    """The most probable class of each node: its probability, and whether it is the label."""

    confidence: Floats
    correct: Floats


def check(probs: Array, y: Array) -> Checked:
    """Validate probabilities [n, K] and labels [n]."""
    checked = check_probs(probs)
    return Checked(checked, check_labels(y, *checked.shape))


def check_probs(probs: Array) -> NDArray[np.floating[Any]]:
    """Validate probabilities [n, K]; the dtype is kept so that large input is not copied."""
    array = to_numpy(probs, "probs")
    if array.ndim != 2:
        raise ValueError(
            f"probs has shape {array.shape}; expected [nodes, classes]. "
            "For a binary problem give both columns, e.g. np.stack([1 - p, p], axis=1)."
        )
    if array.shape[0] == 0:
        raise ValueError("probs holds no node; a metric over an empty set is undefined.")
    if array.shape[1] == 0:
        raise ValueError(f"probs has shape {array.shape}; expected at least one class.")
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        raise TypeError(f"probs has dtype {array.dtype}; expected real numbers.")
    # NaN fails both comparisons, so the common case costs two passes and no temporary.
    if not (array.min() >= -RANGE_TOLERANCE and array.max() <= 1 + RANGE_TOLERANCE):
        _raise_bad_value(array)
    sums = array.sum(axis=1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"probs of node {worst} sum to {sums[worst]:.6g}; expected 1 (within "
            f"{ROW_SUM_TOLERANCE:g}). If these are logits, apply softmax over the classes first "
            "(in float32 or wider)."
        )
    return array


def check_labels(y: Array, num_nodes: int, num_classes: int) -> Ints:
    """Validate integer labels [n] in 0..K-1."""
    array = to_numpy(y, "y")
    if array.shape != (num_nodes,):
        raise ValueError(
            f"y has shape {array.shape}; expected ({num_nodes},), one label per row of probs."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"y has dtype {array.dtype}; expected integer class labels (not one-hot, not a mask)."
        )
    if array.min() < 0 or array.max() >= num_classes:
        node = int(((array < 0) | (array >= num_classes)).argmax())
        raise ValueError(
            f"label {array[node]} of node {node} is outside 0..{num_classes - 1}; probs has "
            f"{num_classes} classes. Evaluate labelled nodes only."
        )
    return array.astype(np.int64, copy=False)


def to_numpy(values: Array, name: str) -> NDArray[Any]:
    """View a NumPy array or torch tensor as a NumPy array."""
    if isinstance(values, np.ndarray):
        return values
    # A tensor can only exist once torch was imported, so the metrics need not import it.
    loaded = sys.modules.get("torch")
    if loaded is not None and isinstance(values, loaded.Tensor):
        tensor = values.detach().cpu()
        # NumPy has no bfloat16.
        array: NDArray[Any] = (
            tensor.float() if tensor.dtype == loaded.bfloat16 else tensor
        ).numpy()
        return array
    raise TypeError(
        f"{name} is a {type(values).__name__}; expected a NumPy array or a torch tensor."
    )


def top_label(checked: Checked) -> TopLabel:
    """Confidence (float64, within [0, 1]) and correctness (0.0 or 1.0) of the predicted class."""
    predicted = checked.probs.argmax(axis=1)
    confidence = np.take_along_axis(checked.probs, predicted[:, None], axis=1)[:, 0]
    return TopLabel(unit(confidence), (predicted == checked.y).astype(np.float64))


def bin_sum(index: Ints, weights: Floats, bins: int) -> Floats:
    """Sum of the weights in each bin."""
    sums: NDArray[Any] = np.bincount(index, weights, bins)
    return sums


def unit(values: NDArray[np.floating[Any]]) -> Floats:
    """Float64 copy, with rounding beyond [0, 1] cut off."""
    return np.clip(values.astype(np.float64), 0.0, 1.0)


def _raise_bad_value(array: NDArray[np.floating[Any]]) -> None:
    bad = ~((array >= -RANGE_TOLERANCE) & (array <= 1 + RANGE_TOLERANCE))
    node, column = (int(i) for i in np.unravel_index(int(bad.argmax()), array.shape))
    value = float(array[node, column])
    advice = (
        "If these are logits, apply softmax over the classes first."
        if np.isfinite(value)
        else "Check the model's output for overflow."
    )
    raise ValueError(
        f"probs[{node}, {column}] is {value:.6g}; expected a probability within [0, 1]. {advice}"
    )
