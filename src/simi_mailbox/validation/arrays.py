"""Arrays of users: masks, indices and labels, then logits and probabilities.

Labels are cut down to the nodes of a mask here, so that reading another label is not forbidden but
impossible. Everything is read with NumPy; torch is imported where tensors are made, so that metrics
start without it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Array, Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor

InputType: TypeAlias = Literal[
    "logits", "log-probabilities", "probabilities", "binary-logits", "binary-probabilities"
]
"""What the numbers of all nodes are: said by the caller, never guessed.

The binary ones are one score per node, of the second of two classes.
"""

NO_LABEL = -1
"""Stands where a label is not known or may not be read."""
PER_CLASS = ("logits", "log-probabilities", "probabilities")
RANGE_TOLERANCE = 1e-6
ROW_SUM_TOLERANCE = 1e-3
_FEWEST_ROWS = 10
"""Fewer rows may look like probabilities by chance."""
_GLANCE = 1000
"""Rows that are enough to let logits pass at once."""


@dataclass(frozen=True)
class Labelled:
    """Some nodes and their labels: ``y[k]`` is the label of node ``index[k]``."""

    index: Tensor
    y: Tensor
    weight: Tensor | None = None
    """What each label counts (float64), if not the same; sums to the effective number of labels."""

    def __len__(self) -> int:
        return int(self.index.numel())


def read_labels(
    y: Any, mask: Any, num_nodes: int, num_classes: int, name: str, sample_weight: Any = None
) -> Labelled:
    """Cut ``y`` down to the nodes of ``mask``; labels of other nodes are never looked at.

    Labels and weights of the nodes of ``mask`` alone are in the order of ``mask``. Afterwards all
    are in the order of the nodes: what is learned depends on the set of nodes, not on how it was
    listed.
    """
    import torch

    index = read_index(mask, num_nodes, name)
    labels = read_classes(y, index, num_nodes, num_classes, of=name, only_these=True)
    order = np.argsort(index)
    parts: list[Array] = [index[order], labels[order]]
    if sample_weight is not None:
        parts.append(read_weights(sample_weight, index, num_nodes)[order])
    return Labelled(*(torch.from_numpy(part) for part in parts))


def read_weights(sample_weight: Any, nodes: Ints, num_nodes: int) -> Floats:
    """Weights of the labels of ``nodes``, scaled to sum to the effective number of labels.

    That number is (Σw)² / Σw² (Kish): equal weights are ones, and few large weights among many
    small ones count as the few labels that they are.

    Examples
    --------
    >>> read_weights([1.0, 3.0, 9.9], np.array([0, 1]), 3).round(6).tolist()
    [0.4, 1.2]
    """
    given = as_numpy(sample_weight, "sample_weight")
    if given.dtype.kind not in "biuf":
        raise TypeError(f"sample_weight must be numbers, got an array of {given.dtype}")
    if given.shape not in ((num_nodes,), nodes.shape):
        raise ValueError(
            f"sample_weight of shape {list(given.shape)}; expected one per node, [{num_nodes}], or "
            f"one per node of the mask, [{nodes.size}]"
        )
    weight: Floats = (given[nodes] if given.size == num_nodes else given).astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise ValueError(
            f"sample_weight of node {nodes[bad[0]]} is {weight[bad[0]]:.6g}: weights are finite "
            "and not negative, such as 1 / P(the node's label was collected)"
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every calibration node: no label is left")
    weight /= weight.max()
    return weight * float(weight.sum() / (weight @ weight))


def read_known(known: Any, num_nodes: int, num_classes: int) -> Labelled:
    """Nodes and labels that were named for a prediction: a pair of nodes and their labels."""
    import torch

    if not isinstance(known, tuple | list) or len(known) != 2:
        raise TypeError("known must be a pair: the nodes (boolean or indices), and their labels")
    nodes, labels = known
    index = read_index(nodes, num_nodes, "known", empty=True)
    y = read_classes(labels, index, num_nodes, num_classes, of="known", only_these=True)
    return Labelled(torch.from_numpy(index), torch.from_numpy(y))


def read_index(nodes: Any, num_nodes: int, name: str, *, empty: bool = False) -> Ints:
    """Numbers of distinct nodes, in the order given, from a boolean mask or an index array."""
    if nodes is None:
        raise TypeError(
            f"{name} is missing: say which nodes' labels may be read, as a boolean mask or an "
            "index array (np.arange(n) if it is all of them)"
        )
    index = as_numpy(nodes, name)
    if index.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {list(index.shape)}")
    if index.dtype == np.bool_ and index.size:
        if index.size != num_nodes:
            raise ValueError(f"{name} has {index.size} entries for {num_nodes} nodes")
        index = np.flatnonzero(index)
    elif index.size and index.dtype.kind not in "iu":
        raise TypeError(f"{name} must be boolean or integer; got an array of {index.dtype}")
    if index.size == 0 and not empty:
        raise ValueError(f"{name} selects no node")
    outside = (index < 0) | (index >= num_nodes)
    if outside.any():
        raise ValueError(
            f"{name} names node {index[outside][0]}, but nodes are numbered 0..{num_nodes - 1}"
        )
    if np.unique(index).size != index.size:
        if index.size == num_nodes and index.max() <= 1:
            raise ValueError(
                f"{name} holds 0 and 1 for every node: pass a boolean mask, {name}.astype(bool) "
                f"({name}.bool() in torch)"
            )
        raise ValueError(f"{name} names a node twice")
    return index.astype(np.int64)


def refuse_shared(first: Any, second: Any, names: tuple[str, str], why: str) -> None:
    """Raise if two sets of nodes have a node in common."""
    both = np.intersect1d(as_numpy(first), as_numpy(second))
    if both.size:
        count = f"{both.size} node{'s' if both.size > 1 else ''}"
        first_one = f"{both[0]}" if both.size == 1 else f"the first is {both[0]}"
        raise ValueError(f"{' and '.join(names)} have {count} in common ({first_one}): {why}")


def read_classes(
    y: Any,
    nodes: Ints,
    num_nodes: int,
    num_classes: int | None = None,
    *,
    name: str = "labels",
    of: str = "",
    only_these: bool = False,
) -> Ints:
    """Class numbers of ``nodes``; what ``y`` holds for other nodes is not looked at."""
    given = as_numpy(y, name)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (num_nodes,) and not (only_these and given.shape == nodes.shape):
        rest = f", or one per node{of and f' of {of}'}, [{nodes.size}]" if only_these else ""
        if given.ndim == 2:
            rest += _of_columns(given)
        raise ValueError(
            f"{name} of shape {list(given.shape)}; expected one per node, [{num_nodes}]{rest}"
        )
    if only_these and nodes.size == num_nodes and (np.diff(nodes) < 0).any():
        raise ValueError(
            f"{of or 'the index array'} names all {num_nodes} nodes, not in their order: {name} "
            "could be in the one or the other; give both in the order of the nodes, "
            "np.arange(n)"
        )
    if given.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be class numbers 0, 1, …, got an array of {given.dtype}; number the "
            "classes first, for example by np.unique(names, return_inverse=True)"
        )
    chosen = given[nodes] if given.size == num_nodes else given
    wrong = np.flatnonzero(chosen != np.rint(chosen)) if chosen.dtype.kind == "f" else nodes[:0]
    if wrong.size:
        raise ValueError(
            f"{name} must be whole numbers, the classes 0, 1, …; node {nodes[wrong[0]]} has "
            f"{chosen[wrong[0]]}"
        )
    if num_classes and chosen.size and not 0 <= chosen.min() <= chosen.max() < num_classes:
        k = int(np.flatnonzero((chosen < 0) | (chosen >= num_classes))[0])
        raise ValueError(
            f"node {nodes[k]}{of and f' of {of}'} has label {chosen[k]:.15g}, but the classes are "
            f"0..{num_classes - 1}"
        )
    return chosen.astype(np.int64)


def _of_columns(given: Array) -> str:
    """What to do with labels of several columns."""
    if given.dtype.kind in "biuf" and ((given != 0).sum(axis=1) == 1).all() and given.max() == 1:
        return "; of one column per class take argmax(axis=1)"
    return (
        "; several labels of a node cannot be calibrated together: take one column at a time, with "
        "logits [0, s] of that label"
    )


def is_array(values: Any) -> bool:
    """Whether something is a NumPy array or a torch tensor, and not only a list of numbers."""
    # A tensor can only exist once torch was imported, so that this need not import it.
    torch = sys.modules.get("torch")
    return isinstance(values, np.ndarray) or (torch is not None and torch.is_tensor(values))


def as_numpy(values: Any, name: str = "the array") -> Array:
    """View an array, a tensor or a list as a NumPy array."""
    refuse_layout(values, name)
    if isinstance(values, np.ndarray) or not is_array(values):
        array = np.asarray(values)
        if array.dtype == np.longdouble and array.dtype != np.float64:
            raise TypeError(
                f"{name} is an array of {array.dtype}, wider than any model computes: pass "
                "array.astype(np.float64)"
            )
        # torch knows the byte order of this machine only.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    tensor = values.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())


def refuse_layout(values: Any, name: str) -> None:
    """Raise `TypeError` for masked, sparse and quantised arrays, and for tensors without data."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask would be lost: leave masked nodes out of the "
            "mask of nodes, and pass array.data"
        )
    if isinstance(values, np.ndarray):
        return
    if hasattr(values, "tocsr"):
        raise TypeError(f"{name} is a SciPy sparse matrix: pass its .toarray()")
    if not is_array(values):
        return
    if str(values.layout) != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor ({values.layout}): pass its .to_dense()")
    if values.is_quantized:
        raise TypeError(f"{name} is a quantised tensor ({values.dtype}): pass its .dequantize()")
    if values.is_meta:
        raise TypeError(f"{name} is a tensor on the meta device, which holds no numbers")


