"""A calibrated model is a module like the model, and returns what its calibrator returns."""

import copy
import io

import pytest
import torch
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv, Sequential
from torch_geometric.utils import index_to_mask

from simi_mailbox import SimiMailbox, metrics, pyg
from simi_mailbox.demo import digits_graph
from simi_mailbox.exceptions import FileFormatError, NotFittedError
from tests.pyg.loaders import same, trained
from tests.pyg.test_hidden import Inside

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")


@pytest.fixture(scope="module")
def data():
    graph, x, y = digits_graph()
    data = Data(torch.tensor(x), graph.edge_index(), y=torch.tensor(y))
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    parts = dict(zip(("train", "val", "test"), order.split([200, 500, 1097]), strict=True))
    for part, nodes in parts.items():
        data[f"{part}_mask"] = index_to_mask(nodes, data.num_nodes)
    return data


@pytest.fixture(scope="module")
def model(data):
    torch.manual_seed(0)
    return trained(GCN(64, 16, num_layers=2, out_channels=10, dropout=0.5), data)


@pytest.fixture(scope="module")
def calibrated(model, data):
    return pyg.calibrate(model, data, mask=data.val_mask)


@pytest.fixture(scope="module")
def expected(calibrated, data):
    return calibrated(data.x, data.edge_index)


def logits_of(model, data):
    model = copy.deepcopy(model).eval()
    return model(data.x, data.edge_index).detach()


def test_it_returns_what_the_calibrator_returns_with_the_hidden_layer(
    model, calibrated, data, expected
):
    z = logits_of(model, data)
    # By the layers themselves: dropout is off in evaluation mode.
    hidden = model.convs[0](data.x, data.edge_index).relu().detach()
    masks = {"mask": data.val_mask, "train_mask": data.train_mask}
    both = {"graph": data.edge_index, "hidden": hidden}
    by_hand = SimiMailbox().fit(z, data.y, **both, **masks)
    probs = by_hand.predict_proba(z, **both)
    torch.testing.assert_close(expected.exp(), probs, rtol=1e-6, atol=1e-7)
    same(calibrated.on(data), expected)
    same(calibrated(x=data.x, edge_index=data.edge_index), expected)
    same(calibrated.from_logits(z, data, hidden=hidden), expected)
    with pytest.raises(ValueError, match="hidden= must be the layer of fit, 16 columns, got none"):
        calibrated.from_logits(z, data)
    before, after = z.softmax(dim=1)[data.test_mask], expected.exp()[data.test_mask]
    y = data.y[data.test_mask]
    assert metrics.nll(after, y) < metrics.nll(before, y)
    same(after.argmax(1), before.argmax(1))


def test_modes_are_as_before_and_dropout_is_off(model, data):
    model.train()
    model.convs[0].eval()  # a part that its user froze
    modes = [part.training for part in model.modules()]
    again = pyg.calibrate(model, data, mask=data.val_mask)
    first = again(data.x, data.edge_index)
    assert [part.training for part in model.modules()] == modes
    again.train()
    same(again(data.x, data.edge_index), first)
    assert model.training
    assert not first.requires_grad
    with pytest.raises(RuntimeError):
        again(data.x[:, :3], data.edge_index)
    assert all(part.training for part in again.modules())


@pytest.mark.parametrize("method", ["simi-mailbox", "temperature", "vector", "gats"])
def test_state_survives_a_weights_only_file(method, model, data, tmp_path):
    calibrated = pyg.calibrate(model, data, calibrator=method)
    expected = calibrated(data.x, data.edge_index)
    torch.save(calibrated.state_dict(), tmp_path / "calibrated.pt")
    for state in (
        torch.load(tmp_path / "calibrated.pt", weights_only=True),
        from_safetensors(to_safetensors(calibrated.state_dict())),
    ):
        again = pyg.CalibratedModel(GCN(64, 16, num_layers=2, out_channels=10))
        with pytest.raises(NotFittedError):
            again(data.x, data.edge_index)
        again.load_state_dict(state)
        assert again.calibrator.name == method
        same(again(data.x, data.edge_index), expected)


def test_the_whole_module_is_copied_pickled_and_converted(calibrated, data, expected):
    file = io.BytesIO()
    torch.save(calibrated, file)
    file.seek(0)
    same(torch.load(file, weights_only=False)(data.x, data.edge_index), expected)  # our own file
    double = copy.deepcopy(calibrated).to(torch.float64)
    found = double(data.x.double(), data.edge_index)
    assert found.dtype == torch.float64
    assert double.state_dict()["_extra_state"].dtype == torch.uint8
    same(found.float(), expected, atol=1e-4)


def test_damage_and_missing_calibrators_are_told(calibrated):
    state = calibrated.state_dict()
    again = pyg.CalibratedModel(copy.deepcopy(calibrated.model))
    for place in (-3, 0):  # in the calibrator's file, and in what the wrapper knows
        bytes_ = state["_extra_state"].clone()
        bytes_[place] ^= 1
        with pytest.raises(FileFormatError, match="damaged"):
            again.load_state_dict({**state, "_extra_state": bytes_})
    del state["_extra_state"]
    with pytest.raises(RuntimeError, match="_extra_state"):
        again.load_state_dict(state)


