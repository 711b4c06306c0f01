"""Personalised PageRank by power iteration: evidence of a node reaches those around it."""

from __future__ import annotations

import torch
from torch import Tensor

from simi_mailbox.graph import Graph
from simi_mailbox.models.ops import Csr, spmm
from simi_mailbox.models.plan import symmetric_normalised


def symmetric_adjacency(graph: Graph) -> Csr:
    """D^(-1/2) (A + I) D^(-1/2) of a graph, D counting the self-loop.

    Examples
    --------
    >>> symmetric_adjacency(Graph.from_edges([[0], [1]])).values
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    return Csr.from_scipy(symmetric_normalised(graph), symmetric=not graph.is_directed)


def personalised_pagerank(values: Tensor, adjacency: Csr, *, teleport: float, steps: int) -> Tensor:
    """``steps`` rounds of x ← (1 - teleport) Â x + teleport · values, started at ``values``.

    Examples
    --------
    >>> adjacency = symmetric_adjacency(Graph.from_edges([[0], [1]]))
    >>> personalised_pagerank(torch.tensor([[1.0], [0.0]]), adjacency, teleport=0.5, steps=1)
    tensor([[0.7500],
            [0.2500]])
    """
    if not 0.0 < teleport <= 1.0:
        raise ValueError(f"teleport must be in (0, 1], got {teleport}")
    if steps < 0:
        raise ValueError(f"steps must not be negative, got {steps}")
    current = values
    for _ in range(steps):
        current = torch.add(teleport * values, spmm(adjacency, current), alpha=1.0 - teleport)
    return current
