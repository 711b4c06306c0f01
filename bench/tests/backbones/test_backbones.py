"""Every backbone computes what PyG's layers compute with the same weights, at any nodes."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from pyg_networks import LAYERS, pyg_network
from simi_mailbox.graph import Graph
from simi_mailbox.sparse import Csr
from simi_mailbox_bench.backbones import attention
from simi_mailbox_bench.backbones.attention import attend_additively, stacked
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.networks import mean_normalised, plan, symmetric_normalised
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import build
from simi_mailbox_bench.datasets import NodeDataset

NODES, WIDE, CLASSES = 60, 30, 4
SOME = torch.tensor([3, 0, 55, 17])


@pytest.fixture(scope="module")
def graph():
    # Nodes 50.. have no edge; node 0 has many.
    edges = np.random.default_rng(0).integers(0, 50, (2, 150))
    edges[0, :30] = 0
    return Graph.from_edges(edges, NODES)


@pytest.fixture(params=[0.1, 0.9], ids=["sparse", "dense"])
def x(request):
    return Features(sp.random_array((NODES, WIDE), density=request.param, rng=1, format="csr"))


def both(backbone, layers=2):
    """A model of ours, its weights moved from their initial values, and PyG's."""
    hidden = 64 if layers == 2 else 16
    model = build(backbone, WIDE, CLASSES, Settings(layers=layers, hidden=hidden), seed=3)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(5)))
    return model, *pyg_network(backbone, model, (WIDE, *[hidden] * (layers - 1), CLASSES))


@pytest.mark.parametrize(("backbone", "layers"), [*((name, 2) for name in LAYERS), ("gcn", 3)])
@pytest.mark.parametrize("nodes", [None, SOME], ids=["all nodes", "some nodes"])
def test_output_and_gradient_equal_pygs(backbone, layers, nodes, graph, x):
    model, theirs, reference = both(backbone, layers)
    expected = theirs(x @ torch.eye(WIDE), graph.edge_index())
    expected = expected if nodes is None else expected[nodes]
    steps = model.plan(graph, nodes)
    ours = model.finish(model.stem(x.rows(steps.inputs), steps), steps)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
    y = torch.arange(len(ours)) % CLASSES
    norms = []
    for output, network in ((ours, model), (expected, reference)):
        nn.functional.cross_entropy(output, y).backward()
        norms.append(sorted(p.grad.norm().item() for p in network.parameters()))
    np.testing.assert_allclose(*norms, rtol=1e-3, atol=1e-7)


def test_gcn_edge_weights_equal_pyg(graph, x):
    model, theirs, _ = both("gcn")
    weight = torch.rand(graph.num_entries, generator=torch.Generator().manual_seed(0))
    weight.requires_grad_()
    expected = theirs(x @ torch.eye(WIDE), graph.edge_index(), weight)
    (wanted,) = torch.autograd.grad(expected.square().sum(), weight)
    ours = model(x, graph, weight)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
    (got,) = torch.autograd.grad(ours.square().sum(), weight)
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_what_a_frozen_model_remembers_is_of_the_right_graph(backbone, graph):
    """Products and patterns are kept between calls: asked in turns, two graphs stay apart."""
    random = torch.Generator().manual_seed(0)
    ring = Graph.from_edges([torch.arange(30), (torch.arange(30) + 1) % 30])
    model = build(backbone, WIDE, CLASSES, seed=3).requires_grad_(False)
    cases = []
    for given in (graph, ring):
        x = torch.rand(given.num_nodes, WIDE, generator=random).numpy()
        dataset = NodeDataset("any", given, x, np.zeros(given.num_nodes, dtype=int), CLASSES)
        weight = torch.rand(given.num_entries, generator=random)
        known = Features(x, row_normalise=model.settings.row_normalise)
        new = build(backbone, WIDE, CLASSES, seed=3)(known, given, weight)
        cases.append((model.on(dataset), weight, new))
    for forward, weight, expected in cases * 2:
        torch.testing.assert_close(forward(weight), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_plan_computes_exactly_the_rows_of_the_whole_product(layers, directed):
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(0, 80, (2, 90)), 80, directed=directed)
    matrix = mean_normalised(graph)
    x = torch.from_numpy(rng.normal(size=(80, 4)))
    expected = torch.linalg.matrix_power(matrix.tensor.to_dense().double(), layers) @ x
    targets = torch.tensor([5, 3, 79, 0])
    steps = plan(matrix.with_values(matrix.values.double()), layers, targets)
    got, own = x[steps.inputs], steps.inputs
    for layer in steps.layers:
        got, own = layer.matrix @ got, layer.at_targets(own)
    torch.testing.assert_close(got, expected[targets])
    assert own.tolist() == targets.tolist()
    assert steps.inputs.numel() < 80


def test_matrices_are_rounded_once_from_double_precision():
    # Cached logits hang on the last bit of these.
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 80, (2, 300)), 80)
    source, target = graph.edge_index().numpy()
    adjacency = np.zeros((80, 80))
    adjacency[target, source] = 1.0
    closed = adjacency + np.eye(80)
    scale = 1 / np.sqrt(closed.sum(axis=1))
    gcn = (scale[:, None] * scale[None, :] * closed).astype(np.float32)
    assert np.array_equal(symmetric_normalised(graph).tensor.to_dense().numpy(), gcn)
    mean = (adjacency / adjacency.sum(axis=1, keepdims=True).clip(1)).astype(np.float32)
    assert np.array_equal(mean_normalised(graph).tensor.to_dense().numpy(), mean)


def random_matrix(rows, columns):
    matrix = sp.random_array((rows, columns), density=0.4, rng=0, format="csr")
    return Csr.from_scipy(sp.csr_array(matrix + sp.eye_array(rows, columns)))  # no empty row


def leaf(*shape, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    value = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.requires_grad_()


# The scale of 60 sends exp() out of its safe range, so the shifted branch runs.
@pytest.mark.parametrize("scale", [1.0, 60.0], ids=["plain", "shifted"])
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_additive_attention_value_and_gradient(scale, dropout, heads):
    pattern = stacked(random_matrix(4, 6), heads)
    hidden = leaf(6 * heads, 2)
    source, target = leaf(6 * heads, seed=1, scale=scale), leaf(4 * heads, seed=2, scale=scale)
    signs, kept = None, torch.ones(pattern.num_entries, dtype=torch.float64)
    if dropout:
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(2, (pattern.num_entries,), generator=generator)
        signs, kept = 2 * drawn.double() - 1, 1.5 * drawn.double()
    assert attention._needs_shift(source, target) == (scale > 1)

    def ours(h, s, t):
        return attend_additively(pattern, h, s, t, signs=signs, scale=1.5 if dropout else 1.0)

    scores = torch.nn.functional.leaky_relu(target.unsqueeze(1) + source.unsqueeze(0), 0.2)
    present = pattern.filled(torch.ones_like(kept)).to_dense() > 0
    alpha = torch.softmax(scores.masked_fill(~present, -torch.inf), dim=1)
    expected = (alpha * pattern.filled(kept).to_dense()) @ hidden
    torch.testing.assert_close(ours(hidden, source, target), expected)
    assert torch.autograd.gradcheck(ours, (hidden, source, target), atol=1e-4)
