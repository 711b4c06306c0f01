"""One type of the nodes of a heterogeneous graph is calibrated like a graph of its own."""

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv, to_hetero

from simi_mailbox import SimiMailbox, pyg
from simi_mailbox.pyg.runs import graph_among
from tests.pyg.loaders import same
from tests.pyg.test_hidden import quiet

N, AUTHORS, K = 300, 120, 3
TYPES = [("paper", "writes", "author"), ("author", "writes", "paper"), ("paper", "cites", "paper")]


@pytest.fixture(scope="module")
def data():
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(0, K, (N,), generator=rng)
    data = HeteroData()
    data["paper"].x = nn.functional.one_hot(y, 4) + torch.randn(N, 4, generator=rng)
    data["author"].x = torch.randn(AUTHORS, 4, generator=rng)
    data["paper"].y, node = y, torch.arange(N)
    data["paper"].train_mask, data["paper"].val_mask = node % 4 == 0, node % 4 == 1
    wrote = torch.stack([node, torch.randint(0, AUTHORS, (N,), generator=rng)])
    data["paper", "writes", "author"].edge_index = wrote
    data["author", "writes", "paper"].edge_index = wrote.flip(0)
    data["paper", "cites", "paper"].edge_index = torch.randint(0, N, (2, 500), generator=rng)
    return data


class Typed(nn.Module):
    """The last layer is a linear one on papers."""

    def __init__(self):
        super().__init__()
        self.conv = HeteroConv({kind: SAGEConv((-1, -1), 5) for kind in TYPES})
        self.lin = nn.Linear(5, K)

    def forward(self, x_dict, edge_index_dict):
        self.entered = self.conv(x_dict, edge_index_dict)["paper"].relu()
        return self.lin(self.entered)


class Homogeneous(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = SAGEConv((-1, -1), 5), SAGEConv((-1, -1), K)

    def forward(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index)


def initialised(model, data):
    torch.manual_seed(0)
    with torch.no_grad():
        model(data.x_dict, data.edge_index_dict)
    return model


@pytest.fixture(scope="module")
def model(data):
    return initialised(Typed(), data)


def test_a_type_of_nodes_is_calibrated_with_its_own_edges(data, model):
    calibrated = quiet(model, data, node_type="paper")
    assert calibrated.hidden_layer == "lin"
    logits, hidden = model(data.x_dict, data.edge_index_dict).detach(), model.entered.detach()
    both = {"graph": data["paper", "cites", "paper"].edge_index, "hidden": hidden}
    paper = data["paper"]
    by_hand = SimiMailbox().fit(logits, paper.y, mask=paper.val_mask, **both)
    expected = by_hand.predict_proba(logits, **both)
    for found in (
        calibrated.on(data),
        calibrated(data.x_dict, data.edge_index_dict),
        calibrated.from_logits(logits, data, hidden=hidden),
        calibrated.from_logits(logits, data.edge_index_dict, hidden=hidden),
    ):
        torch.testing.assert_close(found.exp(), expected, rtol=1e-5, atol=1e-6)
    written = pyg.WriteProbabilities(calibrated)(data)
    torch.testing.assert_close(written["paper"].prob, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(TypeError, match="cannot be checked for missing neighbours"):
        calibrated.seeds(data)


def test_a_model_of_pyg_made_heterogeneous(data):
    model = initialised(to_hetero(Homogeneous(), data.metadata()), data)
    calibrated = quiet(model, data, node_type="paper")
    assert calibrated.hidden_layer is not None
    assert calibrated.calibrator.hidden_["means"].shape == (K, 5)
    found = calibrated(data.x_dict, data.edge_index_dict)
    same(found, calibrated.on(data))


def test_neighbours_along_a_metapath(data, model):
    path = [("paper", "author"), ("author", "paper")]
    found = graph_among(data.edge_index_dict, "paper", N, path)
    author = data["paper", "writes", "author"].edge_index[1].numpy()
    expected = (author[:, None] == author) & ~np.eye(N, dtype=bool)
    dense = np.zeros((N, N), dtype=bool)
    dense[tuple(found.edge_index().numpy())] = True
    np.testing.assert_array_equal(dense, expected)
    calibrated = quiet(model, data, node_type="paper", metapath=path)
    given = calibrated.inputs_on(data) | {"graph": found}
    given = {name: given[name] for name in ("logits", "graph", "hidden")}
    by_hand = calibrated.calibrator.predict_proba(**given)
    torch.testing.assert_close(calibrated.on(data).exp(), by_hand)
    again = pyg.CalibratedModel(model)
    again.load_state_dict(calibrated.state_dict())
    assert (again.node_type, again.metapath) == ("paper", path)
    same(again.on(data), calibrated.on(data))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"node_type": None}, ValueError, "say which one is classified, node_type=…, one of paper"),
        ({"node_type": "papr"}, ValueError, "node_type=…, one of paper, author; got 'papr'"),
        ({"node_type": "author"}, TypeError, r"metapath=\[\('author', 'paper'\), \('paper', 'au"),
        ({"metapath": [("paper", "author")]}, ValueError, "must begin and end with 'paper'"),
        ({"metapath": [("paper", "venue"), ("venue", "paper")]}, ValueError, r"\('paper', 'venue'"),
    ],
)
def test_mistakes_with_types_are_told(given, error, message, data, model):
    with pytest.raises(error, match=message):
        pyg.calibrate(model, data, **{"node_type": "paper", **given})
