"""Mini-batches: how much of a graph must be cut out with a node, and whether it was."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from simi_mailbox.calibrators import Calibrator
from simi_mailbox.calibrators.simi_mailbox import SimiMailboxPaper
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.pyg.calls import takes_graph
from simi_mailbox.pyg.hidden import is_message_passing

LOCAL = frozenset(
    {"EdgeConv", "GATConv", "GATv2Conv", "GINConv", "GINEConv", "GraphConv", "SAGEConv"}
    | {"TransformerConv"}
)
"""Layers that look at a node's neighbours and no further."""
NORMALISED = frozenset({"APPNP", "GCNConv", "GCN2Conv", "LGConv", "SGConv", "SSGConv", "TAGConv"})
"""Layers that look at the degrees of the neighbours as well: once for the whole model, one hop
more must be there, or the outermost degrees are too small."""


WHOLE = frozenset(
    {"GPSConv", "GraphNorm", "GraphSizeNorm", "InstanceNorm", "MeanSubtractionNorm", "PairNorm"}
    | {"MultiheadAttention", "PerformerAttention", "SGFormer", "Polynormer"}
)
"""Parts that mix all nodes of a graph."""


def model_hops(model: nn.Module) -> int:
    """Hops that a node's logits depend on.

    Layers are counted, with their ``K`` steps where they have that; one that is used twice, or
    that is not PyG's own, must be counted by its user.
    """
    for part in model.modules():
        if _mixes_all_nodes(part):
            raise ValueError(
                f"{type(part).__name__} looks at the whole graph, which no mini-batch holds: "
                "compute the logits of all nodes at once and pass them to "
                "from_logits(logits, graph)"
            )
    layers = [part for part in model.modules() if is_message_passing(part)]
    kinds = {type(layer).__name__ for layer in layers}
    strange = sorted(kinds - LOCAL - NORMALISED)
    if strange or (not layers and takes_graph(model)):
        what = strange[0] if strange else type(model).__name__
        raise ValueError(f"cannot tell how far {what} looks: say how many hops, num_hops=…")
    steps = sum(int(getattr(layer, "K", 1)) for layer in layers)
    return steps + bool(kinds & NORMALISED)


def calibrator_hops(calibrator: Calibrator) -> int:
    """Hops that a calibrator adds: whose logits it looks at besides a node's own."""
    if "graph" not in calibrator.required_inputs:
        return 0
    if "known" in calibrator.optional_inputs:
        return 2  # labels two steps away
    if isinstance(calibrator, SimiMailboxPaper):
        return 1
    raise ValueError(
        f"{type(calibrator).__name__} looks at the whole graph: compute the logits of all nodes "
        "(in mini-batches, if need be) and pass them to from_logits(logits, graph)"
    )


def check_batch(batch: Any, seeds: Tensor, num_hops: int) -> None:
    """Raise `ValueError` if neighbours that the seeds' probabilities depend on are missing.

    Every node less than ``num_hops`` away from a seed must have all its neighbours in the batch.
    """
    if num_hops == 0:
        return
    expected = getattr(batch, "num_neighbours", None)
    if expected is None:
        raise ValueError(
            "a mini-batch does not show which neighbours it lacks: put CountNeighbours() on the "
            "whole graph before it is cut, or insist with check=False"
        )
    graph = as_graph(batch, int(batch.num_nodes))
    near = within(graph, seeds, num_hops - 1)
    if bool((near & (graph.degree > expected.cpu())).any()):
        raise ValueError(
            "nodes of the batch have more neighbours than CountNeighbours() has counted: the graph "
            "has changed since; apply it again before it is cut"
        )
    lacking = near & (graph.degree < expected.cpu())
    if bool(lacking.any()):
        node = int(lacking.nonzero()[0])
        raise ValueError(
            f"{int(lacking.sum())} of the {int(near.sum())} nodes within {num_hops - 1} hops of "
            f"the seeds lack neighbours; the first is node {node} of the batch, with "
            f"{int(graph.degree[node])} of {int(expected[node])}: cut out {num_hops} hops of an "
            "undirected graph, with all neighbours (num_neighbors=[-1] * calibrated.num_hops)"
        )


def within(graph: Graph, start: Tensor, hops: int) -> Tensor:
    """Which nodes are at most ``hops`` away from the nodes ``start``."""
    reached = torch.zeros(graph.num_nodes, dtype=torch.bool)
    reached[start.cpu()] = True
    rows, columns = graph.rows(), graph.indices
    for _ in range(hops):
        reached[rows[reached[columns]]] = True
    return reached


def _mixes_all_nodes(part: nn.Module) -> bool:
    kind = type(part)
    if kind.__name__ == "LayerNorm" and kind.__module__.startswith("torch_geometric"):
        return getattr(part, "mode", "graph") == "graph"
    whole_batch = isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None
    pools = kind.__module__.startswith("torch_geometric.nn.pool")
    return whole_batch or pools or kind.__name__ in WHOLE
