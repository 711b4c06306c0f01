"""Mini-batches: how much of a graph they must hold, whether they do, and which nodes they have."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, nn

from simi_mailbox.calibrators import Calibrator
from simi_mailbox.calibrators.simi_mailbox import SimiMailboxPaper
from simi_mailbox.graph import as_graph
from simi_mailbox.pyg.runs import is_message_passing, takes_graph

LOCAL = {
    *("EdgeConv", "GATConv", "GATv2Conv", "GINConv", "GINEConv", "GraphConv", "SAGEConv"),
    "TransformerConv",
}
"""Layers that look at a node's neighbours and no further."""
NORMALISED = {"APPNP", "GCNConv", "GCN2Conv", "LGConv", "SGConv", "SSGConv", "TAGConv"}
"""Layers that also look at the neighbours' degrees: these need one hop more, once for a model."""
WHOLE = {
    *("GPSConv", "GraphNorm", "GraphSizeNorm", "InstanceNorm", "MeanSubtractionNorm", "PairNorm"),
    *("MultiheadAttention", "PerformerAttention", "SGFormer", "Polynormer"),
}
"""Parts that mix all nodes of a graph."""
INPUTS = ("x", "pos", "edge_weight", "edge_attr", "edge_type", "node_type", "time")
"""What models are run on besides the graph."""
WHOLE_GRAPH = (
    "{} looks at the whole graph, which no mini-batch holds: compute the logits of all nodes (in "
    "mini-batches, if need be) and pass them to from_logits(logits, graph)"
)


def model_hops(model: nn.Module) -> int:
    """Hops that a node's logits depend on: PyG's layers are counted, with their ``K`` steps."""
    for part in model.modules():
        if _mixes_all_nodes(part):
            raise ValueError(WHOLE_GRAPH.format(type(part).__name__))
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
    raise ValueError(WHOLE_GRAPH.format(type(calibrator).__name__))


def check_batch(batch: Any, seeds: Tensor, num_hops: int) -> None:
    """Raise unless all nodes less than ``num_hops`` away from a seed have all their neighbours."""
    if num_hops == 0:
        return
    expected = getattr(batch, "num_neighbours", None)
    if expected is None:
        raise ValueError(
            "a mini-batch does not show which neighbours it lacks: put CountNeighbours() on the "
            "whole graph before it is cut, or insist with check=False"
        )
    graph, expected = as_graph(batch, int(batch.num_nodes)), expected.cpu()
    rows, columns = graph.rows(), graph.indices
    near = torch.zeros(graph.num_nodes, dtype=torch.bool)
    near[seeds.cpu()] = True
    for _ in range(num_hops - 1):
        near[rows[near[columns]]] = True
    if bool((near & (graph.degree > expected)).any()):
        raise ValueError(
            "nodes of the batch have more neighbours than CountNeighbours() has counted: the graph "
            "has changed since; apply it again before it is cut"
        )
    lacking = int((near & (graph.degree < expected)).sum())
    if lacking:
        raise ValueError(
            f"{lacking} of the {int(near.sum())} nodes within {num_hops - 1} hops of the seeds "
            f"lack neighbours: cut out {num_hops} hops of an undirected graph, with all neighbours "
            "(num_neighbors=[-1] * calibrated.num_hops)"
        )


def fingerprints(data: Any) -> frozenset[str]:
    """What tells a graph and its model's inputs from others: equal ones give equal logits."""
    found = {as_graph(data, int(data.num_nodes)).fingerprint()}
    for name in INPUTS:
        value = getattr(data, name, None)
        if isinstance(value, Tensor):
            digest = hashlib.sha256(f"{name} {list(value.shape)} {value.dtype}".encode())
            parts = [value := value.detach().cpu()]
            if value.layout is not torch.strided:
                rows = value.to_sparse_csr()
                parts = [rows.crow_indices(), rows.col_indices(), rows.values()]
            for part in parts:
                digest.update(part.contiguous().view(torch.uint8).numpy().data)
            found.add(digest.hexdigest()[:16])
    return frozenset(found)


def row_sums(data: Any) -> Tensor:
    """A number for every row of ``data.x``, by which the row is known again."""
    x = getattr(data, "x", None)
    if not isinstance(x, Tensor) or x.ndim != 2:
        return torch.zeros(int(data.num_nodes), dtype=torch.float64)
    weights = torch.sin(torch.arange(1, x.shape[1] + 1, dtype=torch.float64) * 12.9898)
    return (x.detach().cpu().double() @ weights[:, None]).flatten()


def places(batch: Any, fitted: frozenset[str]) -> Tensor | None:
    """Numbers of the nodes at ``fit``, if `CountNeighbours` found its graph and inputs, or None."""
    found = getattr(batch, "fingerprints", None)
    if found is None or not fitted or not fitted <= frozenset(found):
        return None
    same = torch.allclose(row_sums(batch), batch.row_sums.cpu(), rtol=1e-6, atol=1e-9)
    return batch.node_number if same else None


def _mixes_all_nodes(part: nn.Module) -> bool:
    kind = type(part)
    if kind.__name__ == "LayerNorm" and kind.__module__.startswith("torch_geometric"):
        return getattr(part, "mode", "graph") == "graph"
    whole_batch = isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None
    pools = kind.__module__.startswith("torch_geometric.nn.pool")
    return whole_batch or pools or kind.__name__ in WHOLE
