"""What the neighbours say about a node's predicted class."""

from __future__ import annotations

from torch import Tensor

from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import row_sums
from simi_mailbox.sparse import Csr, products


def support(probs: Tensor, predicted: Tensor, graph: Graph, *, cosine: bool = False) -> Tensor:
    """Sum over neighbours j of p_j[ŷ_i], the probability they give to i's predicted class.

    With ``cosine`` each term is weighted by the cosine similarity of p_i and p_j. Needs one number
    per neighbour entry: classes × entries are never held in memory at once.

    Examples
    --------
    >>> import torch
    >>> graph = Graph.from_edges([[0], [1]], num_nodes=3)
    >>> p = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    >>> support(p, p.argmax(1), graph).tolist()
    [0.2, 0.1, 0.0]
    """
    rows = graph.rows()
    terms = probs[graph.indices, predicted[rows]]
    if cosine and graph.num_entries:
        direction = probs / probs.norm(dim=1, keepdim=True)
        terms = terms * products(Csr.of(graph), direction, direction)
    return row_sums(terms, graph.indptr)
