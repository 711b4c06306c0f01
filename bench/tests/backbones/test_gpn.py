"""Graph posterior networks: radial flows, PageRank, evidence and loss, and their training."""

import math

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

import toy_graph
from simi_mailbox.graph import Graph
from simi_mailbox.sparse import normalised_adjacency
from simi_mailbox_bench.backbones.gpn import (
    GPNSettings,
    RadialFlows,
    dirichlet_entropy,
    personalised_pagerank,
    posterior_loss,
    train_gpn,
)
from toy_graph import CLASSES


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def flows(num_flows, dim, num_layers, seed=0):
    """Flows far from their mild initial values, so that the tests see real distortion."""
    made = RadialFlows(num_flows, dim, num_layers, torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(1.5 * torch.randn(parameter.shape, generator=generator))
    return made.double()


@pytest.mark.parametrize(("dim", "reach", "count"), [(1, 40, 80_001), (2, 16, 801)])
def test_density_integrates_to_one(dim, reach, count):
    model = flows(3, dim=dim, num_layers=5)
    axis = torch.linspace(-reach, reach, count, dtype=torch.float64)
    with torch.no_grad():
        grid = torch.cartesian_prod(*[axis] * dim).reshape(-1, dim)
        total = model.log_prob(grid).exp().reshape(*[count] * dim, 3)
    for _ in range(dim):
        total = torch.trapezoid(total, axis, dim=0)
    np.testing.assert_allclose(total.numpy(), np.ones(3), atol=2e-3)


def test_a_flow_with_gamma_equal_to_alpha_is_the_standard_normal():
    model = flows(2, dim=3, num_layers=4)
    with torch.no_grad():
        model.raw_gamma.copy_(model.raw_alpha)
    points = drawn(20, 3)
    expected = -0.5 * (points.square().sum(1) + 3 * math.log(2 * math.pi))
    with torch.no_grad():
        log_prob = model.log_prob(points)
    np.testing.assert_allclose(log_prob.numpy(), expected.unsqueeze(1).expand(-1, 2).numpy())


def test_gradients_agree_with_finite_differences_and_are_finite_at_a_centre():
    model = flows(2, dim=3, num_layers=3)
    points = drawn(4, 3, seed=5)

    def outputs(z, *parameters):
        named = dict(zip(dict(model.named_parameters()), parameters, strict=True))
        images, log_det = torch.func.functional_call(model, named, (z,))
        return images, log_det

    inputs = (points.requires_grad_(), *model.parameters())
    assert torch.autograd.gradcheck(outputs, inputs)
    model = flows(1, dim=2, num_layers=2)
    point = model.centre[0].detach().clone().requires_grad_()
    model.log_prob(point).sum().backward()
    assert bool(torch.isfinite(point.grad).all())
    assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())


def random_graph(n=12, seed=0):
    edges = np.array(nx.gnp_random_graph(n, 0.3, seed=seed).edges()).T
    return Graph.from_edges(edges, n)


def dense(graph):
    matrix = np.eye(graph.num_nodes)
    source, target = graph.edge_index().numpy()
    matrix[target, source] = 1.0
    scale = 1 / np.sqrt(matrix.sum(axis=1))
    return scale[:, None] * matrix * scale[None, :]


def test_many_steps_reach_the_closed_form():
    graph = random_graph()
    values = drawn(12, 3)
    adjacency = normalised_adjacency(graph, torch.float64)
    spread = personalised_pagerank(values, adjacency, teleport=0.2, steps=200)
    exact = 0.2 * np.linalg.solve(np.eye(12) - 0.8 * dense(graph), values.numpy())
    np.testing.assert_allclose(spread.numpy(), exact, atol=1e-12)


@pytest.mark.parametrize(
    "alpha", [[1.0, 1, 1], [2.5, 0.7, 30], [900.0, 80, 7], [20_000.0, 3_000, 7_000]]
)
def test_entropy_agrees_with_torch(alpha):
    given = torch.tensor([alpha], dtype=torch.float64)
    expected = torch.distributions.Dirichlet(given).entropy()
    large = sum(alpha) > 10_000  # Stirling's form
    tolerance = {"atol": 1e-3, "rtol": 0} if large else {}
    torch.testing.assert_close(dirichlet_entropy(given), expected, **tolerance)


