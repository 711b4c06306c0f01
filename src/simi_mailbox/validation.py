"""Input validation, once for all: nodes, labels, logits, probabilities, and what a method sees.

Labels are cut down to the nodes of a mask here: no method can read another one. Everything is read
with NumPy; torch is imported where tensors are made, so that metrics start without it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Array, Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning

if TYPE_CHECKING:
    from torch import Tensor

    from simi_mailbox.graph import Graph
    from simi_mailbox.softmax import LogitRange

Forward: TypeAlias = "Callable[[Tensor], Tensor]"
InputType: TypeAlias = Literal[
    "logits", "log-probabilities", "probabilities", "binary-logits", "binary-probabilities"
]
"""What the numbers are, never guessed; binary ones are one score per node, of the second class."""

NO_LABEL = -1  # stands where a label is not known or may not be read
PER_CLASS = ("logits", "log-probabilities", "probabilities")
MASKING = "a class is masked by −inf on every node or on none"
ARE_PROBABILITIES = (
    "every row of the logits lies in [0, 1] and sums to one: these are probabilities; "
    'pass the logits, or say input_type="probabilities"'
)
RANGE_TOLERANCE = 1e-6
ROW_SUM_TOLERANCE = 1e-3
_FEWEST_ROWS = 10  # fewer may look like probabilities, or be of one class, by chance
_GLANCE = 1000  # rows that are enough to let logits pass at once
_FEWEST_NODES, _STANDARD_ERRORS, _SAMPLE = 30, 4.0, 20_000
"""When calibration nodes look trained on, and how many others they are compared with."""


@dataclass(frozen=True)
class Labelled:
    """Some nodes and their labels: ``y[k]`` is the label of node ``index[k]``."""

    index: Tensor
    y: Tensor
    weight: Tensor | None = None  # what each label counts; sums to the effective number of labels

    def __len__(self) -> int:
        return int(self.index.numel())


def read_labels(
    y: Any,
    mask: Any,
    num_nodes: int,
    num_classes: int,
    name: str,
    sample_weight: Any = None,
    *,
    empty: bool = False,
) -> Labelled:
    """Cut ``y`` down to the nodes of ``mask``, in their order; other labels are not looked at."""
    import torch

    index = read_index(mask, num_nodes, name, empty=empty)
    labels = read_classes(y, index, num_nodes, num_classes, of=name, only_these=True)
    order = np.argsort(index)
    parts: list[Array] = [index[order], labels[order]]
    if sample_weight is not None:
        parts.append(read_weights(sample_weight, index, num_nodes)[order])
    return Labelled(*map(torch.from_numpy, parts))


def read_weights(sample_weight: Any, nodes: Ints, num_nodes: int) -> Floats:
    """Weights of labels, scaled to sum to the effective number of them, (Σw)² / Σw² (Kish)."""
    given = _numbers(sample_weight, "sample_weight")
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
    if not isinstance(known, tuple | list) or len(known) != 2:
        raise TypeError("known must be a pair: the nodes (boolean or indices), and their labels")
    nodes, labels = known
    return read_labels(labels, nodes, num_nodes, num_classes, "known", empty=True)


def read_index(nodes: Any, num_nodes: int, name: str, *, empty: bool = False) -> Ints:
    """Numbers of distinct nodes, in the order given, from a boolean mask or an index array."""
    if nodes is None:
        raise TypeError(
            f"{name} is missing: say which nodes' labels may be read (np.arange(n): all)"
        )
    index = as_numpy(nodes, name)
    if index.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {list(index.shape)}")
    if index.size and index.dtype.kind not in "biu":
        raise TypeError(f"{name} must be boolean or integer; got an array of {index.dtype}")
    if index.size and index.dtype == np.bool_:
        if index.size != num_nodes:
            raise ValueError(f"{name} has {index.size} entries for {num_nodes} nodes")
        index = np.flatnonzero(index)
    if index.size == 0 and not empty:
        raise ValueError(f"{name} selects no node")
    outside = index[(index < 0) | (index >= num_nodes)]
    if outside.size:
        raise ValueError(f"{name} names node {outside[0]}, but nodes are 0..{num_nodes - 1}")
    if np.unique(index).size < index.size:
        hint = ""
        if index.size == num_nodes and index.max() <= 1:
            hint = f": it holds 0 and 1 for every node; pass a boolean mask, {name}.astype(bool)"
        raise ValueError(f"{name} names a node twice{hint}")
    return index.astype(np.int64)


def refuse_shared(first: Any, second: Any, names: tuple[str, str], why: str) -> None:
    """Raise if two sets of nodes have a node in common."""
    both = np.intersect1d(as_numpy(first), as_numpy(second))
    if both.size:
        nodes = "1 node" if both.size == 1 else f"{both.size} nodes"
        first_one = f"(the first is {both[0]})"
        raise ValueError(f"{' and '.join(names)} have {nodes} in common {first_one}: {why}")


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
    """Class numbers of ``nodes``, nobody else's; ``only_these``: ``y`` may hold theirs alone."""
    given, owner = as_numpy(y, name), of and f" of {of}"
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (num_nodes,) and not (only_these and given.shape == nodes.shape):
        rest = f", or one per node{owner}, [{nodes.size}]" if only_these else ""
        if given.ndim == 2:
            rest += "; of one column per class take argmax(axis=1); several labels of a node are "
            rest += "calibrated one column at a time, with logits [0, s]"
        raise ValueError(
            f"{name} of shape {list(given.shape)}; expected one per node, [{num_nodes}]{rest}"
        )
    if only_these and nodes.size == num_nodes and (np.diff(nodes) < 0).any():
        raise ValueError(
            f"{of or 'the index array'} names all {num_nodes} nodes, not in their order: {name} "
            "could be in either; give both in the order of the nodes"
        )
    if given.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be class numbers 0, 1, …, got an array of {given.dtype}; number the "
            "classes first, for example by np.unique(names, return_inverse=True)"
        )
    chosen = given[nodes] if given.size == num_nodes else given
    if (wrong := np.flatnonzero(chosen != np.rint(chosen))).size:
        raise ValueError(
            f"{name} must be whole numbers, the classes 0, 1, …; node {nodes[wrong[0]]} has "
            f"{chosen[wrong[0]]}"
        )
    if num_classes and (wrong := np.flatnonzero((chosen < 0) | (chosen >= num_classes))).size:
        raise ValueError(
            f"node {nodes[wrong[0]]}{owner} has label {chosen[wrong[0]]:.15g}, but the classes "
            f"are 0..{num_classes - 1}"
        )
    return chosen.astype(np.int64)


