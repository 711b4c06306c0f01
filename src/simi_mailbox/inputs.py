"""The door: what users pass is checked and cut down here, once, for every room.

Behind the door a method sees `CalibrationData`. It holds the labels of the calibration nodes (and
of the hold-out nodes, if there are any) and no other label, so that reading another label is not
forbidden but impossible. Node numbers, classes and probabilities are read with NumPy alone; torch
is imported where tensors are made, so that metrics start without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Array, Ints

if TYPE_CHECKING:
    from torch import Tensor

    from simi_mailbox.graph import Graph

Forward: TypeAlias = "Callable[[Tensor], Tensor]"

InputType: TypeAlias = Literal["logits", "log-probabilities", "probabilities"]
"""What the numbers of all nodes are: said by the caller, never guessed."""

NO_LABEL = -1
"""Stands where a label is not known or may not be read."""

RANGE_TOLERANCE = 1e-6
ROW_SUM_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Labelled:
    """Some nodes and their labels: ``y[k]`` is the label of node ``index[k]``."""

    index: Tensor
    y: Tensor

    def __len__(self) -> int:
        return int(self.index.numel())


def _nobody() -> Labelled:
    import torch

    return Labelled(torch.empty(0, dtype=torch.int64), torch.empty(0))


@dataclass(frozen=True)
class NodeInputs:
    """What is known of all nodes: no label in here but those that a prediction was given."""

    logits: Tensor
    graph: Graph | None = None
    features: Tensor | None = None
    forward: Forward | None = None
    training: Tensor | None = None
    """The nodes that the GNN was trained on, if they were named."""
    hidden: Tensor | None = None
    """What enters the GNN's last layer [n, d], if it was given."""
    known: Labelled | None = None
    """Labels that were named for prediction; nobody else's business."""
    node_ids: Array | None = None
    """What these nodes are called, on every graph on which they are the same."""

    @property
    def num_nodes(self) -> int:
        return int(self.logits.shape[0])

    @property
    def num_classes(self) -> int:
        return int(self.logits.shape[1])

    @property
    def neighbourhoods(self) -> Graph:
        """The graph, for methods that declared that they need one."""
        assert self.graph is not None
        return self.graph


@dataclass(frozen=True)
class CalibrationData(NodeInputs):
    """`NodeInputs` and the labels that may be read."""

    calibration: Labelled = field(default_factory=_nobody)
    holdout: Labelled | None = None
    used_for_selection: bool = True
    """Whether the calibration nodes had no part in choosing the GNN's checkpoint."""

    @property
    def calibration_logits(self) -> Tensor:
        """Logits of the calibration nodes."""
        return self.logits[self.calibration.index]


def read_nodes(
    needs: frozenset[str],
    method: str,
    logits: Any,
    graph: Any = None,
    features: Any = None,
    forward: Forward | None = None,
    train_mask: Any = None,
    hidden: Any = None,
    *,
    input_type: InputType = "logits",
) -> NodeInputs:
    """Check everything that is not a label."""
    import torch

    from simi_mailbox.graph import as_graph

    z = read_logits(logits, input_type)
    given = {"graph": graph, "features": features, "forward": forward}
    missing = sorted(name for name in needs if given[name] is None)
    if missing:
        raise TypeError(
            f"{method} needs {' and '.join(missing)}: "
            f"pass {', '.join(f'{name}=…' for name in missing)}"
        )
    training = None
    if train_mask is not None:
        training = torch.from_numpy(read_index(train_mask, len(z), "train_mask", empty=True))
    return NodeInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, z.shape[0]),
        features=None if features is None else read_features(features, z.shape[0]),
        forward=forward,
        training=training,
        hidden=None if hidden is None else read_features(hidden, z.shape[0], "hidden"),
    )


