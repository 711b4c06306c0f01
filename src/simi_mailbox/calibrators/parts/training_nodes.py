"""How far every node is from the nodes that the GNN was trained on: 0, 1, or further.

GATS treats training nodes and their neighbours apart. A fitted calibrator must therefore know the
training nodes again when it predicts. On the very graph of the fit (same fingerprint) they are the
same indices. On any other graph, a node counts as one of them if its own logits and all those of
its neighbours are the ones a training node had: so renaming nodes, or a change in another corner of
the graph, does not matter, and a graph never seen before has no training nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox.graph import Graph

TRAINING, NEIGHBOUR, FURTHER = 0, 1, 2


@dataclass(frozen=True)
class TrainingNodes:
    """The training nodes of a fit: where they are, and how to know them elsewhere.

    Examples
    --------
    >>> graph = Graph.from_edges([[0, 1], [1, 2]], num_nodes=4)
    >>> logits = torch.arange(8.0).reshape(4, 2)
    >>> nodes = TrainingNodes.remember(torch.tensor([0]), logits, graph)
    >>> nodes.distances(logits, graph).tolist()
    [0, 1, 2, 2]
    >>> order = torch.tensor([3, 2, 1, 0])
    >>> nodes.distances(logits[order], graph.permute(order)).tolist()
    [2, 2, 1, 0]
    """

    index: Tensor
    fingerprint: str
    keys: Tensor

    @classmethod
    def remember(cls, index: Tensor, logits: Tensor, graph: Graph) -> TrainingNodes:
        """Take note of the nodes ``index``."""
        keys = node_keys(logits, graph)
        others = torch.ones(graph.num_nodes, dtype=torch.bool)
        others[index] = False
        # A key that another node has as well would turn that node into a training node.
        own = keys[index][~torch.isin(keys[index], keys[others])]
        return cls(index, graph.fingerprint(), own.unique())  # type: ignore[no-untyped-call]

    def distances(self, logits: Tensor, graph: Graph) -> Tensor:
        """0 for training nodes, 1 for their neighbours, 2 for all others."""
        if graph.fingerprint() == self.fingerprint:
            index = self.index
        else:
            index = torch.isin(node_keys(logits, graph), self.keys).nonzero().flatten()
        training = torch.zeros(graph.num_nodes, dtype=torch.bool)
        training[index] = True
        result = torch.full((graph.num_nodes,), FURTHER)
        result[graph.rows()[training[graph.indices]]] = NEIGHBOUR
        result[training] = TRAINING
        return result

    def state(self) -> dict[str, Any]:
        """What to keep in a file."""
        return {"index": self.index, "fingerprint": self.fingerprint, "keys": self.keys}


def node_keys(logits: Tensor, graph: Graph) -> Tensor:
    """64 bits per node that depend on its logits (as float32) and on those of its neighbours."""
    bits = logits.to(torch.float32).numpy().view(np.uint32).astype(np.uint64)
    own = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        own = _mix(own ^ column)
    # Sums of whole numbers do not depend on the order of the neighbours.
    heard = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(own)[graph.indices.numpy()])])
    total = np.diff(heard[graph.indptr.numpy()])
    return torch.from_numpy(_mix(own ^ _mix(total)).view(np.int64))


def _mix(x: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Scramble 64-bit numbers (the finaliser of SplitMix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
