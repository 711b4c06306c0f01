"""The wrapper finds what enters a model's last layer, whatever the model is made of."""

import threading
import warnings

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GAT, GCN, BatchNorm, GCNConv, GraphSAGE, SGConv

from simi_mailbox import pyg
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.pyg.runs import logits_and_hidden
from tests.pyg.loaders import AllNeighbours, same

N, D, K = 400, 6, 3


@pytest.fixture(scope="module")
def data():
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(0, K, (N,), generator=rng)
    edges = torch.randint(0, N, (2, 1200), generator=rng)
    like = (y[edges[0]] == y[edges[1]]) | (torch.rand(1200, generator=rng) < 0.2)
    x = torch.randn(N, D, generator=rng) + nn.functional.one_hot(y, D)
    node = torch.arange(N)
    masks = {"train_mask": node % 4 == 0, "val_mask": node % 4 == 1}
    return Data(x, torch.cat([edges[:, like], edges[:, like].flip(0)], 1), y=y, **masks)


class Plain(nn.Module):
    """As in PyG's examples; the layer of the classes may be followed by whatever has no classes."""

    def __init__(self, *, end="", first=GCNConv):
        super().__init__()
        self.conv1, self.conv2 = first(D, 5), GCNConv(5, K)
        self.norm, self.end = BatchNorm(K), end

    def forward(self, x, edge_index):
        h = self.conv1(x, edge_index).relu()
        self.entered = h.detach()
        z = self.conv2(nn.functional.dropout(h, training=self.training), edge_index)
        if self.end == "norm":
            z = self.norm(z)
        return z.log_softmax(dim=1) if self.end == "log_softmax" else z


class Propagated(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin1, self.lin2, self.prop = nn.Linear(D, 5), nn.Linear(5, K), APPNP(3, 0.1)

    def forward(self, x, edge_index):
        self.entered = self.lin1(x).relu().detach()
        return self.prop(self.lin2(self.entered), edge_index)


class Inside(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, data):
        return self.inner(data.x, data.edge_index)


class Random(nn.Linear):
    def forward(self, x, edge_index):
        return super().forward(nn.functional.dropout(x))


class Embedded(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.conv1, self.conv2 = nn.Embedding(N, 5), GCNConv(5, 5), GCNConv(5, K)

    def forward(self, edge_index):
        return self.conv2(self.conv1(self.emb.weight, edge_index).relu(), edge_index)


MODELS = {
    "plain": (Plain, "conv2"),
    "log_softmax": (lambda: Plain(end="log_softmax"), "conv2"),
    "norm after the classes": (lambda: Plain(end="norm"), "conv2"),
    "propagation after the classes": (Propagated, "lin2"),
    "inside another": (lambda: Inside(Plain()), "inner.conv2"),
    "ready-made": (lambda: GCN(D, 5, num_layers=2, out_channels=K), "convs.1"),
    "attention": (lambda: GAT(D, 6, num_layers=2, out_channels=K, heads=2), "convs.1"),
    "jumping knowledge": (lambda: GraphSAGE(D, 5, 2, K, jk="cat"), "lin"),
    "of the edges alone": (Embedded, "conv2"),
    "single layer": (lambda: SGConv(D, K, K=2), None),
    "linear": (lambda: nn.Linear(D, K), None),
    "as many units as classes": (lambda: nn.Sequential(nn.Linear(D, K), nn.Linear(K, K)), "1"),
}


@pytest.mark.parametrize("kind", MODELS)
def test_the_last_layer_is_found(kind, data):
    torch.manual_seed(0)
    make, expected = MODELS[kind]
    model = make()
    calibrated = quiet(model, data)
    assert calibrated.hidden_layer == expected
    assert f"(hidden): {expected}" in repr(calibrated)
    assert hasattr(calibrated.calibrator, "hidden_") == (expected is not None)
    inner = getattr(model, "inner", model)
    if hasattr(inner, "entered"):
        by_hand = quiet(model, data, hidden=inner.entered)
        torch.testing.assert_close(calibrated.on(data), by_hand.on(data, hidden=inner.entered))


def quiet(model, data, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return pyg.calibrate(model, data, **given)


def test_a_layer_may_be_named_or_left(data):
    torch.manual_seed(0)
    model = Plain()
    auto, named = quiet(model, data), quiet(model, data, hidden="conv2")
    same(auto.on(data), named.on(data))
    features = quiet(model, data, hidden="conv1")
    assert features.calibrator.hidden_["means"].shape == (K, D)
    off = quiet(model, data, hidden=None)
    assert off.hidden_layer is None
    assert not hasattr(off.calibrator, "hidden_")
    assert quiet(model, data, calibrator="temperature").hidden_layer is None


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"hidden": "conv3"}, ValueError, r"unknown layer of Plain 'conv3'; did you mean 'conv\d'"),
        ({"hidden": "norm"}, TypeError, r"no tensor .* entered the layer 'norm'"),  # not called
        ({"hidden": "conv2", "logits": torch.zeros(N, K)}, TypeError, "logits are .*as a tensor"),
    ],
)
def test_mistakes_with_the_hidden_layer_are_told(given, error, message, data):
    with pytest.raises(error, match=message):
        pyg.calibrate(Plain(), data, **given)