def _is_tensor(values: Any) -> bool:
    # A tensor can only exist once torch was imported, so that this need not import it.
    torch = sys.modules.get("torch")
    return torch is not None and torch.is_tensor(values)


def as_numpy(values: Any, name: str = "the array") -> Array:
    """View an array, a tensor or a list as a NumPy array."""
    _refuse_layout(values, name)
    if not _is_tensor(values):
        array = np.asarray(values)
        if array.dtype == np.longdouble and array.dtype != np.float64:
            raise TypeError(f"{name} is an array of {array.dtype}: pass array.astype(np.float64)")
        # torch knows the byte order of this machine only.
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    tensor = values.detach().cpu()
    # NumPy has no bfloat16.
    return np.asarray((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())


def _numbers(values: Any, name: str, kinds: str = "biuf") -> Array:
    array = as_numpy(values, name)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{name} must be real numbers, got an array of {array.dtype}")
    return array


def _refuse_layout(values: Any, name: str) -> None:
    """Raise `TypeError` for masked, sparse and quantised arrays, and for tensors without data."""
    what, tensor = "", _is_tensor(values)
    if isinstance(values, np.ma.MaskedArray):
        what = "masked array, whose mask would be lost"
    elif hasattr(values, "tocsr") or (tensor and str(values.layout) != "torch.strided"):
        what = "sparse matrix"
    elif tensor and (values.is_quantized or values.is_meta):
        what = f"tensor of {values.dtype} on the device {values.device}"
    if what:
        raise TypeError(f"{name} is a {what}: pass a dense array of numbers")


# --- logits and probabilities ---------------------------------------------------------------------


def read_logits(logits: Any, kind: InputType = "logits") -> Tensor:
    """Check logits [n, K] and return them as float32 or float64 on the CPU.

    Probabilities become their logarithms; passed as logits they are refused, as all would be wrong.
    """
    import torch

    if kind not in get_args(InputType):
        raise ValueError(
            f"input_type must be one of {', '.join(get_args(InputType))}, got {kind!r}"
        )
    if isinstance(logits, torch.Tensor):
        _refuse_layout(logits, kind)
        z = logits.detach().cpu()
    else:
        array = _numbers(logits, kind, "fiu")
        # torch.from_numpy complains about read-only memory; nothing here writes to it.
        z = torch.as_tensor(array if array.flags.writeable else array.copy())
    if z.is_complex() or z.dtype == torch.bool:
        raise TypeError(f"{kind} must be real numbers, got a tensor of {z.dtype}")
    if not z.is_floating_point():  # whole numbers above 2^24 are not told apart by float32
        wide = z.to(torch.float64)
        z = wide if z.numel() and float(wide.abs().max()) > 1 << 24 else wide.to(torch.float32)
    if kind.startswith("binary-"):
        z, kind = both_classes(z, kind), kind.removeprefix("binary-")  # type: ignore[assignment]
    if z.ndim != 2 or z.shape[1] < 2:
        single = "probabilities" if kind == "probabilities" else "logits"
        hint = f'for a binary model with one output per node say input_type="binary-{single}"'
        if z.ndim > 2:
            hint = "of outputs per edge or graph pass one row for each, to a method without graph"
        raise ValueError(
            f"{kind} must have shape [nodes, classes], with at least two classes; got "
            f"{list(z.shape)}; {hint}"
        )
    if z.shape[0] == 0:
        raise ValueError(f"{kind} hold no node")
    z = z if z.dtype == torch.float64 else z.to(torch.float32)
    if kind != "logits":
        return _logarithms(z, kind)
    # One pass, no temporary of the same size: a sum is finite only if all its terms are, or if
    # finite terms overflow, which the slow look then clears up.
    if not bool(torch.isfinite(z.sum())):
        array = z.numpy()
        bad = np.flatnonzero(impossible(array, kind, np.isneginf(array).all(axis=0))[0])
        if bad.size:
            raise ValueError(
                f"logits of {len(bad)} of {len(z)} nodes are NaN or infinite; the first is node "
                f"{bad[0]}: {z[bad[0]].tolist()[:6]}; {MASKING}"
            )
    if are_probabilities(z):
        raise ValueError(ARE_PROBABILITIES)
    return z.contiguous()


def impossible(array: Array, kind: str, masked: Any) -> tuple[Any, str]:
    """Rows that no model can have given, and why; a class may be ``masked`` by −inf."""
    if kind == "logits":
        bad = ~np.where(masked, np.isneginf(array), np.isfinite(array)).all(axis=1)
        return bad, f"logits that are NaN or infinite ({MASKING})"
    p = array.astype(np.float64)
    p = p if kind == "probabilities" else np.exp(p)
    bad = ~(np.abs(p.sum(axis=1) - 1) <= ROW_SUM_TOLERANCE)
    bad |= ~((p >= -RANGE_TOLERANCE) & (p <= 1 + RANGE_TOLERANCE)).all(axis=1)
    return bad, f"no {kind}: they lie outside [0, 1] or do not add up to one"


def both_classes(z: Tensor, kind: InputType) -> Tensor:
    """Logits [0, s] or probabilities [1 − p, p] of one score per node, [n] or [n, 1]."""
    import torch

    if z.ndim not in (1, 2) or (z.ndim == 2 and z.shape[1] != 1):
        raise ValueError(
            f'input_type="{kind}" is one score per node, [n] or [n, 1]; got {list(z.shape)}; for a '
            f'column per class say "{kind.removeprefix("binary-")}"'
        )
    score = z.reshape(-1).to(torch.float64 if z.dtype == torch.float64 else torch.float32)
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
    """What is added to the logits of each class: log(deployed / trained), or −log(class weight)."""
    keys = sorted(prior_shift) if isinstance(prior_shift, Mapping) else None
    if keys not in (["deployed", "trained"], ["class_weights"]):
        raise ValueError(
            'prior_shift must be {"trained": shares, "deployed": shares} or {"class_weights": '
            f"weights}}, got {prior_shift!r}"
        )
    found = np.zeros(num_classes)
    for name, values in prior_shift.items():
        given = as_numpy(values, name)
        if given.shape != (num_classes,) or given.dtype.kind not in "iuf" or not (given > 0).all():
            raise ValueError(
                f"{name} of prior_shift must be one positive number for each of {num_classes} "
                f"classes, got {values!r}"
            )
        if name != "class_weights" and abs(given.sum() - 1) > ROW_SUM_TOLERANCE:
            raise ValueError(f"{name} of prior_shift sums to {given.sum():.6g}; shares sum to 1")
        found += (1.0 if name == "deployed" else -1.0) * np.log(given.astype(np.float64))
    return found


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
    logs = z.clamp(min=smallest).log_() if kind == "probabilities" else z
    return logs.clamp(min=float(np.log(smallest)))


def are_probabilities(z: Tensor) -> bool:
    """Whether every row lies in [0, 1] and sums to one; a few rows may by chance, and pass."""
    return len(z) >= _FEWEST_ROWS and all(
        bool((rows.sum(dim=1) - 1).abs().max() <= ROW_SUM_TOLERANCE)
        and bool(rows.min() >= -RANGE_TOLERANCE)
        for rows in (z[:_GLANCE], z)
    )


def are_log_probabilities(z: Tensor) -> bool:
    """Whether every row sums to one after exp: log-softmax took the offset of the model away."""
    return len(z) >= _FEWEST_ROWS and all(
        bool(rows.logsumexp(dim=1).abs().max() <= ROW_SUM_TOLERANCE) for rows in (z[:_GLANCE], z)
    )


def read_probabilities(probs: Any, nodes: Ints | None = None) -> npt.NDArray[np.floating[Any]]:
    """Probabilities [n, K], or the rows of ``nodes``, in their dtype: large input is not copied."""
    array = _numbers(probs, "probs")
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"probs has shape {array.shape}; expected [nodes, classes], at least one of each. "
            "For a binary problem give both columns, e.g. np.stack([1 - p, p], axis=1)."
        )
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    if nodes is not None:
        array = array[nodes]
        if not nodes.size:
            return array
    number = range(len(array)) if nodes is None else nodes
    # NaN fails both comparisons, so the common case costs two passes and no temporary.
    if not (array.min() >= -RANGE_TOLERANCE and array.max() <= 1 + RANGE_TOLERANCE):
        inside = (array >= -RANGE_TOLERANCE) & (array <= 1 + RANGE_TOLERANCE)
        row, column = np.argwhere(~inside)[0]
        raise ValueError(
            f"probs[{number[row]}, {column}] is {array[row, column]:.6g}; expected a probability "
            "within [0, 1]. If these are logits, apply softmax over the classes first."
        )
    sums = array.sum(axis=1, dtype=np.float64)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > ROW_SUM_TOLERANCE:
        raise ValueError(
            f"probs of node {number[worst]} sum to {sums[worst]:.6g}; expected 1 (within "
            f"{ROW_SUM_TOLERANCE:g}). If these are logits, apply softmax first (float32 or wider)."
        )
    return array