def test_a_calibrator_given_is_copied_and_options_of_fit_are_passed_on(model, data):
    mine = SimiMailbox(n_groups=4)
    calibrated = pyg.calibrate(model, data, calibrator=mine)
    assert len(calibrated.calibrator.temperatures_) <= 4
    assert not hasattr(mine, "temperatures_")
    assert "n_groups=4" in repr(calibrated)
    both = data.val_mask | data.train_mask
    insisted = pyg.calibrate(model, data, mask=both, allow_training_nodes=True)
    assert insisted.on(data).shape == (data.num_nodes, 10)


def test_no_label_outside_the_masks_is_read(model, data, expected):
    changed = copy.copy(data)
    changed.y = torch.where(data.val_mask | data.train_mask, data.y, -9)
    same(pyg.calibrate(model, changed, mask=data.val_mask)(data.x, data.edge_index), expected)


def test_features_reach_methods_that_need_them(model, data):
    calibrated = pyg.calibrate(model, data, calibrator="group-calibration")
    by_hand = calibrated.calibrator.predict_proba(logits_of(model, data), features=data.x)
    torch.testing.assert_close(calibrated(data.x, data.edge_index).exp(), by_hand)


class OnAdjacency(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(64, 10)

    def forward(self, x, adj_t):
        return self.conv(x, adj_t)


def test_other_ways_to_call_a_model(model, data, expected):
    same(pyg.calibrate(Inside(model), data)(data), expected)
    in_row = Sequential("x, edge_index", [(model, "x, edge_index -> x")])
    same(pyg.calibrate(in_row, data)(data.x, data.edge_index), expected)
    flat = pyg.calibrate(nn.Sequential(nn.Linear(64, 10)), data, calibrator="temperature")
    same(flat(data.x), flat.on(data))
    how = {"call": lambda model, data: model(data.x, data.edge_index)}
    own = pyg.calibrate(OnAdjacency(), data, **how)
    same(own(data.x, adj_t=data.edge_index), own.on(data))


def test_edge_weights_are_not_guessed(model, data):
    weighted = copy.copy(data)
    weighted.edge_weight = torch.rand(data.num_edges)
    with pytest.raises(TypeError, match=r"with or without.*data\.edge_index, data\.edge_w"):
        pyg.calibrate(model, weighted)
    how = {"call": lambda model, data: model(data.x, data.edge_index, data.edge_weight)}
    calibrated = pyg.calibrate(model, weighted, **how)
    found = calibrated(weighted.x, weighted.edge_index, weighted.edge_weight)
    same(found, calibrated.on(weighted))


def test_log_probabilities_are_finite(data):
    class Masked(nn.Module):
        def forward(self, x, edge_index):
            z = x[:, :10].clone()
            z[:, 3] = -1e9
            return z

    some = copy.copy(data)
    some.y = torch.where(data.y == 3, 0, data.y)
    found = pyg.calibrate(Masked(), some)(data.x, data.edge_index)
    assert bool(torch.isfinite(found).all())
    assert float(found[:, 3].exp().max()) < 1e-30


PAIR = type("Pair", (nn.Module,), {"forward": lambda self, x, edge_index: (x, x)})()
STRANGE = type("Strange", (nn.Module,), {"forward": lambda self, x, edge_index, colour: x})()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"calibrator": "simi-mailbx"}, ValueError, "did you mean"),
        ({"calibrator": SimiMailbox}, TypeError, "Cannot clone .* an instance"),
        ({"calibrator": "dcgc"}, TypeError, "edge weights of its own"),
        ({"mask": torch.zeros(3, dtype=torch.bool)}, ValueError, "3 entries for 1797"),
        ({"mask": torch.ones(1797, dtype=torch.bool)}, ValueError, "allow_training_nodes"),
        ({"model": PAIR}, TypeError, "Pair returned a tuple"),
        ({"model": STRANGE}, TypeError, "data has no colour"),
        ({"logits": torch.zeros(3, 2)}, ValueError, "1797"),
        ({"without": ("y", "val_mask")}, TypeError, "no labels"),
        ({"without": ("val_mask",)}, TypeError, "mask is missing"),
    ],
)
def test_mistakes_are_told(model, data, given, error, message):
    data = copy.copy(data)
    for name in given.get("without", ()):
        del data[name]
    given = {name: value for name, value in given.items() if name != "without"}
    with pytest.raises(error, match=message):
        pyg.calibrate(**{"model": model, "data": data, **given})
    with pytest.raises(TypeError, match="no graph is among the arguments"):
        pyg.CalibratedModel(nn.Linear(64, 10))(data.x)


def test_a_transform_writes_probabilities(calibrated, data, expected):
    done = pyg.WriteProbabilities(calibrated)(data)
    torch.testing.assert_close(done.prob, expected.exp())
    assert "prob" not in data
    assert "p" in pyg.WriteProbabilities(calibrated, attr="p")(data)
