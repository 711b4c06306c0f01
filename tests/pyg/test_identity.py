"""Labels of ``fit`` reach the nodes that they belong to, or nobody, and then a warning says so."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE
from torch_geometric.utils import k_hop_subgraph

from simi_mailbox import calibrators, pyg
from simi_mailbox.exceptions import CalibrationWarning
from tests.pyg.loaders import AllNeighbours

SIDE, K = 30, 3
N = SIDE * SIDE
UNKNOWN = 10**6  # ids that no node has


def image(seed: int) -> Data:
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


def renumbered(data: Data) -> Data:
    """Node ``k`` is node ``order[k]`` of the other one."""
    order = torch.randperm(N, generator=torch.Generator().manual_seed(5))
    place = torch.empty_like(order)
    place[order] = torch.arange(N)
    changed = {name: data[name][order] for name in ("x", "y", "val_mask")}
    return Data(edge_index=place[data.edge_index], **changed, **cut_ids(data, order))


def grown(data: Data) -> Data:
    """Fifty new nodes come first, each joined to two others; all others move up."""
    new, rng = 50, torch.Generator().manual_seed(6)
    ends = torch.randint(new, N + new, (2 * new,), generator=rng)
    fresh = torch.stack([torch.arange(new).repeat(2), ends])
    edges = torch.cat([data.edge_index + new, fresh, fresh.flip(0)], dim=1)
    x = torch.cat([torch.randn(new, K, generator=rng), data.x])
    ids = {}
    if "node_ids" in data:
        ids = {"node_ids": torch.cat([torch.arange(new) + 5 * N, data.node_ids])}
    y = torch.cat([torch.zeros(new, dtype=torch.int64), data.y])
    return Data(x, edges, y=y, **ids)


def next_day(data: Data) -> Data:
    """The same nodes and edges, measured again."""
    later = copy.copy(data)
    later.x = data.x + 0.3 * torch.randn(N, K, generator=torch.Generator().manual_seed(7))
    return later


def cut_ids(data: Data, order: Tensor) -> dict[str, Tensor]:
    return {"node_ids": data.node_ids[order]} if "node_ids" in data else {}


LATER = {
    "the same": copy.copy,
    "another image of the same grid": lambda _: image(2),
    "renumbered": renumbered,
    "grown": grown,
    "next day": next_day,
}
# What must be known of the nodes so that the labels of fit are theirs.
NEEDS_IDS = {"the same": False, "renumbered": True, "grown": True, "next day": True}


def right_labels(fitted: Data, later: Data, case: str) -> tuple[Tensor, Tensor]:
    """Where the labelled nodes are now, told by how ``later`` was made."""
    if case.startswith("another"):
        return torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.int64)
    nodes = fitted.val_mask.nonzero().flatten()
    if case == "renumbered":
        order = torch.randperm(N, generator=torch.Generator().manual_seed(5))
        place = torch.empty_like(order)
        place[order] = torch.arange(N)
        return place[nodes], fitted.y[nodes]
    return nodes + (50 if case == "grown" else 0), fitted.y[nodes]


def with_ids(data: Data) -> Data:
    data = copy.copy(data)
    data.node_ids = 3 * torch.arange(data.num_nodes).flip(0) + 7
    return data


@pytest.mark.parametrize("mini_batches", [False, True], ids=["whole", "mini-batches"])
@pytest.mark.parametrize("ids", [False, True], ids=["no ids", "ids"])
@pytest.mark.parametrize("method", ["simi-mailbox", "simi-mailbox-free"])
@pytest.mark.parametrize("case", LATER)
def test_labels_reach_their_nodes_or_nobody(
    case: str, method: str, ids: bool, mini_batches: bool, model: nn.Module
) -> None:
    fitted = with_ids(image(1)) if ids else image(1)
    later = LATER[case](fitted)
    if case.startswith("another") and ids:
        later.node_ids = torch.arange(N) + 10 * N
    calibrated = pyg.calibrate(model, fitted, calibrator=calibrators.get(method)())
    told = ids or not NEEDS_IDS.get(case, True)
    nodes, y = right_labels(fitted, later, case) if told else (torch.empty(0).long(),) * 2
    given = calibrated.inputs_on(later) | {"known": (nodes, y)}
    given["node_ids"] = torch.arange(later.num_nodes) + UNKNOWN
    expected = calibrated.from_logits(**given).exp()
    found, said = run(calibrated, later, mini_batches)
    torch.testing.assert_close(found.exp(), expected, rtol=0, atol=1e-5)
    assert said == (not told)
    if len(nodes):  # or the test could not fail
        given["known"] = None
        assert float((calibrated.from_logits(**given).exp() - expected).abs().max()) > 0.05


@pytest.fixture(scope="module")
def model() -> nn.Module:
    torch.manual_seed(0)
    data = image(3)
    model = GraphSAGE(K, 8, num_layers=2, out_channels=K)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()
    return model


def run(calibrated: pyg.CalibratedModel, data: Data, mini_batches: bool) -> tuple[Tensor, bool]:
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


def test_numbers_of_a_graph_that_changed_since_they_were_written(model: nn.Module) -> None:
    data = pyg.CountNeighbours()(image(1))
    calibrated = pyg.calibrate(model, data)
    changed = copy.copy(data)
    changed.x = image(2).x  # what was counted is that of the other image
    seeds = torch.tensor([400, 401])

    def batch_of(data: Data, hops: int) -> tuple[Data, Tensor]:
        subset, _, mapping, _ = k_hop_subgraph(seeds, hops, data.edge_index)
        return data.subgraph(subset), mapping

    assert quietly(calibrated, *batch_of(data, calibrated.num_hops))
    assert not quietly(calibrated, *batch_of(changed, calibrated.num_hops))
    more = copy.copy(data)
    more.edge_index = torch.cat([data.edge_index, torch.tensor([[400, 450], [450, 400]])], dim=1)
    with pytest.raises(ValueError, match=r"more neighbours than CountNeighbours.. has counted"):
        calibrated.seeds(*batch_of(more, calibrated.num_hops))


def quietly(calibrated: pyg.CalibratedModel, batch: Any, seeds: Tensor) -> bool:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        calibrated.seeds(batch, seeds)
    return not caught


def test_numbers_of_a_loader_alone_prove_nothing(model: nn.Module) -> None:
    data = image(1)
    calibrated = pyg.calibrate(model, data)
    (batch,) = AllNeighbours(data, [-1] * calibrated.num_hops, batch_size=N)
    batch.edge_index = batch.edge_index[:, :-2]  # not the whole graph
    with pytest.warns(CalibrationWarning, match="node_ids"):
        nobody = calibrated.seeds(batch, check=False)
    insisted = calibrated.on(batch, node_ids=batch.n_id)
    assert float((nobody - insisted).abs().max()) > 0.05


def test_ids_survive_the_state_and_are_strings_as_well(model: nn.Module) -> None:
    data = image(1)
    data.node_ids = np.array([f"pixel {node}" for node in range(N)])
    calibrated = pyg.calibrate(model, data)
    again = pyg.CalibratedModel(copy.deepcopy(model))
    again.load_state_dict(calibrated.state_dict())
    later = grown(image(1))
    later.node_ids = np.array([f"new {node}" for node in range(50)] + data.node_ids.tolist())
    found, said = run(again, later, mini_batches=True)
    assert not said
    torch.testing.assert_close(found, calibrated.on(later), rtol=0, atol=1e-5)