def read_positive(positive: Any, num_classes: int, classes: Any = None) -> int:
    """The number of a class that was given by its number, or by its name among ``classes``."""
    names = [] if classes is None else [str(name) for name in classes]
    if classes is not None and not len(names) == len(set(names)) == num_classes:
        raise ValueError(
            f"classes must be {num_classes} different names, one for each class; got {names}"
        )
    if isinstance(positive, str):
        if positive not in names:
            known = ", ".join(names) or f"0..{num_classes - 1}, without names: pass classes="
            raise ValueError(f"positive is {positive!r}; the classes are {known}")
        return names.index(positive)
    if isinstance(positive, bool) or not hasattr(positive, "__index__"):
        raise TypeError(f"positive must be the number or the name of a class, got {positive!r}")
    if not 0 <= int(positive) < num_classes:
        raise ValueError(f"positive is {positive}; the classes are 0..{num_classes - 1}")
    return int(positive)


# --- what a method sees --------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeInputs:
    """What is known of all nodes: no label in here but those that a prediction was given."""

    logits: Tensor
    graph: Graph | None = None
    features: Tensor | None = None
    forward: Forward | None = None
    training: Tensor | None = None  # the nodes that the GNN was trained on, if they were named
    hidden: Tensor | None = None  # what enters the GNN's last layer [n, d]
    known: Labelled | None = None  # labels that were named for prediction
    node_ids: Array | None = None  # names of the nodes, on every graph on which they are the same

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