def test_loss_is_the_expected_cross_entropy():
    alpha = torch.tensor([[4.0, 2.0, 1.5]], dtype=torch.float64)
    torch.manual_seed(0)
    draws = torch.distributions.Dirichlet(alpha[0]).sample((200_000,))
    expected = -draws[:, 1].log().mean().item()
    loss = posterior_loss(alpha, torch.tensor([1]), entropy_weight=0.0)
    assert loss.item() == pytest.approx(expected, abs=0.01)


def toy():
    data, split = toy_graph.toy(120, noise=0.2, ends=(30, 60, 120))
    return 2 * data.x, data.graph, data.y, split


@pytest.fixture(scope="module")
def trained():
    x, graph, y, split = toy()
    # Rows are left as they are: normalised, a far point would come near again.
    settings = GPNSettings(max_epochs=80, row_normalise=False)
    return train_gpn(x, graph, y, split, settings=settings, seed=1)


def test_learns_separable_classes_and_gives_probabilities_and_their_logarithms(trained):
    x, graph, y, split = toy()
    found = trained.predict(x, graph)
    predicted = found.probs.argmax(dim=1).numpy()
    assert (predicted[split.test] == y[split.test]).mean() > 0.95
    torch.testing.assert_close(found.probs.sum(dim=1), torch.ones(x.shape[0]))
    torch.testing.assert_close(found.log_probs.exp(), found.probs)
    assert bool((found.alpha >= 1).all())
    x = np.where(np.abs(x) > 0.3, x, 0.0).astype(np.float32)
    dense, sparse = (trained.predict(kind(x), graph).probs for kind in (np.asarray, sp.csr_array))
    torch.testing.assert_close(sparse, dense, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="5 features per node, but the GPN was trained on 3"):
        trained.predict(np.ones((4, 5)), Graph.empty(4))


def test_evidence_falls_with_distance_from_the_data_to_even_probabilities(trained):
    x, _, _, _ = toy()
    centre = x.mean(axis=0)
    away = np.stack([centre + step * np.ones(CLASSES) for step in (2.0, 8.0, 32.0)])
    evidence = trained.predict(away.astype(np.float32), Graph.empty(3)).evidence
    known = trained.predict(x, Graph.empty(x.shape[0])).evidence
    assert evidence[0] > evidence[1] > evidence[2]
    assert evidence[2] < 0.01 * known.median()
    far = np.full((1, CLASSES), 1e4, dtype=np.float32)
    even = torch.full((1, CLASSES), 1 / CLASSES)
    torch.testing.assert_close(trained.predict(far, Graph.empty(1)).probs, even, atol=1e-6, rtol=0)


def test_same_seed_same_bits_whatever_the_labels_of_test_nodes():
    x, graph, y, split = toy()
    spoiled = y.copy()
    spoiled[split.test] = -7
    first, second, other = (
        train_gpn(x, graph, labels, split, settings=GPNSettings(max_epochs=5), seed=seed)
        .predict(x, graph)
        .alpha
        for labels, seed in ((y, 3), (spoiled, 3), (y, 4))
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_keeps_the_weights_of_the_best_epoch_and_tells_of_every_one():
    x, graph, y, split = toy()
    told: list[tuple[int, float]] = []
    settings = GPNSettings(max_epochs=400, patience=5)
    trained = train_gpn(
        x, graph, y, split, settings=settings, progress=lambda *scores: told.append(scores)
    )
    epochs, losses = zip(*told, strict=True)
    assert epochs == tuple(range(1, trained.epochs + 1))
    assert trained.epochs < 400
    assert trained.val_loss == min(losses)
    log_probs = trained.predict(x, graph).log_probs.numpy()[split.val]
    loss = -log_probs[np.arange(split.val.size), y[split.val]].mean()
    assert loss == pytest.approx(min(losses), rel=1e-5)


@pytest.mark.parametrize(
    ("classes", "message"),
    [(4, "class 3 has no training node"), (2, r"range over 0\.\.2; expected 0\.\.1")],
)
def test_refuses_another_number_of_classes(classes, message):
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match=message):
        train_gpn(x, graph, y, split, num_classes=classes)
