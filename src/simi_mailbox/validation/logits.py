"""Logits and probabilities of all nodes, and what they are taken for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Ints
from simi_mailbox.validation.labels import as_numpy, refuse_layout

if TYPE_CHECKING:
    from torch import Tensor

InputType: TypeAlias = Literal["logits", "log-probabilities", "probabilities"]
"""What the numbers of all nodes are: said by the caller, never guessed."""

RANGE_TOLERANCE = 1e-6
ROW_SUM_TOLERANCE = 1e-3
_FEWEST_ROWS = 10
"""Fewer rows may look like probabilities by chance."""


def read_logits(logits: Any, kind: InputType = "logits") -> Tensor:
    """Check logits [n, K] and return them as float32 or float64 on the CPU.

    Probabilities become their logarithms, which are logits as good as any; a zero becomes the
    smallest number that its type can hold. Probabilities that are passed as logits are refused:
    every method would run, and be wrong.
    """
    import torch

    if kind not in get_args(InputType):
        raise ValueError(
            f"input_type must be one of {', '.join(get_args(InputType))}, got {kind!r}"
        )
    refuse_layout(logits, kind)
    if isinstance(logits, torch.Tensor):
        z = logits.detach().cpu()
    else:
        array = as_numpy(logits, kind)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{kind} must be real numbers, got an array of {array.dtype}")
        # torch.from_numpy complains about read-only memory; nothing here writes to it.
        z = torch.as_tensor(array if array.flags.writeable else array.copy())
    if z.is_complex() or z.dtype == torch.bool:
        raise TypeError(f"{kind} must be real numbers, got a tensor of {z.dtype}")
    if z.ndim != 2:
        raise ValueError(
            f"{kind} must have shape [nodes, classes], got {list(z.shape)}; {_served(z, kind)}"
        )
    if z.shape[0] == 0:
        raise ValueError(f"{kind} hold no node")
    if z.shape[1] < 2:
        raise ValueError(
            f"{kind} have {z.shape[1]} column: calibration needs at least two classes; "
            + _two_columns(kind)
        )
    if not z.is_floating_point():  # whole numbers above 2^24 are not told apart by float32
        wide = z.to(torch.float64)
        z = wide if float(wide.abs().max()) > 1 << 24 else wide.to(torch.float32)
    elif z.dtype not in (torch.float32, torch.float64):
        z = z.to(torch.float32)
    if kind != "logits":
        return _logarithms(z, kind)
    # One pass, no temporary of the same size: a sum is finite only if all its terms are, or if
    # finite terms overflow, which the slow look then clears up.
    if not bool(torch.isfinite(z.sum())):
        masked = torch.isneginf(z).all(dim=0)
        bad = (~torch.isfinite(z) & ~masked).any(dim=1).nonzero().flatten()
        if bad.numel():
            node = int(bad[0])
            raise ValueError(
                f"logits of {bad.numel()} of {len(z)} nodes are NaN or infinite; the first is node "
                f"{node}: {z[node].tolist()[:6]}; a class is masked by −inf on every node or on "
                "none"
            )
    if are_probabilities(z):
        raise ValueError(
            "every row of the logits lies in [0, 1] and sums to one: these are probabilities; "
            'pass the logits, or say input_type="probabilities"'
        )
    return z.contiguous()


def _two_columns(kind: InputType) -> str:
    if kind == "probabilities":
        return "for a binary model with one output p, pass the two columns [1 - p, p]"
    return "for a binary model with one output s, pass the two columns [0, s]"


def _served(z: Tensor, kind: InputType) -> str:
    """What to do with outputs that are not one row of classes for each node."""
    if z.ndim == 1:
        return f"{_two_columns(kind)}; outputs of a regression cannot be calibrated here"
    return (
        "of outputs per edge or per graph pass one row for each, to a method that needs no graph, "
        "such as TemperatureScaling"
    )


def _logarithms(z: Tensor, kind: InputType) -> Tensor:
    """Logarithms of probabilities, checked."""
    import torch

    probs = z if kind == "probabilities" else z.exp()
    try:
        read_probabilities(probs)
    except ValueError as error:
        what = "probabilities" if kind == "probabilities" else "exp(log-probabilities)"
        raise ValueError(f'input_type="{kind}", but {what} are none: {error}') from None
    smallest = torch.finfo(z.dtype).tiny
    if kind == "probabilities":
        return z.clamp(min=smallest).log_()
    return z.clamp(min=float(np.log(smallest)))


def are_probabilities(z: Tensor) -> bool:
    """Whether every row lies in [0, 1] and sums to one, which logits do not.

    A handful of rows may do so by chance, and is let pass.
    """
    if len(z) < _FEWEST_ROWS:
        return False
    few = slice(0, 1000)  # enough to let logits pass at once
    return all(
        bool((rows.sum(dim=1) - 1).abs().max() <= ROW_SUM_TOLERANCE)
        and bool(rows.min() >= -RANGE_TOLERANCE)
        for rows in (z[few], z)
    )


def are_log_probabilities(z: Tensor) -> bool:
    """Whether every row sums to one after exp: log-softmax took the offset of the model away."""
    if len(z) < _FEWEST_ROWS:
        return False
    few = slice(0, 1000)  # enough to let logits pass at once
    return all(bool(rows.logsumexp(dim=1).abs().max() <= ROW_SUM_TOLERANCE) for rows in (z[few], z))


def read_probabilities(probs: Any, nodes: Ints | None = None) -> npt.NDArray[np.floating[Any]]:
    """Probabilities [n, K], or the rows of ``nodes``; the dtype is kept: large input is not copied.

    Logits are never recognised and converted: guessing the kind of an input is silently wrong for
    a user whose logits look like probabilities.
    """
    array = as_numpy(probs, "probs")
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
    if nodes is not None:
        array = array[nodes]
        if not nodes.size:
            return array
    # NaN fails both comparisons, so the common case costs two passes and no temporary.
    if not (array.min() >= -RANGE_TOLERANCE and array.max() <= 1 + RANGE_TOLERANCE):
        raise ValueError(_bad_value(array, nodes))
    sums = array.sum(axis=1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"probs of node {worst if nodes is None else nodes[worst]} sum to {sums[worst]:.6g}; "
            f"expected 1 (within {ROW_SUM_TOLERANCE:g}). If these are logits, apply softmax over "
            "the classes first (in float32 or wider)."
        )
    return array


def _bad_value(array: npt.NDArray[np.floating[Any]], nodes: Ints | None) -> str:
    bad = ~((array >= -RANGE_TOLERANCE) & (array <= 1 + RANGE_TOLERANCE))
    row, column = (int(i) for i in np.unravel_index(int(bad.argmax()), array.shape))
    value = float(array[row, column])
    advice = (
        "If these are logits, apply softmax over the classes first."
        if np.isfinite(value)
        else "Check the model's output for overflow."
    )
    return (
        f"probs[{row if nodes is None else nodes[row]}, {column}] is {value:.6g}; expected a "
        f"probability within [0, 1]. {advice}"
    )