@dataclass(frozen=True, kw_only=True)
class CalibrationData(NodeInputs):
    """`NodeInputs` and the labels that may be read."""

    calibration: Labelled
    holdout: Labelled | None = None
    used_for_selection: bool = True  # whether calibration nodes chose the GNN's checkpoint

    @property
    def labelled(self) -> dict[str, Labelled]:
        """All labels in here, by what they are for."""
        parts = {"calibration": self.calibration, "holdout": self.holdout}
        return {name: part for name, part in parts.items() if part is not None}

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
    node_ids: Any = None,
    input_type: InputType = "logits",
) -> NodeInputs:
    """Check everything that is not a label."""
    import torch

    from simi_mailbox.graph import as_graph

    z = read_logits(logits, input_type)
    given = {"graph": graph, "features": features, "forward": forward}
    if missing := sorted(name for name in needs if given[name] is None):
        told = ", ".join(f"{name}=…" for name in missing)
        raise TypeError(f"{method} needs {' and '.join(missing)}: pass {told}")
    training = None
    if train_mask is not None:
        training = torch.from_numpy(read_index(train_mask, len(z), "train_mask", empty=True))
    return NodeInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, len(z)),
        features=None if features is None else read_features(features, len(z)),
        forward=forward,
        training=training,
        hidden=None if hidden is None else read_features(hidden, len(z), "hidden"),
        node_ids=None if node_ids is None else read_node_ids(node_ids, len(z)),
    )


