"""The door: what users pass is checked and cut down here, once, for every method.

Behind the door a method sees `CalibrationData`. It holds the labels of the calibration nodes (and
of the hold-out nodes, if there are any) and no other label, so that reading another label is not
forbidden but impossible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox.graph import Graph, as_graph

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Labelled:
    """Some nodes and their labels: ``y[k]`` is the label of node ``index[k]``."""

    index: Tensor
    y: Tensor

    def __len__(self) -> int:
        return int(self.index.numel())


@dataclass(frozen=True)
class NodeInputs:
    """What is known of all nodes: nothing in here is a label."""

    logits: Tensor
    graph: Graph | None = None
    features: Tensor | None = None
    forward: Forward | None = None

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

    calibration: Labelled = Labelled(torch.empty(0, dtype=torch.int64), torch.empty(0))
    holdout: Labelled | None = None

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
) -> NodeInputs:
    """Check everything that is not a label."""
    z = read_logits(logits)
    given = {"graph": graph, "features": features, "forward": forward}
    missing = sorted(name for name in needs if given[name] is None)
    if missing:
        raise TypeError(
            f"{method} needs {' and '.join(missing)}: "
            f"pass {', '.join(f'{name}=…' for name in missing)}"
        )
    return NodeInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, z.shape[0]),
        features=None if features is None else read_features(features, z.shape[0]),
        forward=forward,
    )


def read_logits(logits: Any) -> Tensor:
    """Check logits [n, K] and return them as float32 or float64 on the CPU."""
    if isinstance(logits, Tensor):
        z = logits.detach().cpu()
    else:
        array = np.asarray(logits)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"logits must be numbers, got an array of {array.dtype}")
        # torch.from_numpy complains about read-only memory; nothing here writes to it.
        z = torch.as_tensor(array if array.flags.writeable else array.copy())
    if z.ndim != 2:
        raise ValueError(f"logits must have shape [nodes, classes], got {list(z.shape)}")
    if z.shape[0] == 0:
        raise ValueError("logits hold no node")
    if z.shape[1] < 2:
        raise ValueError(
            f"logits have {z.shape[1]} column: calibration needs at least two classes; "
            "for a binary model with one output s, pass the two columns [0, s]"
        )
    if z.dtype not in (torch.float32, torch.float64):
        z = z.to(torch.float32)
    # One pass, no temporary of the same size: a sum is finite only if all its terms are, or if
    # finite terms overflow, which the slow look then clears up.
    if not bool(torch.isfinite(z.sum())):
        bad = (~torch.isfinite(z)).any(dim=1).nonzero().flatten()
        if bad.numel():
            node = int(bad[0])
            raise ValueError(
                f"logits of {bad.numel()} nodes are NaN or infinite; the first is node {node}: "
                f"{z[node].tolist()[:6]}"
            )
    return z.contiguous()


def read_features(features: Any, num_nodes: int) -> Tensor:
    """Check node features [n, d]: dense, or SciPy/torch sparse, which stay sparse."""
    x: Tensor
    if hasattr(features, "tocsr") and not isinstance(features, Tensor):
        csr = features.tocsr().astype(np.float32)
        x = torch.sparse_csr_tensor(
            torch.tensor(csr.indptr, dtype=torch.int64),
            torch.tensor(csr.indices, dtype=torch.int64),
            torch.tensor(csr.data),
            size=csr.shape,
        )
        values = x.values()
    elif isinstance(features, Tensor) and features.layout is not torch.strided:
        x = features.detach().cpu().to_sparse_csr().to(torch.float32)
        values = x.values()
    else:
        if not isinstance(features, Tensor):
            # A copy: torch complains about read-only memory, which datasets are made of.
            features = torch.from_numpy(np.array(features, dtype=np.float32))
        x = features.detach().cpu().to(torch.float32)
        values = x
    if x.ndim != 2 or x.shape[0] != num_nodes:
        raise ValueError(
            f"features must have one row per node: got {list(x.shape)} for {num_nodes} nodes"
        )
    if not bool(torch.isfinite(values).all()):
        raise ValueError("features contain NaN or infinite values")
    return x


def read_index(mask: Any, num_nodes: int, name: str) -> Tensor:
    """Turn a boolean mask or an index array into sorted-as-given indices of distinct nodes."""
    if mask is None:
        raise TypeError(
            f"{name} is missing: say which nodes' labels may be read, as a boolean mask or an "
            "index array (np.arange(n) if it is all of them)"
        )
    index = _numbers(mask, f"{name} must be boolean or integer")
    if index.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {list(index.shape)}")
    if index.dtype == torch.bool:
        if index.numel() != num_nodes:
            raise ValueError(f"{name} has {index.numel()} entries for {num_nodes} nodes")
        index = index.nonzero().flatten()
    elif index.numel() == 0:
        index = index.to(torch.int64)
    elif index.is_floating_point():
        raise TypeError(f"{name} must be boolean or integer, got {index.dtype}")
    index = index.to(torch.int64)
    if index.numel() == 0:
        raise ValueError(f"{name} selects no node: nothing to calibrate on")
    outside = (index < 0) | (index >= num_nodes)
    if bool(outside.any()):
        raise ValueError(
            f"{name} names node {int(index[outside][0])}, but nodes are numbered 0..{num_nodes - 1}"
        )
    if np.unique(index.numpy()).size != index.numel():
        raise ValueError(f"{name} names a node twice")
    return index


def _numbers(values: Any, expected: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    array = np.array(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{expected}; got an array of {array.dtype}")
    return torch.as_tensor(array)


def read_labels(y: Any, mask: Any, num_nodes: int, num_classes: int, name: str) -> Labelled:
    """Cut ``y`` down to the nodes of ``mask``; labels of other nodes are never looked at."""
    index = read_index(mask, num_nodes, name)
    labels = _numbers(y, "labels must be whole numbers, class indices 0..K-1")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"labels must be one-dimensional, got shape {list(labels.shape)}")
    if labels.numel() == num_nodes:
        labels = labels[index]
    elif labels.numel() != index.numel():
        raise ValueError(
            f"got {labels.numel()} labels; expected one per node ({num_nodes}) "
            f"or one per node of {name} ({index.numel()})"
        )
    if labels.is_floating_point() and not bool((labels == labels.round()).all()):
        raise ValueError("labels must be whole numbers: class indices 0..K-1")
    labels = labels.to(torch.int64)
    outside = (labels < 0) | (labels >= num_classes)
    if bool(outside.any()):
        k = int(outside.nonzero()[0])
        raise ValueError(
            f"node {int(index[k])} of {name} has label {int(labels[k])}, "
            f"but the logits have classes 0..{num_classes - 1}"
        )
    return Labelled(index, labels)
