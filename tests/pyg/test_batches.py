"""A mini-batch with enough hops says what the whole graph says; one with too few is refused."""

import pytest
import torch
from torch import nn
from torch_geometric import nn as gnn
from torch_geometric.data import Data
from torch_geometric.utils import k_hop_subgraph

from simi_mailbox import TemperatureScaling, calibrators, pyg
from tests.pyg.loaders import AllNeighbours, same, trained

N = 3000
SEEDS = torch.arange(5, N, 300)


@pytest.fixture(scope="module")
def data():
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


def make(kind):
    torch.manual_seed(0)
    classes = {"gcn": gnn.GCN, "sage": gnn.GraphSAGE, "gat": gnn.GAT, "gin": gnn.GIN}
    return classes[kind](4, 8, num_layers=2, out_channels=4)


@pytest.fixture(scope="module", params=["gcn", "sage", "gat", "gin"])
def calibrated(request, data):
    return pyg.calibrate(trained(make(request.param), data), data)


def cut(data, hops):
    subset, _, mapping, _ = k_hop_subgraph(SEEDS, hops, data.edge_index)
    assert len(subset) < N / 2, "the batch must not be the whole graph"
    return data.subgraph(subset), mapping


def test_mini_batches_agree_with_the_whole(calibrated, data):
    expected = calibrated(data.x, data.edge_index)[SEEDS]
    batch, mapping = cut(data, calibrated.num_hops)
    same(calibrated.seeds(batch, mapping), expected, atol=1e-5)
    mask = torch.zeros(N, dtype=torch.bool)
    mask[SEEDS] = True
    loader = AllNeighbours(data, [-1] * calibrated.num_hops, batch_size=4, input_nodes=mask)
    found = torch.cat([calibrated.seeds(in_disorder(batch)) for batch in loader])
    same(found, expected, atol=1e-5)


def test_a_hop_less_is_refused_and_would_be_wrong(calibrated, data):
    batch, mapping = cut(data, calibrated.num_hops - 1)
    with pytest.raises(ValueError, match="lack neighbours"):
        calibrated.seeds(batch, mapping)
    # What is wrong are logits two steps away, whose labels speak for the seeds.
    whole, cut_off = (calibrated.inputs_on(part)["logits"] for part in (data, batch))
    near, _, _, _ = k_hop_subgraph(SEEDS, 2, data.edge_index)
    place = {int(node): k for k, node in enumerate(batch.number)}
    found = cut_off[[place[int(node)] for node in near]]
    assert float((found - whole[near]).abs().max()) > 0.01


def in_disorder(batch):
    """The same edges in another order, so that sums are rounded in another way."""
    order = torch.randperm(batch.num_edges, generator=torch.Generator().manual_seed(0))
    batch.edge_index = batch.edge_index[:, order]
    return batch


def test_what_is_missing_or_cannot_be_checked_is_refused(data):
    calibrated = pyg.calibrate(trained(make("sage"), data), data)
    batch, mapping = cut(data, calibrated.num_hops)
    with pytest.raises(TypeError, match="which nodes are seeds"):
        calibrated.seeds(batch)
    expected = calibrated.seeds(batch, mapping)
    lacking, seed = batch.clone(), int(mapping[0])
    first = int(batch.edge_index[0, batch.edge_index[1] == seed][0])
    between = torch.isin(batch.edge_index, torch.tensor([seed, first])).all(dim=0)
    lacking.edge_index = batch.edge_index[:, ~between]
    with pytest.raises(ValueError, match="lack neighbours"):
        calibrated.seeds(lacking, mapping)
    del batch.num_neighbours
    with pytest.raises(ValueError, match=r"CountNeighbours\(\)"):
        calibrated.seeds(batch, mapping)
    torch.testing.assert_close(calibrated.seeds(batch, mapping, check=False), expected)


class With(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.conv, self.part = gnn.SAGEConv(4, 4), part

    def forward(self, x, edge_index):
        return self.part(self.conv(x, edge_index))


HOPS = [(make("gcn"), 3), (make("sage"), 2), (make("gat"), 2), (make("gin"), 2)]
HOPS += [(gnn.APPNP(K=10, alpha=0.1), 11), (nn.Linear(2, 2), 0)]
HOPS += [(With(part), 1) for part in (gnn.LayerNorm(4, mode="node"), nn.LayerNorm(4))]
HOPS += [(With(gnn.BatchNorm(4)), 1)]


@pytest.mark.parametrize(("model", "hops"), HOPS)
def test_hops_are_counted(model, hops):
    assert pyg.CalibratedModel(model, TemperatureScaling()).num_hops == hops
    assert pyg.CalibratedModel(model).num_hops == hops + 2


OWN = type("Own", (nn.Module,), {"forward": lambda self, x, edge_index: x})()
STRANGE = r"cannot tell how far \w+ looks.*num_hops=…"
WHOLE = "looks at the whole graph.*from_logits"
REFUSED = [(gnn.ChebConv(4, 4, K=3), None, STRANGE), (OWN, None, STRANGE)]
REFUSED += [
    (With(part), None, WHOLE)
    for part in (
        gnn.BatchNorm(4, track_running_stats=False),
        gnn.GPSConv(4, None, heads=2),
        *(kind() for kind in (gnn.GraphSizeNorm, gnn.MeanSubtractionNorm, gnn.PairNorm)),
        *(kind(4) for kind in (gnn.GraphNorm, gnn.InstanceNorm, gnn.LayerNorm, gnn.TopKPooling)),
    )
]
REFUSED += [(make("gcn"), method, WHOLE) for method in ("gats", "cagcn", "wats")]


@pytest.mark.parametrize(("model", "method", "message"), REFUSED)
def test_what_cannot_be_counted_is_refused(model, method, message):
    calibrator = None if method is None else calibrators.get(method)()
    with pytest.raises(ValueError, match=message):
        _ = pyg.CalibratedModel(model, calibrator).num_hops
    if message == STRANGE:  # its user may count
        assert pyg.CalibratedModel(model, num_hops=2).num_hops == 4


def test_counted_neighbours_are_those_of_calibrators():
    edges = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 1, 1, 3]])
    counted = pyg.CountNeighbours()(Data(edge_index=edges, num_nodes=5))
    assert counted.num_neighbours.tolist() == [1, 2, 2, 1, 0]