def read_features(features: Any, num_nodes: int, name: str = "features") -> Tensor:
    """Check node features [n, d]: dense, or SciPy/torch sparse, which stay sparse."""
    import torch

    x: Tensor
    if hasattr(features, "tocsr") and not isinstance(features, torch.Tensor):
        from simi_mailbox.sparse import csr_tensor

        csr = features.tocsr().astype(np.float32)
        starts, columns = (torch.tensor(part).long() for part in (csr.indptr, csr.indices))
        x = csr_tensor(starts, columns, torch.tensor(csr.data), size=csr.shape)
    elif isinstance(features, torch.Tensor):
        x = features.detach().cpu().to(torch.float32)
        x = x if x.layout is torch.strided else x.to_sparse_csr()
    else:  # a copy: torch complains about read-only memory, which datasets are made of
        x = torch.from_numpy(as_numpy(features, name).astype(np.float32))
    if x.ndim != 2 or x.shape[0] != num_nodes:
        raise ValueError(
            f"{name} must have one row per node: got {list(x.shape)} for {num_nodes} nodes"
        )
    if x.shape[1] == 0:
        raise ValueError(f"{name} have no column: pass at least one, or leave them out")
    if not bool(torch.isfinite(x if x.layout is torch.strided else x.values()).all()):
        raise ValueError(f"{name} contain NaN or infinite values")
    return x


def read_node_ids(node_ids: Any, num_nodes: int) -> Array:
    """Names of all nodes: strings or whole numbers, none negative, each once."""
    ids = as_numpy(node_ids, "node_ids")
    if ids.dtype.kind == "O" and all(isinstance(one, str) for one in ids.flat):
        ids = ids.astype(str)
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise TypeError(
            "node_ids must be whole numbers or strings, one for each node; got an array of "
            f"{ids.dtype} with shape {list(ids.shape)}"
        )
    if len(ids) != num_nodes:
        raise ValueError(f"{len(ids)} node_ids for {num_nodes} nodes")
    if ids.dtype.kind == "i" and ids.size and ids.min() < 0:
        row = int((ids < 0).argmax())
        raise ValueError(f"node_ids of row {row} is {ids[row]}: ids are not negative")
    values, counts = np.unique(ids, return_counts=True)
    if len(values) < len(ids):
        raise ValueError(
            f"node_ids must differ: {values[counts > 1][0].item()!r} stands for several nodes"
        )
    return ids


