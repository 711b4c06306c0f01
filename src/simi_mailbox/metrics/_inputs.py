"""What every metric does first: check its input, and look at the predicted class."""

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.validation import as_numpy, read_classes, read_probabilities

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
    checked = read_probabilities(probs)
    return Checked(checked, check_labels(y, *checked.shape))


def check_labels(y: Array, num_nodes: int, num_classes: int) -> Ints:
    """Validate integer labels [n] in 0..K-1; booleans are more likely a mask."""
    if (kind := as_numpy(y, "y").dtype).kind not in "iu":
        raise TypeError(f"y has dtype {kind}; expected integer class labels, one per node.")
    return read_classes(y, np.arange(num_nodes), num_nodes, num_classes, name="y")


def check_class(probs: Array, y: Array, positive: int | None) -> TopLabel:
    """P(class) and 1.0 for nodes of the class, of either form of input."""
    array = as_numpy(probs, "probs")
    if array.ndim == 1:
        if positive is not None or array.dtype.kind != "f":
            raise TypeError(
                f"probs has shape {array.shape} and dtype {array.dtype}, positive is {positive!r}; "
                "expected P(class) [n] as floating-point numbers without positive=, or "
                "probabilities [n, K] with it."
            )
        labels = as_numpy(y, "y")
        labels = labels.astype(np.int64) if labels.dtype.kind == "b" else labels
        # Two columns, P(class) first: the rules and the messages are those of all probabilities.
        checked = check(np.stack([array, 1 - array], axis=1), labels)
        return TopLabel(unit(checked.probs[:, 0]), checked.y.astype(float))
    if positive is None or not 0 <= positive < array.shape[-1]:
        raise ValueError(
            f"positive is {positive!r}; probs has {array.shape[-1]} classes: pass the number of "
            f"the class, 0..{array.shape[-1] - 1}."
        )
    checked = check(array, y)
    return TopLabel(unit(checked.probs[:, positive]), (checked.y == positive).astype(float))


def check_level(level: float, name: str) -> None:
    """Raise unless a share such as a coverage level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"{name} is {level}; expected a number between 0 and 1, such as 0.95.")


def check_choice(value: str, name: str, choices: tuple[str, ...]) -> None:
    """Raise unless an option is one of its choices."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; expected one of {list(choices)}.")


def top_label(checked: Checked) -> TopLabel:
    """Confidence (float64, within [0, 1]) and correctness (0.0 or 1.0) of the predicted class."""
    predicted = checked.probs.argmax(axis=1)
    confidence = np.take_along_axis(checked.probs, predicted[:, None], axis=1)[:, 0]
    return TopLabel(unit(confidence), (predicted == checked.y).astype(np.float64))


def shared_by_equals(values: Floats, outcomes: Floats) -> Floats:
    """Outcomes of sorted values; equal values share their mean: their order is nothing."""
    first = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    size = np.diff(np.r_[first, len(values)])
    return np.repeat(np.add.reduceat(outcomes, first) / size, size)


def bin_sum(index: Ints, weights: Floats, bins: int) -> Floats:
    """Sum of the weights in each bin."""
    sums: NDArray[Any] = np.bincount(index, weights, bins)
    return sums


def unit(values: NDArray[np.floating[Any]]) -> Floats:
    """Float64 copy, with rounding beyond [0, 1] cut off."""
    return np.clip(values.astype(np.float64), 0.0, 1.0)