# --- logits and probabilities ---------------------------------------------------------------------


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
    if kind in ("binary-logits", "binary-probabilities"):
        z, kind = both_classes(z, kind), "logits" if kind == "binary-logits" else "probabilities"
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
    kind = "probabilities" if kind == "probabilities" else "logits"
    return f'for a binary model with one output per node say input_type="binary-{kind}"'


def both_classes(z: Tensor, kind: InputType) -> Tensor:
    """Logits [0, s] or probabilities [1 − p, p] of one score per node, [n] or [n, 1]."""
    import torch

    if z.ndim not in (1, 2) or (z.ndim == 2 and z.shape[1] != 1):
        raise ValueError(
            f'input_type="{kind}" is one score per node, [n] or [n, 1]; got {list(z.shape)}; for a '
            f'column per class say "{kind.removeprefix("binary-")}"'
        )
    score = z.reshape(-1)
    if not score.is_floating_point() or score.dtype not in (torch.float32, torch.float64):
        score = score.to(torch.float32)
    inside = (score >= -RANGE_TOLERANCE) & (score <= 1 + RANGE_TOLERANCE)
    if kind == "binary-logits":
        if len(score) >= _FEWEST_ROWS and bool(inside.all()):
            raise ValueError(
                "every binary logit lies in [0, 1]: these look like probabilities; say "
                'input_type="binary-probabilities", or pass two columns [0, s] as "logits"'
            )
        return torch.stack([torch.zeros_like(score), score], dim=1)
    if not bool(inside.all()):
        node = int((~inside).nonzero()[0])
        raise ValueError(
            f"the probability of node {node} is {float(score[node]):.6g}; expected a number within "
            '[0, 1]; if these are logits, say input_type="binary-logits"'
        )
    score = score.clamp(0.0, 1.0)
    return torch.stack([1 - score, score], dim=1)