def read_calibration(
    nodes: NodeInputs,
    y: Any,
    mask: Any,
    early_stopping_mask: Any = None,
    *,
    allow_training_nodes: bool = False,
    used_for_selection: bool = True,
    sample_weight: Any = None,
) -> CalibrationData:
    """`NodeInputs` and the labels of the masks; what ``y`` holds for other nodes is dropped."""
    n, k = nodes.num_nodes, nodes.num_classes
    calibration, holdout = read_labels(y, mask, n, k, "mask", sample_weight), None
    if early_stopping_mask is not None:
        if len(y) != n:
            raise ValueError(f"early_stopping_mask needs labels of full length {n}, got {len(y)}")
        holdout = read_labels(y, early_stopping_mask, n, k, "early_stopping_mask")
        why = "a method would stop on what it is fitted on; take them out of one"
        names = ("mask", "early_stopping_mask")
        refuse_shared(calibration.index, holdout.index, names, why)
    if nodes.training is not None and not allow_training_nodes:
        why = "the model looks better than it is on nodes it was trained on; calibrate with "
        why += "others, or insist with allow_training_nodes=True"
        refuse_shared(calibration.index, nodes.training, ("mask", "train_mask"), why)
    elif not allow_training_nodes and (told := looks_trained_on(nodes.logits, calibration)):
        warnings.warn(told, CalibrationWarning, stacklevel=3)
    one = calibration.y[0]
    if len(calibration) >= _FEWEST_ROWS and bool((calibration.y == one).all()):
        alike = f"all {len(calibration)} calibration labels are class {int(one)}: nothing is "
        alike += "learned of the others; choose calibration nodes at random, and check the labels"
        warnings.warn(alike, CalibrationWarning, stacklevel=3)
    labels: dict[str, Any] = {"calibration": calibration, "holdout": holdout}
    return CalibrationData(**vars(nodes), **labels, used_for_selection=used_for_selection)


def looks_trained_on(logits: Tensor, calibration: Labelled) -> str:
    """How the calibration nodes differ from the others, as training nodes do; "" if they do not.

    A structural shift looks the same; see ``bench/speed/bench_trained_on.py``.
    """
    from simi_mailbox.softmax import confidence

    m = len(calibration)
    others = np.setdiff1d(np.arange(len(logits)), calibration.index.numpy(), assume_unique=True)
    if m < _FEWEST_NODES or others.size < _FEWEST_NODES:
        return ""
    others = others[:: max(1, others.size // _SAMPLE)]
    own_logits = logits[calibration.index]
    own, rest = confidence(own_logits), confidence(logits[others])
    surplus, error = float(own.mean() - rest.mean()), float(rest.std()) / m**0.5
    accuracy = float((own_logits.argmax(dim=1) == calibration.y).double().mean())
    if surplus < max(_STANDARD_ERRORS * error, 0.01) or accuracy < rest.mean():
        return ""
    return (
        f"the {m} calibration nodes are unlike the others: the model is {100 * surplus:.1f} points "
        f"more confident on them, and {accuracy:.1%} are right; if it was trained on them, "
        "calibrate with nodes it has not seen; if they differ in kind (hubs, older nodes), watch "
        "the others with a monitor; train_mask settles which"
    )


N = TypeVar("N", bound=NodeInputs)


def moved(nodes: NodeInputs, offset: Any) -> NodeInputs:
    """The same nodes with a number added to the logits of each class, those of ``forward`` too."""
    import torch

    added, forward = torch.as_tensor(offset), nodes.forward
    changed: dict[str, Any] = {"logits": nodes.logits + added.to(nodes.logits.dtype)}
    if forward is not None:
        changed["forward"] = lambda weight: forward(weight) + added.to(nodes.logits.dtype)
    return replace(nodes, **changed)


def clip(nodes: N, limits: LogitRange) -> N:
    """The same nodes as a method sees them: moderate logits of the possible classes only."""
    changed: dict[str, Any] = {"logits": limits.cut(nodes.logits)}
    forward = nodes.forward
    if forward is not None and len(limits.classes) < limits.num_classes:
        changed["forward"] = lambda weight: forward(weight)[:, limits.classes]
    if isinstance(nodes, CalibrationData):
        for name, part in nodes.labelled.items():
            changed[name] = replace(part, y=limits.number(part.y))
    return replace(nodes, **changed)