def test_another_models_state_and_a_random_model_are_told(data):
    state = quiet(Plain(), data).state_dict()
    with pytest.raises(ValueError, match="unknown layer of Linear 'conv2'"):
        pyg.CalibratedModel(nn.Linear(D, K)).load_state_dict(state, strict=False)
    with pytest.warns(CalibrationWarning, match="two runs of Random in evaluation mode differ"):
        pyg.calibrate(Random(D, K), data)


def test_threads_do_not_see_each_other(data):
    torch.manual_seed(0)
    model = Plain()

    def run():
        other = threading.Thread(target=lambda: model(torch.zeros(N, D), data.edge_index))
        out = model(data.x, data.edge_index)
        other.start()
        other.join()
        return out

    entered = logits_and_hidden(model, run, "auto", None)[2]
    model.eval()(data.x, data.edge_index)
    torch.testing.assert_close(entered, model.entered)


def test_models_of_the_edges_alone_have_no_features(data):
    torch.manual_seed(0)
    calibrated = quiet(Embedded(), data)
    same(calibrated(data.edge_index), calibrated.on(data))
    features = quiet(Embedded(), data, calibrator="group-calibration")
    assert features.on(data).shape == (N, K)
    with pytest.raises(TypeError, match="needs features"):
        features(data.edge_index)


def test_known_labels_reach_the_calibrator(data):
    torch.manual_seed(0)
    calibrated = quiet(Plain(), data)
    known = (torch.arange(2, N, 4), data.y[2::4])
    given = calibrated.inputs_on(data, known=known)
    logits, hidden = given["logits"], given["hidden"]
    expected = calibrated.calibrator.predict_proba(logits, graph=data, hidden=hidden, known=known)
    torch.testing.assert_close(calibrated.on(data, known=known).exp(), expected)
    assert float((calibrated.on(data) - calibrated.on(data, known=known)).abs().max()) > 1e-3


def test_logits_and_hidden_layer_by_layer(data, monkeypatch):
    import torch_geometric.nn.models.basic_gnn as models

    monkeypatch.setattr(models, "NeighborLoader", AllNeighbours)
    torch.manual_seed(0)
    sage = GraphSAGE(D, 5, num_layers=2, out_channels=K)
    whole = quiet(sage, data)
    loader = AllNeighbours(data, [-1], batch_size=64)
    seen: list[Tensor] = []
    hook = sage.convs[1].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    logits = sage.eval().inference(loader)
    hook.remove()
    sizes = [len(part) for part in torch.arange(N).split(64)]
    hidden = torch.cat([h[:size] for h, size in zip(seen, sizes, strict=True)]).detach()
    large = quiet(sage, data, logits=logits.detach(), hidden=hidden)
    found = large.from_logits(logits.detach(), data, hidden=hidden)
    same(found, whole.on(data), atol=1e-4)
