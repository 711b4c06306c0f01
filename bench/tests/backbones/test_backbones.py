"""Every backbone computes what PyG's layers compute with the same weights."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from simi_mailbox.graph import Graph
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import build
from simi_mailbox_bench.datasets import NodeDataset

pyg = pytest.importorskip("torch_geometric.nn", reason="PyG is the reference here")

NODES, WIDE, CLASSES = 60, 30, 4
Layers = tuple[nn.Module, nn.Module]


@pytest.fixture(scope="module")
def graph() -> Graph:
    # Nodes 50.. have no edge; node 0 has many.
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 50, (2, 150))
    edges[0, :30] = 0
    return Graph.from_edges(edges, NODES)


@pytest.fixture(params=[0.1, 0.9], ids=["sparse", "dense"])
def x(request: pytest.FixtureRequest) -> Features:
    return Features(sp.random_array((NODES, WIDE), density=request.param, rng=1, format="csr"))


def dense(x: Features) -> Tensor:
    return x @ torch.eye(WIDE)


def copy(target: nn.Module, **values: Tensor) -> None:
    with torch.no_grad():
        for name, value in values.items():
            parameter = target.get_parameter(name.replace("__", "."))
            parameter.copy_(value.reshape(parameter.shape))


def gcn_layers(w: dict[str, Tensor]) -> Layers:
    layers = pyg.GCNConv(WIDE, 64), pyg.GCNConv(64, CLASSES)
    for k, layer in enumerate(layers):
        copy(layer, lin__weight=w[f"weight{k}"].T, bias=w[f"bias{k}"])
    return layers


def gat_layers(w: dict[str, Tensor]) -> Layers:
    layers = pyg.GATConv(WIDE, 8, heads=8), pyg.GATConv(64, CLASSES, heads=1, concat=False)
    for k, layer in enumerate(layers):
        copy(
            layer,
            lin__weight=w[f"weight{k}"].T,
            bias=w[f"bias{k}"],
            att_src=w[f"source{k}"],
            att_dst=w[f"target{k}"],
        )
    return layers


def sage_layers(w: dict[str, Tensor]) -> Layers:
    layers = pyg.SAGEConv(WIDE, 64), pyg.SAGEConv(64, CLASSES)
    for k, layer in enumerate(layers):
        copy(
            layer,
            lin_l__weight=w[f"weight{k}"].T,
            lin_l__bias=w[f"bias{k}"],
            lin_r__weight=w[f"own{k}"].T,
        )
    return layers


def gin_layers(w: dict[str, Tensor]) -> Layers:
    layers = tuple(
        pyg.GINConv(nn.Sequential(nn.Linear(wide, 64), nn.ReLU(), nn.Linear(64, narrow)))
        for wide, narrow in ((WIDE, 64), (64, CLASSES))
    )
    # GINConv draws the weights of the network it is given anew: copy only now.
    for k, layer in enumerate(layers):
        for part, place in enumerate((0, 2)):
            copy(layer.nn[place], weight=w[f"weight{k}{part}"].T, bias=w[f"bias{k}{part}"])
    return layers[0], layers[1]


REFERENCE: dict[str, tuple[Callable[[dict[str, Tensor]], Layers], Callable[[Tensor], Tensor]]] = {
    "gcn": (gcn_layers, torch.relu),
    "gat": (gat_layers, nn.functional.elu),
    "sage": (sage_layers, torch.relu),
    "gin": (gin_layers, torch.relu),
}


@pytest.mark.parametrize("backbone", REFERENCE)
@pytest.mark.parametrize("targets", [None, [3, 0, 55, 17]], ids=["all nodes", "some nodes"])
def test_forward_equals_pyg(
    backbone: str, targets: list[int] | None, graph: Graph, x: Features
) -> None:
    model = build(backbone, WIDE, CLASSES, seed=3)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(5)))
    make, activation = REFERENCE[backbone]
    first, second = make(dict(model.state_dict()))
    edges = graph.edge_index()
    expected = second(activation(first(dense(x), edges)), edges)
    nodes = None if targets is None else torch.tensor(targets)
    steps = model.plan(graph, nodes)
    ours = model.finish(model.stem(x.rows(steps.inputs), steps), steps)
    torch.testing.assert_close(
        ours, expected if nodes is None else expected[nodes], atol=1e-5, rtol=1e-4
    )


@pytest.mark.parametrize("backbone", REFERENCE)
def test_gradient_equals_pyg(backbone: str, graph: Graph, x: Features) -> None:
    model = build(backbone, WIDE, CLASSES, seed=3)
    make, activation = REFERENCE[backbone]
    first, second = make(dict(model.state_dict()))
    edges, nodes = graph.edge_index(), torch.tensor([3, 0, 55, 17])
    y = torch.tensor([0, 1, 2, 3])
    expected = second(activation(first(dense(x), edges)), edges)[nodes]
    nn.functional.cross_entropy(expected, y).backward()
    steps = model.plan(graph, nodes)
    ours = model.finish(model.stem(x.rows(steps.inputs), steps), steps)
    nn.functional.cross_entropy(ours, y).backward()
    reference = sorted(p.grad.norm().item() for m in (first, second) for p in m.parameters())
    mine = sorted(p.grad.norm().item() for p in model.parameters() if p.grad is not None)
    assert len(mine) == len(reference)
    np.testing.assert_allclose(mine, reference, rtol=1e-3, atol=1e-7)


def test_gcn_edge_weights_equal_pyg(graph: Graph, x: Features) -> None:
    model = build("gcn", WIDE, CLASSES, seed=3)
    first, second = gcn_layers(dict(model.state_dict()))
    weight = torch.rand(graph.num_entries, generator=torch.Generator().manual_seed(0))
    weight.requires_grad_()
    edges = graph.edge_index()
    expected = second(torch.relu(first(dense(x), edges, weight)), edges, weight)
    (wanted,) = torch.autograd.grad(expected.square().sum(), weight)
    ours = model(x, graph, weight)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-4)
    (got,) = torch.autograd.grad(ours.square().sum(), weight)
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_unit_edge_weights_change_nothing(backbone: str, graph: Graph, x: Features) -> None:
    model = build(backbone, WIDE, CLASSES, seed=3)
    weighted = model(x, graph, torch.ones(graph.num_entries))
    torch.testing.assert_close(weighted, model(x, graph), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("backbone", ["gcn", "sage"])
def test_what_a_frozen_model_remembers_is_of_the_right_graph(backbone: str, graph: Graph) -> None:
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


def test_three_layers_equal_pyg(graph: Graph, x: Features) -> None:
    model = build("gcn", WIDE, CLASSES, Settings(layers=3, hidden=16), seed=0)
    layers = pyg.GCNConv(WIDE, 16), pyg.GCNConv(16, 16), pyg.GCNConv(16, CLASSES)
    w = dict(model.state_dict())
    hidden, edges = dense(x), graph.edge_index()
    for k, layer in enumerate(layers):
        copy(layer, lin__weight=w[f"weight{k}"].T, bias=w[f"bias{k}"])
        hidden = layer(hidden if k == 0 else torch.relu(hidden), edges)
    torch.testing.assert_close(model(x, graph), hidden, atol=1e-5, rtol=1e-4)
