"""WATS: wavelets against dense spectral algebra, and what the network recovers."""

import numpy as np
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F

from simi_mailbox.calibrators.temperature import TemperatureScaling
from simi_mailbox.calibrators.wats import WATS, kernel_coefficients, wavelet_features
from simi_mailbox.graph import Graph

from .problems import homophilous, problem


def dense_laplacian(graph):
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    adjacency[graph.rows().numpy(), graph.indices.numpy()] = 1
    degree = adjacency.sum(1)
    root = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1)), 0)
    return np.diag((degree > 0) * 1.0) - root[:, None] * adjacency * root


def graph_with_isolated_nodes():
    edges = np.random.default_rng(0).integers(0, 18, size=(2, 40))
    return Graph.from_edges(edges, 20)


def test_heat_coefficients_sum_to_the_heat_kernel():
    graph, s, order = graph_with_isolated_nodes(), 1.7, 25
    laplacian = dense_laplacian(graph)
    x = np.log1p(np.maximum(2 * graph.degree.numpy(), 1e-6))
    shifted = laplacian - np.eye(20)
    terms = [x, shifted @ x]
    for _ in range(2, order + 1):
        terms.append(2 * shifted @ terms[-1] - terms[-2])
    a = kernel_coefficients(order, s, "heat").numpy()
    expected = scipy.linalg.expm(-s * laplacian) @ x
    np.testing.assert_allclose((np.stack(terms, 1) * a).sum(1), expected, atol=1e-10)
    # and the features are those terms, row by row divided by their absolute sum
    weighted = np.stack(terms, 1) * a
    weighted /= np.abs(weighted).sum(1, keepdims=True)
    np.testing.assert_allclose(wavelet_features(graph, order, s, "heat"), weighted, atol=1e-10)


@pytest.mark.parametrize("order", [0, 1, 4])
def test_features_are_finite_and_of_unit_sum_also_without_edges(order):
    for graph in (graph_with_isolated_nodes(), Graph.empty(1), Graph.empty(3)):
        features = wavelet_features(graph, order, 0.4, "exponential")
        assert features.shape == (graph.num_nodes, order + 1)
        torch.testing.assert_close(features.abs().sum(1), torch.ones(graph.num_nodes).double())


def test_reaches_the_oracle_when_temperature_follows_the_wavelets():
    logits, _ = homophilous(3000)
    generator = torch.Generator().manual_seed(0)
    hubs = torch.randint(600, (6000,), generator=generator)
    others = torch.randint(3000, (6000,), generator=generator)
    graph = Graph.from_edges(torch.stack([hubs, others]), 3000)
    seen = wavelet_features(graph, 4, 0.4, "exponential").float()[:, 1]
    case = problem(logits, graph, F.softplus(50 * (seen - seen.mean()) + 1) + 0.2)
    assert case.cost(TemperatureScaling()) > 1.02
    assert case.cost(WATS(dropout=0.0, lr=0.05, epochs=300), graph=graph) < 1.02


def test_temperatures_follow_the_formula_and_ignore_the_logits():
    logits, graph = homophilous(60)
    cal = WATS(epochs=5).fit(logits, logits.argmax(1), graph=graph, mask=torch.arange(30))
    features = wavelet_features(graph, 4, 0.4, "exponential").float()
    w = cal.weights_
    units = (features @ w["first.weight"].T + w["first.bias"]).relu()
    expected = F.softplus(units @ w["second.weight"].T + w["second.bias"]).flatten() + 1e-6
    torch.testing.assert_close(cal.node_temperatures(logits, graph=graph), expected)
    assert torch.equal(
        cal.node_temperatures(-logits, graph=graph), cal.node_temperatures(logits, graph=graph)
    )
