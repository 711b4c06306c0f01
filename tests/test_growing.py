"""A graph that grows and is renumbered, with late labels: files, Python, PyG, mini-batches."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GraphSAGE

from simi_mailbox import Graph, SimiMailbox, pyg
from tests.cli.conftest import run, write, write_problem
from tests.pyg.loaders import AllNeighbours

START, MORE, SNAPSHOTS = 400, 30, 10
CLASSES = 3


@pytest.fixture(scope="module")
def whole():
    """Features, labels, ids and edges of all nodes that will ever be there, and a model."""
    rng = torch.Generator().manual_seed(0)
    n = START + MORE * (SNAPSHOTS - 1)
    y = torch.randint(0, CLASSES, (n,), generator=rng)
    x = nn.functional.one_hot(y, CLASSES) + torch.randn(n, CLASSES, generator=rng)
    a, b = torch.randint(0, n, (2, 12 * n), generator=rng)
    like = (y[a] == y[b]) | (torch.rand(len(a), generator=rng) < 0.1)
    near = (a - b).abs() < 60  # far nodes are far
    edges = torch.stack([a, b])[:, like & near & (a != b)]
    edges = torch.cat([edges, edges.flip(0)], dim=1).unique(dim=1)
    torch.manual_seed(0)
    model = GraphSAGE(CLASSES, 8, num_layers=1, out_channels=CLASSES).eval()
    with torch.no_grad():
        model.convs[0].lin_l.weight.copy_(torch.eye(CLASSES))
        model.convs[0].lin_r.weight.copy_(2 * torch.eye(CLASSES))
        model.convs[0].lin_l.bias.zero_()
    ids = 5000 + torch.randperm(n, generator=rng)
    return x, y, ids, edges, model


def snapshot(whole, day):
    """The nodes that are there on a day, in an order of its own."""
    x, y, ids, edges, _ = whole
    n = START + MORE * day
    order = torch.randperm(n, generator=torch.Generator().manual_seed(day))
    place = torch.argsort(order)
    inside = (edges < n).all(dim=0)
    data = Data(x[order], place[edges[:, inside]], y=y[order], node_ids=ids[order])
    return pyg.CountNeighbours()(data)


def logits_of(model, data):
    with torch.no_grad():
        return model(data.x, data.edge_index)


def write_files(data, z, known):
    ids, y = data.node_ids.tolist(), data.y.tolist()
    write_problem(z, y, Graph.from_edges(data.edge_index, len(y)), ids, "abc")
    write("known.csv", ["id", "label"], *([ids[i], "abc"[y[i]]] for i in known))


def test_four_ways_give_the_same_probabilities(whole, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _x, _y, ids, _edges, model = whole
    data = snapshot(whole, 0)
    first = set(ids[:150].tolist())
    mask = torch.tensor([i in first for i in data.node_ids.tolist()])
    z = logits_of(model, data)
    given = {"graph": data.edge_index, "node_ids": data.node_ids}
    cal = SimiMailbox(n_groups=5).fit(z, data.y, mask=mask, **given)
    wrapped = pyg.calibrate(model, data, mask, SimiMailbox(n_groups=5), hidden=None)
    write_files(data, z, mask.nonzero().flatten().tolist())
    parts = "logits.csv --edges edges.csv"
    run(f"fit {parts} --labels known.csv --set n_groups=5 --out c0.safetensors")
    for day in range(1, SNAPSHOTS):
        data = snapshot(whole, day)
        z = logits_of(model, data)
        late = set(ids[150 + 8 * day : 158 + 8 * day].tolist())
        known = [i for i, name in enumerate(data.node_ids.tolist()) if name in late]
        given = {"logits": z, "graph": data.edge_index, "all_ids": data.node_ids}
        cal.update(data.node_ids[known], data.y[known], **given)
        wrapped.update(data.node_ids[known], data.y[known], data)
        write_files(data, z, known)
        old, new = f"c{day - 1}.safetensors", f"c{day}.safetensors"
        run(f"update {old} {parts} --known known.csv --out {new}")
        run(f"apply {new} {parts} --out p.npz")
        python = cal.predict_proba(z, graph=data.edge_index, node_ids=data.node_ids)
        files = np.load("p.npz")["probabilities"]
        by_wrapper = wrapped.on(data).exp()
        loader = AllNeighbours(data, [-1] * wrapped.num_hops, batch_size=200)
        batches = torch.cat([wrapped.seeds(batch) for batch in loader]).exp()
        for found in (torch.from_numpy(files), by_wrapper, batches):
            assert (found - python).abs().max() < 1e-5


def test_a_distant_edge_does_not_move_a_node(whole):
    data = snapshot(whole, 0)
    z = logits_of(whole[-1], data)
    given = {"node_ids": data.node_ids}
    cal = SimiMailbox(n_groups=5).fit(z, data.y, mask=range(150), graph=data.edge_index, **given)
    before = cal.predict_proba(z, graph=data.edge_index, **given)
    more = torch.cat([data.edge_index, torch.tensor([[0, 1], [1, 0]])], dim=1).unique(dim=1)
    after = cal.predict_proba(z, graph=more, **given)
    near = {0, 1}
    for _ in range(3):
        near |= {int(t) for s, t in more.T.tolist() if s in near}
    far = [i for i in range(data.num_nodes) if i not in near]
    assert len(far) > 100
    assert (after - before)[far].abs().max() <= 1e-6
    assert (after - before)[[0, 1]].abs().max() > 1e-6


def test_the_wrapper_asks_its_calibrator(whole):
    data = snapshot(whole, 0)
    wrapped = pyg.calibrate(whole[-1], data, torch.arange(150), hidden=None)
    found = wrapped.monitor(data, nodes=range(150, 400), features=data.x)
    assert found.verdict == "ok"
    assert found.how == "A and D"
    plain = pyg.calibrate(whole[-1], data, torch.arange(150), "temperature", hidden=None)
    with pytest.raises(TypeError, match="update is for a SimiMailbox"):
        plain.update([1], [0])