def read_logits(logits: Any, kind: InputType = "logits") -> Tensor:
    """Check logits [n, K] and return them as float32 or float64 on the CPU.

    Probabilities become their logarithms, which are logits as good as any; a zero becomes the
    smallest number that its type can hold. Probabilities that are passed as logits are refused:
    every method would run, and be wrong.

    Examples
    --------
    >>> read_logits([[0.0, 2.0]]).tolist()
    [[0.0, 2.0]]
    >>> read_logits([[0.5, 0.5]], "probabilities").exp().tolist()
    [[0.5, 0.5]]
    """
    import torch

    if kind not in get_args(InputType):
        raise ValueError(
            f"input_type must be one of {', '.join(get_args(InputType))}, got {kind!r}"
        )
    if isinstance(logits, torch.Tensor):
        z = logits.detach().cpu()
    else:
        array = as_numpy(logits)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"{kind} must be real numbers, got an array of {array.dtype}")
        # torch.from_numpy complains about read-only memory; nothing here writes to it.
        z = torch.as_tensor(array if array.flags.writeable else array.copy())
    if z.is_complex() or z.dtype == torch.bool:
        raise TypeError(f"{kind} must be real numbers, got a tensor of {z.dtype}")
    if z.ndim != 2:
        raise ValueError(f"{kind} must have shape [nodes, classes], got {list(z.shape)}")
    if z.shape[0] == 0:
        raise ValueError(f"{kind} hold no node")
    if z.shape[1] < 2:
        raise ValueError(
            f"{kind} have {z.shape[1]} column: calibration needs at least two classes; "
            + ("pass both, [1 - p, p]" if kind == "probabilities" else _ONE_OUTPUT)
        )
    if not z.is_floating_point():  # whole numbers above 2^24 are not told apart by float32
        z = z.to(torch.float64 if z.numel() and int(z.abs().max()) > 1 << 24 else torch.float32)
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


