"""What the neighbours say about a node's predicted class."""

from __future__ import annotations

import torch
from torch import Tensor

from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import row_sums


def support(probs: Tensor, predicted: Tensor, graph: Graph, *, cosine: bool = False) -> Tensor:
    """Sum over neighbours j of p_j[ŷ_i], the probability they give to i's predicted class.

    With ``cosine`` each term is weighted by the cosine similarity of p_i and p_j. Needs one number
    per neighbour entry: classes × entries are never held in memory at once.

    Examples
    --------
    >>> graph = Graph.from_edges([[0], [1]], num_nodes=3)
    >>> p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    >>> support(p, p.argmax(1), graph).tolist()
    [0.2, 0.1, 0.0]
    """
    rows = graph.rows()
    terms = probs[graph.indices, predicted[rows]]
    if cosine and graph.num_entries:
        direction = probs / probs.norm(dim=1, keepdim=True)
        pattern = torch.sparse_csr_tensor(
            graph.indptr,
            graph.indices,
            torch.zeros(graph.num_entries, dtype=probs.dtype),
            size=(graph.num_nodes, graph.num_nodes),
            check_invariants=False,
        )
        similarity = torch.sparse.sampled_addmm(pattern, direction, direction.T, beta=0.0)
        terms = terms * similarity.values()
    return row_sums(terms, graph.indptr)
