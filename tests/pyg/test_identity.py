"""Labels of ``fit`` reach the nodes that they belong to, or nobody, and then a warning says so."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import k_hop_subgraph

from simi_mailbox import calibrators, pyg
from simi_mailbox.exceptions import CalibrationWarning
from tests.pyg.loaders import AllNeighbours, same, trained

SIDE, K = 30, 3
N = SIDE * SIDE
UNKNOWN = 10**6  # ids that no node has


def image(seed):
    """A grid whose classes are stripes, in another direction and place in every image."""
    rng = torch.Generator().manual_seed(seed)
    row, column = torch.arange(N) // SIDE, torch.arange(N) % SIDE
    y = ((row if seed % 2 else column) // 4 + seed) % K
    right = torch.stack([torch.arange(N), torch.arange(N) + 1])[:, column < SIDE - 1]
    down = torch.stack([torch.arange(N), torch.arange(N) + SIDE])[:, row < SIDE - 1]
    edges = torch.cat([right, down, right.flip(0), down.flip(0)], dim=1)
    x = nn.functional.one_hot(y, K) + 0.9 * torch.randn(N, K, generator=rng)
    mask = torch.zeros(N, dtype=torch.bool)
    mask[torch.randperm(N, generator=rng)[:300]] = True
    return Data(x, edges, y=y, val_mask=mask)


def renumbered(data):
    order = torch.randperm(N, generator=torch.Generator().manual_seed(5))
    place = order.argsort()
    rows = {name: data[name][order] for name in ("x", "y", "node_ids") if name in data}
    return Data(edge_index=place[data.edge_index], **rows), place


def grown(data):
    """Fifty new nodes come first, each joined to two others; all others move up."""
    new, rng = 50, torch.Generator().manual_seed(6)
    ends = torch.randint(new, N + new, (2 * new,), generator=rng)
    joined = torch.stack([torch.arange(new).repeat(2), ends])
    edges = torch.cat([data.edge_index + new, joined, joined.flip(0)], dim=1)
    later = Data(torch.cat([torch.randn(new, K, generator=rng), data.x]), edges)
    if "node_ids" in data:
        later.node_ids = torch.cat([torch.arange(new) + 5 * N, data.node_ids])
    return later, torch.arange(N) + new


def measured_again(data):
    later = copy.copy(data)
    later.x = data.x + 0.3 * torch.randn(N, K, generator=torch.Generator().manual_seed(7))
    return later, torch.arange(N)


def another(data):
    """Another image of the same grid."""
    later = image(2)
    if "node_ids" in data:
        later.node_ids = torch.arange(N) + 10 * N
    return later, None


def unchanged(data):
    return copy.copy(data), torch.arange(N)


def with_ids(data):
    data.node_ids = 3 * torch.arange(data.num_nodes).flip(0) + 7
    return data


@pytest.mark.parametrize("mini_batches", [False, True], ids=["whole", "mini-batches"])
@pytest.mark.parametrize("ids", [False, True], ids=["no ids", "ids"])
@pytest.mark.parametrize("method", ["simi-mailbox", "simi-mailbox-free"])
@pytest.mark.parametrize("change", [unchanged, another, renumbered, grown, measured_again])
def test_labels_reach_their_nodes_or_nobody(change, method, ids, mini_batches, model):
    fitted = with_ids(image(1)) if ids else image(1)
    later, place = change(fitted)  # and where the nodes of the graph are now
    calibrated = pyg.calibrate(model, fitted, calibrator=calibrators.get(method)())
    told = ids or change is unchanged
    labelled = fitted.val_mask.nonzero().flatten() if told and place is not None else []
    nodes = torch.empty(0).long() if place is None else place[labelled]
    y = fitted.y[labelled]
    given = calibrated.inputs_on(later) | {"known": (nodes, y)}
    given["node_ids"] = torch.arange(later.num_nodes) + UNKNOWN
    expected = calibrated.from_logits(**given).exp()
    found, said = run(calibrated, later, mini_batches)
    same(found.exp(), expected, atol=1e-5)
    assert said == (not told)
    if len(nodes):  # or the test could not fail
        given["known"] = None
        assert float((calibrated.from_logits(**given).exp() - expected).abs().max()) > 0.05


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    data = image(3)
    data.train_mask = torch.ones(N, dtype=torch.bool)
    return trained(GraphSAGE(K, 8, num_layers=2, out_channels=K), data, epochs=60)


def run(calibrated, data, mini_batches):
    """Log-probabilities of all nodes, and whether a warning named node_ids."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if mini_batches:
            counted = pyg.CountNeighbours()(data)
            loader = AllNeighbours(counted, [-1] * calibrated.num_hops, batch_size=500)
            found = torch.cat([calibrated.seeds(batch) for batch in loader])
        else:
            found = calibrated.on(data)
    return found, any("node_ids" in str(one.message) for one in caught)


def test_numbers_of_a_graph_that_changed_since_they_were_written(model):
    data = pyg.CountNeighbours()(image(1))
    calibrated = pyg.calibrate(model, data)
    changed = copy.copy(data)
    changed.x = image(2).x  # what was counted is that of the other image
    seeds = torch.tensor([400, 401])

    def batch_of(data, hops):
        subset, _, mapping, _ = k_hop_subgraph(seeds, hops, data.edge_index)
        return data.subgraph(subset), mapping

    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrationWarning)
        calibrated.seeds(*batch_of(data, calibrated.num_hops))
    with pytest.warns(CalibrationWarning):
        calibrated.seeds(*batch_of(changed, calibrated.num_hops))
    more = copy.copy(data)
    more.edge_index = torch.cat([data.edge_index, torch.tensor([[400, 450], [450, 400]])], dim=1)
    with pytest.raises(ValueError, match=r"more neighbours than CountNeighbours.. has counted"):
        calibrated.seeds(*batch_of(more, calibrated.num_hops))


def test_numbers_of_a_loader_alone_prove_nothing(model):
    data = image(1)
    calibrated = pyg.calibrate(model, data)
    (batch,) = AllNeighbours(data, [-1] * calibrated.num_hops, batch_size=N)
    batch.edge_index = batch.edge_index[:, :-2]  # not the whole graph
    with pytest.warns(CalibrationWarning, match="node_ids"):
        nobody = calibrated.seeds(batch, check=False)
    insisted = calibrated.on(batch, node_ids=batch.n_id)
    assert float((nobody - insisted).abs().max()) > 0.05


def test_ids_survive_the_state_and_are_strings_as_well(model):
    data = image(1)
    data.node_ids = np.array([f"pixel {node}" for node in range(N)])
    calibrated = pyg.calibrate(model, data)
    again = pyg.CalibratedModel(copy.deepcopy(model))
    again.load_state_dict(calibrated.state_dict())
    later, _ = grown(image(1))
    later.node_ids = np.array([f"new {node}" for node in range(50)] + data.node_ids.tolist())
    found, said = run(again, later, mini_batches=True)
    assert not said
    same(found, calibrated.on(later), atol=1e-5)