_ONE_OUTPUT = "for a binary model with one output s, pass the two columns [0, s]"


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

    Examples
    --------
    >>> import torch
    >>> are_probabilities(torch.full((20, 2), 0.5)), are_probabilities(torch.zeros(20, 2))
    (True, False)
    """
    if len(z) < _HANDFUL:
        return False
    few = slice(0, 1000)  # enough to let logits pass at once
    return all(
        bool((rows.sum(dim=1) - 1).abs().max() <= ROW_SUM_TOLERANCE)
        and bool(rows.min() >= -RANGE_TOLERANCE)
        for rows in (z[few], z)
    )


def are_log_probabilities(z: Tensor) -> bool:
    """Whether every row sums to one after exp: a log-softmax has taken the model's own offset away.

    Examples
    --------
    >>> import torch
    >>> z = torch.zeros(20, 2)
    >>> are_log_probabilities(z.log_softmax(dim=1)), are_log_probabilities(z)
    (True, False)
    """
    if len(z) < _HANDFUL:
        return False
    few = slice(0, 1000)  # enough to let logits pass at once
    return all(bool(rows.logsumexp(dim=1).abs().max() <= ROW_SUM_TOLERANCE) for rows in (z[few], z))


def looks_trained_on(logits: Tensor, calibration: Labelled) -> str:
    """Why the calibration nodes look like nodes that the model was trained on; "" if they do not.

    Of nodes chosen at random a model is as sure as of the others; of nodes it was trained on it is
    surer, and it is right more often than it expects of others. How often that is seen, and how
    often for validation nodes: ``bench/speed/bench_trained_on.py``.
    """
    from simi_mailbox.softmax import confidence

    n, m = int(logits.shape[0]), len(calibration)
    other = np.ones(n, dtype=bool)
    other[calibration.index.numpy()] = False
    others = np.flatnonzero(other)
    if m < _FEW or others.size < _FEW:
        return ""
    others = others[:: max(1, others.size // 20_000)]
    own_logits = logits[calibration.index]
    own, rest = confidence(own_logits), confidence(logits[others])
    surplus, error = float(own.mean() - rest.mean()), float(rest.std()) / m**0.5
    accuracy = float((own_logits.argmax(dim=1) == calibration.y).double().mean())
    if surplus < max(_SURPLUS * error, 0.01) or accuracy < rest.mean():
        return ""
    return (
        f"the {m} calibration nodes look as if the model was trained on them: it is "
        f"{100 * surplus:.1f} points surer of them than of the others, and {accuracy:.1%} are "
        "right; calibrate with nodes it has not seen, or name those it has in train_mask"
    )


_HANDFUL, _FEW, _SURPLUS = 10, 30, 4.0


def read_features(features: Any, num_nodes: int, name: str = "features") -> Tensor:
    """Check node features [n, d]: dense, or SciPy/torch sparse, which stay sparse."""
    import torch

    from simi_mailbox.sparse import csr_tensor

    x: Tensor
    if hasattr(features, "tocsr") and not isinstance(features, torch.Tensor):
        csr = features.tocsr().astype(np.float32)
        x = csr_tensor(
            torch.tensor(csr.indptr, dtype=torch.int64),
            torch.tensor(csr.indices, dtype=torch.int64),
            torch.tensor(csr.data),
            size=csr.shape,
        )
        values = x.values()
    elif isinstance(features, torch.Tensor) and features.layout is not torch.strided:
        x = features.detach().cpu().to_sparse_csr().to(torch.float32)
        values = x.values()
    else:
        if not isinstance(features, torch.Tensor):
            # A copy: torch complains about read-only memory, which datasets are made of.
            features = torch.from_numpy(np.array(features, dtype=np.float32))
        x = features.detach().cpu().to(torch.float32)
        values = x
    if x.ndim != 2 or x.shape[0] != num_nodes:
        raise ValueError(
            f"{name} must have one row per node: got {list(x.shape)} for {num_nodes} nodes"
        )
    if x.shape[1] == 0:
        raise ValueError("features have no column: pass at least one, or a method without features")
    if not bool(torch.isfinite(values).all()):
        raise ValueError(f"{name} contain NaN or infinite values")
    return x


def read_labels(y: Any, mask: Any, num_nodes: int, num_classes: int, name: str) -> Labelled:
    """Cut ``y`` down to the nodes of ``mask``; labels of other nodes are never looked at.

    Labels of the nodes of ``mask`` alone are in the order of ``mask``. Behind the door both are in
    the order of the nodes: what is learned depends on the set of nodes, not on how it was listed.

    Examples
    --------
    >>> read_labels([7, 5], [3, 1], num_nodes=4, num_classes=8, name="mask").y.tolist()
    [5, 7]
    """
    import torch

    index = read_index(mask, num_nodes, name)
    labels = read_classes(y, index, num_nodes, num_classes, of=name, only_these=True)
    order = np.argsort(index)
    return Labelled(torch.from_numpy(index[order]), torch.from_numpy(labels[order]))


def read_known(known: Any, num_nodes: int, num_classes: int) -> Labelled:
    """Nodes and labels that were named for a prediction: a pair of nodes and their labels.

    Examples
    --------
    >>> read_known(([4, 2], [0, 1]), num_nodes=5, num_classes=2).y.tolist()
    [0, 1]
    """
    import torch

    if not isinstance(known, tuple | list) or len(known) != 2:
        raise TypeError("known must be a pair: the nodes (boolean or indices), and their labels")
    nodes, labels = known
    index = read_index(nodes, num_nodes, "known", empty=True)
    y = read_classes(labels, index, num_nodes, num_classes, of="known", only_these=True)
    return Labelled(torch.from_numpy(index), torch.from_numpy(y))


def read_ids(node_ids: Any, num_nodes: int) -> Array:
    """Names of all nodes: integers or strings, each once.

    Examples
    --------
    >>> read_ids(["a", "b"], 2).tolist()
    ['a', 'b']
    """
    ids = as_numpy(node_ids)
    if ids.dtype.kind == "O" and all(isinstance(one, str) for one in ids.flat):
        ids = ids.astype(str)
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise TypeError(
            f"node_ids must be integers or strings, one for each node; got an array of {ids.dtype} "
            f"with shape {list(ids.shape)}"
        )
    if len(ids) != num_nodes:
        raise ValueError(f"{len(ids)} node_ids for {num_nodes} nodes")
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        raise ValueError(
            f"node_ids must differ: {values[counts > 1][0]!r} stands for several nodes"
        )
    return ids


def read_index(nodes: Any, num_nodes: int, name: str, *, empty: bool = False) -> Ints:
    """Numbers of distinct nodes, in the order given, from a boolean mask or an index array.

    Parameters
    ----------
    nodes : array
        Boolean [n] or indices.
    num_nodes : int
        Nodes are numbered 0..n-1.
    name : str
        What the caller's user calls it.
    empty : bool
        Whether no node at all is fine.

    Examples
    --------
    >>> read_index([True, False, True], 3, "mask").tolist()
    [0, 2]
    """
    if nodes is None:
        raise TypeError(
            f"{name} is missing: say which nodes' labels may be read, as a boolean mask or an "
            "index array (np.arange(n) if it is all of them)"
        )
    index = as_numpy(nodes)
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
    """Raise if two sets of nodes have a node in common.

    Examples
    --------
    >>> refuse_shared([1, 2], [2, 3], ("mask", "train_mask"), "take it out of one")
    Traceback (most recent call last):
    ValueError: mask and train_mask have 1 node in common (2): take it out of one
    """
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
    """Class numbers of ``nodes``; what ``y`` holds for other nodes is not looked at.

    Parameters
    ----------
    y : array [n] or [n, 1]
        Whole numbers of any type; [m] for ``nodes`` alone and in their order, if ``only_these``
        allows it.
    nodes : int64 [m]
        As of `read_index`.
    num_nodes : int
        Number of all nodes.
    num_classes : int, optional
        Classes are 0..K-1; any whole number is fine if not given.
    name, of : str
        What the caller's user calls the labels, and the nodes.
    only_these : bool
        Whether labels may come without those of other nodes.

    Examples
    --------
    >>> read_classes([0.0, 1.0, 0.5], np.array([0, 1]), 3).tolist()
    [0, 1]
    """
    given = as_numpy(y)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (num_nodes,) and not (only_these and given.shape == nodes.shape):
        rest = f", or one per node{of and f' of {of}'}, [{nodes.size}]" if only_these else ""
        if given.ndim == 2 and len(given) == num_nodes:
            rest += "; of one column per class take argmax(axis=1)"
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


def read_probabilities(probs: Any, nodes: Ints | None = None) -> npt.NDArray[np.floating[Any]]:
    """Probabilities [n, K], or the rows of ``nodes``; the dtype is kept: large input is not copied.

    Logits are never recognised and converted: guessing the kind of an input is silently wrong for
    a user whose logits look like probabilities.

    Examples
    --------
    >>> read_probabilities([[0.5, 0.5], [0.9, 0.1]], np.array([1])).tolist()
    [[0.9, 0.1]]
    """
    array = as_numpy(probs)
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


def is_array(values: Any) -> bool:
    """Whether something is a NumPy array or a torch tensor, and not only a list of numbers."""
    # A tensor can only exist once torch was imported, so that this need not import it.
    torch = sys.modules.get("torch")
    return isinstance(values, np.ndarray) or (torch is not None and torch.is_tensor(values))


def as_numpy(values: Any) -> Array:
    """View an array, a tensor or a list as a NumPy array.

    Examples
    --------
    >>> as_numpy([1, 2]).tolist()
    [1, 2]
    """
    if isinstance(values, np.ndarray) or not is_array(values):
        array = np.asarray(values)
        # torch knows the byte order of this machine only.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    tensor = values.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())
