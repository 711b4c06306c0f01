"""A mini-batch with enough hops says what the whole graph says; one with too few is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import (
    APPNP,
    GAT,
    GCN,
    GIN,
    BatchNorm,
    ChebConv,
    GPSConv,
    GraphNorm,
    GraphSAGE,
    GraphSizeNorm,
    InstanceNorm,
    LayerNorm,
    MeanSubtractionNorm,
    PairNorm,
    SAGEConv,
    TopKPooling,
)
from torch_geometric.utils import k_hop_subgraph

from simi_mailbox import TemperatureScaling, calibrators, pyg
from simi_mailbox.pyg.batches import calibrator_hops, model_hops
from simi_mailbox.pyg.calls import call, evaluating
from tests.pyg.loaders import AllNeighbours

N = 3000
SEEDS = torch.arange(5, N, 300)


@pytest.fixture(scope="module")
def data() -> Data:
    """A ring with chords, so thin that a few hops do not reach all of it; classes are arcs."""
    rng = torch.Generator().manual_seed(0)
    node = torch.arange(N)
    near = torch.randint(0, N, (N // 2,), generator=rng)
    ring, chords = torch.stack([node, (node + 1) % N]), torch.stack([near, (near + 17) % N])
    edges = torch.cat([ring, chords, ring.flip(0), chords.flip(0)], dim=1).unique(dim=1)
    y = node // 60 % 4
    x = nn.functional.one_hot(y, 4) + 1.2 * torch.randn(N, 4, generator=rng)
    masks = {"number": node, "train_mask": node % 5 == 0, "val_mask": node % 5 == 1}
    return pyg.CountNeighbours()(Data(x, edges, y=y, **masks))


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    classes = {"gcn": GCN, "sage": GraphSAGE, "gat": GAT, "gin": GIN}
    return classes[kind](4, 8, num_layers=2, out_channels=4)


def trained(kind: str, data: Data) -> nn.Module:
    model = make(kind)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module", params=["gcn", "sage", "gat", "gin"])
def calibrated(request: pytest.FixtureRequest, data: Data) -> pyg.CalibratedModel:
    return pyg.calibrate(trained(request.param, data), data)


def cut(data: Data, hops: int) -> tuple[Data, Tensor]:
    subset, _, mapping, _ = k_hop_subgraph(SEEDS, hops, data.edge_index)
    assert len(subset) < N / 2, "the batch must not be the whole graph"
    return data.subgraph(subset), mapping


def test_a_subgraph_agrees_with_the_whole(calibrated: pyg.CalibratedModel, data: Data) -> None:
    batch, mapping = cut(data, calibrated.num_hops)
    expected = calibrated(data.x, data.edge_index)[SEEDS]
    torch.testing.assert_close(calibrated.seeds(batch, mapping), expected, atol=1e-5, rtol=0)


def test_a_hop_less_is_refused_and_would_be_wrong(
    calibrated: pyg.CalibratedModel, data: Data
) -> None:
    batch, mapping = cut(data, calibrated.num_hops - 1)
    with pytest.raises(ValueError, match="lack neighbours"):
        calibrated.seeds(batch, mapping)
    # What is wrong are logits two steps away, whose labels speak for the seeds.
    with evaluating(calibrated.model):
        whole, cut_off = call(calibrated.model, data), call(calibrated.model, batch)
    near, _, _, _ = k_hop_subgraph(SEEDS, 2, data.edge_index)
    place = {int(node): k for k, node in enumerate(batch.number)}
    found = cut_off[[place[int(node)] for node in near]]
    assert float((found - whole[near]).abs().max()) > 0.01


def test_a_loader_agrees_with_the_whole(calibrated: pyg.CalibratedModel, data: Data) -> None:
    mask = torch.zeros(N, dtype=torch.bool)
    mask[SEEDS] = True
    loader = AllNeighbours(data, [-1] * calibrated.num_hops, batch_size=4, input_nodes=mask)
    found = torch.cat([calibrated.seeds(in_disorder(batch)) for batch in loader])
    expected = calibrated(data.x, data.edge_index)[SEEDS]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def in_disorder(batch: Data) -> Data:
    """The same edges in another order, so that sums are rounded in another way."""
    order = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(0))
    batch.edge_index = batch.edge_index[:, order]
    return batch


def test_missing_neighbours_of_a_seed_are_found(data: Data) -> None:
    calibrated = pyg.calibrate(trained("sage", data), data)
    batch, mapping = cut(data, calibrated.num_hops)
    seed = int(mapping[0])
    first = int(batch.edge_index[0, batch.edge_index[1] == seed][0])
    kept = ~(torch.isin(batch.edge_index, torch.tensor([seed, first])).all(dim=0))
    batch.edge_index = batch.edge_index[:, kept]
    with pytest.raises(ValueError, match="lack neighbours"):
        calibrated.seeds(batch, mapping)


def test_what_cannot_be_checked_is_not_taken_on_trust(data: Data) -> None:
    calibrated = pyg.calibrate(trained("sage", data), data)
    batch, mapping = cut(data, calibrated.num_hops)
    with pytest.raises(TypeError, match="which nodes are seeds"):
        calibrated.seeds(batch)
    expected = calibrated.seeds(batch, mapping)
    del batch.num_neighbours
    with pytest.raises(ValueError, match=r"CountNeighbours\(\)"):
        calibrated.seeds(batch, mapping)
    torch.testing.assert_close(calibrated.seeds(batch, mapping, check=False), expected)


def test_hops_are_counted() -> None:
    hops = {kind: model_hops(make(kind)) for kind in ("gcn", "sage", "gat", "gin")}
    assert hops == {"gcn": 3, "sage": 2, "gat": 2, "gin": 2}
    assert model_hops(APPNP(K=10, alpha=0.1)) == 11
    assert pyg.CalibratedModel(make("sage"), TemperatureScaling()).num_hops == 2
    assert pyg.CalibratedModel(nn.Linear(2, 2)).num_hops == 2


class Own(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize("model", [ChebConv(4, 4, K=3), Own()])
def test_strange_layers_must_be_counted_by_their_user(model: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"cannot tell how far \w+ looks.*num_hops=…"):
        _ = pyg.CalibratedModel(model).num_hops
    assert pyg.CalibratedModel(model, num_hops=2).num_hops == 4


class With(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.conv, self.part = SAGEConv(4, 4), part

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.part(self.conv(x, edge_index))


WHOLE = [
    GPSConv(4, None, heads=2), GraphNorm(4), PairNorm(), LayerNorm(4), InstanceNorm(4),
    MeanSubtractionNorm(), BatchNorm(4, track_running_stats=False), TopKPooling(4),
    GraphSizeNorm(),
]  # fmt: skip


@pytest.mark.parametrize("part", WHOLE, ids=lambda part: type(part).__name__)
def test_parts_that_look_at_the_whole_graph_are_refused(part: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"looks at the whole graph.*from_logits"):
        model_hops(With(part))


@pytest.mark.parametrize("part", [LayerNorm(4, mode="node"), nn.LayerNorm(4), BatchNorm(4)])
def test_parts_that_look_at_a_node_alone_are_not(part: nn.Module) -> None:
    assert model_hops(With(part)) == 1


@pytest.mark.parametrize("method", ["gats", "cagcn", "wats"])
def test_methods_that_look_at_the_whole_graph_say_so(method: str) -> None:
    with pytest.raises(ValueError, match=r"looks at the whole graph.*from_logits"):
        calibrator_hops(calibrators.get(method)())


def test_counted_neighbours_are_those_of_calibrators() -> None:
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 1, 1, 3]])
    counted: Any = pyg.CountNeighbours()(Data(edge_index=edges, num_nodes=5))
    assert counted.num_neighbours.tolist() == [1, 2, 2, 1, 0]