def read_prior_shift(prior_shift: Any, num_classes: int) -> Floats:
    """What is added to the logits of each class: log(deployed / trained), or −log(class weight).

    Examples
    --------
    >>> shares = {"trained": [0.5, 0.5], "deployed": [0.9, 0.1]}
    >>> read_prior_shift(shares, 2).round(2).tolist()
    [0.59, -1.61]
    >>> read_prior_shift({"class_weights": [1.0, 9.0]}, 2).round(2).tolist()
    [0.0, -2.2]
    """
    keys = sorted(prior_shift) if isinstance(prior_shift, Mapping) else None
    if keys not in (["deployed", "trained"], ["class_weights"]):
        raise ValueError(
            'prior_shift must be {"trained": shares, "deployed": shares} or {"class_weights": '
            f"weights}}, got {prior_shift!r}"
        )
    found = np.zeros(num_classes)
    for name, sign in (("deployed", 1.0), ("trained", -1.0), ("class_weights", -1.0)):
        if name not in prior_shift:
            continue
        given = as_numpy(prior_shift[name], name)
        if given.shape != (num_classes,) or given.dtype.kind not in "iuf" or not (given > 0).all():
            raise ValueError(
                f"{name} of prior_shift must be one positive number for each of {num_classes} "
                f"classes, got {prior_shift[name]!r}"
            )
        if name != "class_weights" and abs(given.sum() - 1) > ROW_SUM_TOLERANCE:
            raise ValueError(f"{name} of prior_shift sums to {given.sum():.6g}; shares sum to 1")
        found += sign * np.log(given.astype(np.float64))
    return found


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
    return all(
        bool((rows.sum(dim=1) - 1).abs().max() <= ROW_SUM_TOLERANCE)
        and bool(rows.min() >= -RANGE_TOLERANCE)
        for rows in (z[:_GLANCE], z)
    )


def are_log_probabilities(z: Tensor) -> bool:
    """Whether every row sums to one after exp: log-softmax took the offset of the model away."""
    if len(z) < _FEWEST_ROWS:
        return False
    return all(
        bool(rows.logsumexp(dim=1).abs().max() <= ROW_SUM_TOLERANCE) for rows in (z[:_GLANCE], z)
    )


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


def read_positive(positive: Any, num_classes: int, classes: Any = None) -> int:
    """The number of a class that was given by its number, or by its name among ``classes``.

    Examples
    --------
    >>> read_positive("fraud", 2, ["legit", "fraud"]), read_positive(1, 2)
    (1, 1)
    """
    names = None if classes is None else [str(name) for name in classes]
    if names is not None and (len(names) != num_classes or len(set(names)) != len(names)):
        raise ValueError(
            f"classes must be {num_classes} different names, one for each class; got {names}"
        )
    if isinstance(positive, str):
        if names is None:
            raise ValueError(
                f"positive is {positive!r}, but the classes have no names: pass its "
                f"number, 0..{num_classes - 1}, or classes="
            )
        if positive not in names:
            raise ValueError(f"positive is {positive!r}; the classes are {', '.join(names)}")
        return names.index(positive)
    if isinstance(positive, bool) or not hasattr(positive, "__index__"):
        raise TypeError(f"positive must be the number or the name of a class, got {positive!r}")
    number = int(positive.__index__())
    if not 0 <= number < num_classes:
        raise ValueError(f"positive is {number}; the classes are 0..{num_classes - 1}")
    return number


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
