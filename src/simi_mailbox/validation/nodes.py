"""What is known of all nodes: `NodeInputs`, read from what a user passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.validation.arrays import as_numpy
from simi_mailbox.validation.labels import Labelled, read_index
from simi_mailbox.validation.logits import InputType, read_logits

if TYPE_CHECKING:
    from torch import Tensor

    from simi_mailbox.graph import Graph

Forward: TypeAlias = "Callable[[Tensor], Tensor]"


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
    node_ids: Tensor | None = None
    """What these nodes are called on the graph of ``fit``, if they are a part of it."""

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


def read_node_ids(node_ids: Any, num_nodes: int) -> Ints:
    """Numbers that nodes have on the graph of ``fit``: different whole numbers, none negative.

    Examples
    --------
    >>> read_node_ids([7, -1], 2)
    Traceback (most recent call last):
        ...
    ValueError: node_ids of row 1 is -1: no node has a negative number on the graph of fit; leave \
such rows out
    """
    given = as_numpy(node_ids, "node_ids")
    if given.ndim == 1 and given.dtype.kind == "i" and given.size and given.min() < 0:
        row = int((given < 0).argmax())
        raise ValueError(
            f"node_ids of row {row} is {given[row]}: no node has a negative number on the graph of "
            "fit; leave such rows out"
        )
    named = read_index(given, 1 << 62, "node_ids")
    if len(named) != num_nodes:
        raise ValueError(f"{len(named)} node_ids for {num_nodes} nodes")
    return named
