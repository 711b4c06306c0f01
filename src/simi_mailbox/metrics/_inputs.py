"""What every metric does first: check its input, and look at the predicted class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.inputs import as_numpy, is_array, read_probabilities

if TYPE_CHECKING:
    import torch

Array: TypeAlias = "NDArray[Any] | torch.Tensor"


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
    """Validate probabilities [n, K]."""
    return read_probabilities(to_numpy(probs, "probs"))


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
    """View a NumPy array or torch tensor as a NumPy array; a list is more likely a mistake."""
    if not is_array(values):
        raise TypeError(
            f"{name} is a {type(values).__name__}; expected a NumPy array or a torch tensor."
        )
    return as_numpy(values)


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
