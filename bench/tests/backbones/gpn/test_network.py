"""The posterior network: PageRank against dense linear algebra, evidence, entropy and loss."""

import networkx as nx
import numpy as np
import pytest
import torch

from simi_mailbox.graph import Graph
from simi_mailbox.sparse import normalised_adjacency
from simi_mailbox_bench.backbones.gpn import (
    GPN,
    GPNPrediction,
    GPNSettings,
    dirichlet_entropy,
    personalised_pagerank,
    posterior_loss,
)


def random_graph(n: int = 12, seed: int = 0) -> Graph:
    edges = np.array(nx.gnp_random_graph(n, 0.3, seed=seed).edges()).T
    return Graph.from_edges(edges, n)


def dense(graph: Graph) -> np.ndarray:
    matrix = np.eye(graph.num_nodes)
    source, target = graph.edge_index().numpy()
    matrix[target, source] = 1.0
    scale = 1 / np.sqrt(matrix.sum(axis=1))
    return scale[:, None] * matrix * scale[None, :]


def test_many_steps_reach_the_closed_form() -> None:
    graph = random_graph()
    values = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    adjacency = normalised_adjacency(graph, torch.float64)
    spread = personalised_pagerank(values, adjacency, teleport=0.2, steps=200)
    exact = 0.2 * np.linalg.solve(np.eye(12) - 0.8 * dense(graph), values.numpy())
    np.testing.assert_allclose(spread.numpy(), exact, atol=1e-12)


def test_no_step_and_full_teleport_leave_values_alone() -> None:
    values = torch.rand(12, 2, generator=torch.Generator().manual_seed(0))
    adjacency = normalised_adjacency(random_graph())
    assert torch.equal(personalised_pagerank(values, adjacency, teleport=0.1, steps=0), values)
    full = personalised_pagerank(values, adjacency, teleport=1.0, steps=5)
    torch.testing.assert_close(full, values)


def test_evidence_falls_with_hops_from_its_source() -> None:
    path = Graph.from_edges([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]])
    source = torch.zeros(6, 1)
    source[0] = 1.0
    spread = personalised_pagerank(source, normalised_adjacency(path), teleport=0.2, steps=10)
    assert bool((spread[:-1, 0] > spread[1:, 0]).all())


def test_gradient_agrees_with_finite_differences() -> None:
    adjacency = normalised_adjacency(random_graph(6), torch.float64)
    values = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda v: personalised_pagerank(v, adjacency, teleport=0.3, steps=3), (values,)
    )


@pytest.mark.parametrize("teleport", [0.0, -0.1, 1.5])
def test_refuses_a_teleport_outside_its_range(teleport: float) -> None:
    adjacency = normalised_adjacency(Graph.empty(2))
    with pytest.raises(ValueError, match="teleport must be in"):
        personalised_pagerank(torch.ones(2, 1), adjacency, teleport=teleport, steps=1)


def test_evidence_counts_pseudo_observations() -> None:
    prediction = GPNPrediction(torch.tensor([[3.0, 1.0, 1.0]]), torch.zeros(1))
    assert prediction.evidence.item() == 2.0
    assert prediction.probs.tolist()[0] == pytest.approx([0.6, 0.2, 0.2])


@pytest.mark.parametrize("alpha", [[1.0, 1.0, 1.0], [2.5, 0.7, 30.0], [900.0, 80.0, 7.0]])
def test_entropy_agrees_with_torch(alpha: list[float]) -> None:
    given = torch.tensor([alpha], dtype=torch.float64)
    expected = torch.distributions.Dirichlet(given).entropy()
    torch.testing.assert_close(dirichlet_entropy(given), expected)


def test_entropy_of_a_large_total_is_close_to_the_exact_one() -> None:
    given = torch.tensor([[20_000.0, 3_000.0, 7_000.0]], dtype=torch.float64)
    expected = torch.distributions.Dirichlet(given).entropy()
    torch.testing.assert_close(dirichlet_entropy(given), expected, atol=1e-3, rtol=0)


def test_loss_is_the_expected_cross_entropy() -> None:
    alpha = torch.tensor([[4.0, 2.0, 1.5]], dtype=torch.float64)
    torch.manual_seed(0)
    draws = torch.distributions.Dirichlet(alpha[0]).sample((200_000,))
    expected = -draws[:, 1].log().mean().item()
    loss = posterior_loss(alpha, torch.tensor([1]), entropy_weight=0.0)
    assert loss.item() == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("name", "value"), [("latent_dim", 0), ("dropout", 1.0), ("teleport", 0.0), ("patience", 0)]
)
def test_settings_are_checked(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        GPNSettings(**{name: value})


def test_eval_mode_is_deterministic() -> None:
    model = GPN(3, torch.zeros(2), GPNSettings(), seed=0).eval()
    points = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.encode(points), model.encode(points))
    model.train()
    assert not torch.equal(model.encode(points), model.encode(points))
