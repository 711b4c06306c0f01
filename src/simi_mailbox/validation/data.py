"""What a method sees: `NodeInputs`, and `CalibrationData` with the labels that it may read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.validation.arrays import (
    InputType,
    Labelled,
    as_numpy,
    read_index,
    read_labels,
    read_logits,
    refuse_shared,
)

if TYPE_CHECKING:
    from torch import Tensor

    from simi_mailbox.graph import Graph
    from simi_mailbox.softmax import LogitRange

Forward: TypeAlias = "Callable[[Tensor], Tensor]"

_FEWEST_NODES, _STANDARD_ERRORS = 30, 4.0
SAMPLE = 20_000
"""Others that calibration nodes are compared with."""
_ONE_CLASS = 10
"""Fewer labels may all be of one class by chance."""


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


def _nobody() -> Labelled:
    import torch

    return Labelled(torch.empty(0, dtype=torch.int64), torch.empty(0))


@dataclass(frozen=True)
class CalibrationData(NodeInputs):
    """`NodeInputs` and the labels that may be read."""

    calibration: Labelled = field(default_factory=_nobody)
    holdout: Labelled | None = None
    used_for_selection: bool = True
    """Whether the calibration nodes had a part in choosing the GNN's checkpoint."""

    @property
    def labelled(self) -> dict[str, Labelled]:
        """All labels in here, by what they are for."""
        parts = {name: getattr(self, name) for name in ("calibration", "holdout")}
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
            features = torch.from_numpy(as_numpy(features, name).astype(np.float32))
        x = features.detach().cpu().to(torch.float32)
        values = x
    if x.ndim != 2 or x.shape[0] != num_nodes:
        raise ValueError(
            f"{name} must have one row per node: got {list(x.shape)} for {num_nodes} nodes"
        )
    if x.shape[1] == 0:
        raise ValueError(f"{name} have no column: pass at least one, or leave them out")
    if not bool(torch.isfinite(values).all()):
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
        refuse_shared(
            calibration.index,
            holdout.index,
            ("mask", "early_stopping_mask"),
            "a method would stop on what it is fitted on; take them out of one",
        )
    if not allow_training_nodes:
        _check_training_nodes(nodes, calibration)
    one = calibration.y[0]
    if len(calibration) >= _ONE_CLASS and bool((calibration.y == one).all()):
        warnings.warn(
            f"all {len(calibration)} calibration labels are class {int(one)}: nothing is learned "
            "of the others; choose calibration nodes at random, and check the labels",
            CalibrationWarning,
            stacklevel=3,
        )
    return CalibrationData(
        **vars(nodes),
        calibration=calibration,
        holdout=holdout,
        used_for_selection=used_for_selection,
    )


def _check_training_nodes(nodes: NodeInputs, calibration: Labelled) -> None:
    if nodes.training is not None:
        refuse_shared(
            calibration.index,
            nodes.training,
            ("mask", "train_mask"),
            "the model looks better than it is on nodes it was trained on; calibrate with "
            "others, or insist with allow_training_nodes=True",
        )
        return
    suspicion = looks_trained_on(nodes.logits, calibration)
    if suspicion:
        warnings.warn(suspicion, CalibrationWarning, stacklevel=4)


def looks_trained_on(logits: Tensor, calibration: Labelled) -> str:
    """How the calibration nodes differ from the others, as training nodes do; "" if they do not.

    On nodes chosen at random a model is as confident as on the others; on nodes it was trained on
    it is more confident, and more often right than it expects of others. A structural shift (hubs,
    older nodes) looks the same without labels of the others, so the text names both. How often that
    is seen, and how often for validation nodes: ``bench/speed/bench_trained_on.py``.
    """
    from simi_mailbox.softmax import confidence

    n, m = int(logits.shape[0]), len(calibration)
    other = np.ones(n, dtype=bool)
    other[calibration.index.numpy()] = False
    others = np.flatnonzero(other)
    if m < _FEWEST_NODES or others.size < _FEWEST_NODES:
        return ""
    others = others[:: max(1, others.size // SAMPLE)]
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
