"""Personalised PageRank against dense linear algebra."""

import networkx as nx
import numpy as np
import pytest
import torch

from simi_mailbox.graph import Graph
from simi_mailbox.models.gpn import personalised_pagerank, symmetric_adjacency
from simi_mailbox.models.ops import Csr
from simi_mailbox.models.plan import symmetric_normalised


def random_graph(n: int = 12, seed: int = 0) -> Graph:
    edges = np.array(nx.gnp_random_graph(n, 0.3, seed=seed).edges()).T
    return Graph.from_edges(edges, n)


def dense(graph: Graph) -> np.ndarray:
    matrix = np.eye(graph.num_nodes)
    source, target = graph.edge_index().numpy()
    matrix[target, source] = 1.0
    scale = 1 / np.sqrt(matrix.sum(axis=1))
    return scale[:, None] * matrix * scale[None, :]


def double(graph: Graph) -> Csr:
    """The adjacency in double precision, so that algebra can be checked tightly."""
    return Csr.from_scipy(symmetric_normalised(graph, np.float64), symmetric=True)


def test_adjacency_is_the_normalised_matrix_with_self_loops() -> None:
    graph = random_graph()
    made = symmetric_adjacency(graph).tensor.to_dense().numpy()
    np.testing.assert_allclose(made, dense(graph), atol=1e-7)


def test_many_steps_reach_the_closed_form() -> None:
    graph = random_graph()
    values = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    adjacency = double(graph)
    spread = personalised_pagerank(values, adjacency, teleport=0.2, steps=200)
    exact = 0.2 * np.linalg.solve(np.eye(12) - 0.8 * dense(graph), values.numpy())
    np.testing.assert_allclose(spread.numpy(), exact, atol=1e-12)


def test_no_step_and_full_teleport_leave_values_alone() -> None:
    values = torch.rand(12, 2, generator=torch.Generator().manual_seed(0))
    adjacency = symmetric_adjacency(random_graph())
    assert torch.equal(personalised_pagerank(values, adjacency, teleport=0.1, steps=0), values)
    full = personalised_pagerank(values, adjacency, teleport=1.0, steps=5)
    torch.testing.assert_close(full, values)


def test_evidence_falls_with_hops_from_its_source() -> None:
    path = Graph.from_edges([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    source = torch.zeros(6, 1)
    source[0] = 1.0
    spread = personalised_pagerank(source, symmetric_adjacency(path), teleport=0.2, steps=10)
    assert bool((spread[:-1, 0] > spread[1:, 0]).all())


def test_gradient_agrees_with_finite_differences() -> None:
    adjacency = double(random_graph(6))
    values = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: personalised_pagerank(v, adjacency, teleport=0.3, steps=3), (values,)
    )


@pytest.mark.parametrize("teleport", [0.0, -0.1, 1.5])
def test_refuses_a_teleport_outside_its_range(teleport: float) -> None:
    adjacency = symmetric_adjacency(Graph.empty(2))
    with pytest.raises(ValueError, match="teleport must be in"):
        personalised_pagerank(torch.ones(2, 1), adjacency, teleport=teleport, steps=1)
