"""A calibrated model is a module like the model, and says what its calibrator says."""

from __future__ import annotations

import copy
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN, GCNConv, Sequential
from torch_geometric.utils import index_to_mask

from simi_mailbox import SimiMailbox, metrics, pyg
from simi_mailbox.demo import digits_graph
from simi_mailbox.exceptions import FileFormatError, NotFittedError


@pytest.fixture(scope="module")
def data() -> Data:
    graph, x, y = digits_graph()
    data = Data(torch.tensor(x), graph.edge_index(), y=torch.tensor(y))
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    parts = dict(zip(("train", "val", "test"), order.split([200, 500, 1097]), strict=True))
    for part, nodes in parts.items():
        data[f"{part}_mask"] = index_to_mask(nodes, data.num_nodes)
    return data


@pytest.fixture(scope="module")
def model(data: Data) -> nn.Module:
    torch.manual_seed(0)
    return trained(GCN(64, 16, num_layers=2, out_channels=10, dropout=0.5), data)


def trained(model: nn.Module, data: Data, epochs: int = 40) -> nn.Module:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(epochs):
        optimizer.zero_grad()
        out = model(data.x, data.edge_index)
        nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
    return model


@pytest.fixture(scope="module")
def calibrated(model: nn.Module, data: Data) -> pyg.CalibratedModel:
    return pyg.calibrate(model, data, mask=data.val_mask)


def logits_of(model: nn.Module, data: Data) -> Tensor:
    model = copy.deepcopy(model).eval()
    return model(data.x, data.edge_index).detach()


def test_it_says_what_the_calibrator_says_with_the_hidden_layer(
    model: nn.Module, calibrated: pyg.CalibratedModel, data: Data
) -> None:
    z, hidden = logits_of(model, data), entering_last_layer(model, data)
    masks = {"mask": data.val_mask, "train_mask": data.train_mask}
    both = {"graph": data.edge_index, "hidden": hidden}
    by_hand = SimiMailbox().fit(z, data.y, **both, **masks)
    expected = by_hand.predict_proba(z, **both)
    found = calibrated(data.x, data.edge_index)
    torch.testing.assert_close(found.exp(), expected, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(calibrated.on(data), found, rtol=0, atol=0)
    named = calibrated(x=data.x, edge_index=data.edge_index)
    torch.testing.assert_close(named, found, rtol=0, atol=0)
    again = calibrated.from_logits(z, data, hidden=hidden)
    torch.testing.assert_close(again, found, rtol=0, atol=0)
    with pytest.raises(ValueError, match="fitted with a hidden layer: pass hidden=…"):
        calibrated.from_logits(z, data)


def entering_last_layer(model: nn.Module, data: Data) -> Tensor:
    """By the layers themselves: dropout is off in evaluation mode."""
    return model.convs[0](data.x, data.edge_index).relu().detach()


def test_calibration_helps(model: nn.Module, calibrated: pyg.CalibratedModel, data: Data) -> None:
    before = logits_of(model, data).softmax(dim=1)[data.test_mask]
    after = calibrated(data.x, data.edge_index).exp()[data.test_mask]
    y = data.y[data.test_mask]
    assert metrics.nll(after, y) < metrics.nll(before, y)
    torch.testing.assert_close(after.argmax(1), before.argmax(1))


def test_modes_are_as_before_and_dropout_is_off(
    model: nn.Module, calibrated: pyg.CalibratedModel, data: Data
) -> None:
    model.train()
    model.convs[0].eval()  # a part that its user froze
    modes = [part.training for part in model.modules()]
    again = pyg.calibrate(model, data, mask=data.val_mask)
    first = again(data.x, data.edge_index)
    assert [part.training for part in model.modules()] == modes
    again.train()
    torch.testing.assert_close(again(data.x, data.edge_index), first, rtol=0, atol=0)
    assert model.training
    assert not first.requires_grad


def test_modes_are_as_before_when_the_model_fails(
    calibrated: pyg.CalibratedModel, data: Data
) -> None:
    calibrated.train()
    with pytest.raises(RuntimeError):
        calibrated(data.x[:, :3], data.edge_index)
    assert all(part.training for part in calibrated.modules())


@pytest.mark.parametrize("method", ["simi-mailbox", "temperature", "vector", "gats"])
def test_state_survives_a_weights_only_file(
    method: str, model: nn.Module, data: Data, tmp_path: Path
) -> None:
    calibrated = pyg.calibrate(model, data, calibrator=method)
    torch.save(calibrated.state_dict(), tmp_path / "calibrated.pt")
    torch.manual_seed(1)
    again = pyg.CalibratedModel(GCN(64, 16, num_layers=2, out_channels=10))
    with pytest.raises(NotFittedError):
        again(data.x, data.edge_index)
    again.load_state_dict(torch.load(tmp_path / "calibrated.pt", weights_only=True))
    assert again.calibrator.name == method
    expected = calibrated(data.x, data.edge_index)
    torch.testing.assert_close(again(data.x, data.edge_index), expected, rtol=0, atol=0)
    copied = copy.deepcopy(calibrated)(data.x, data.edge_index)
    torch.testing.assert_close(copied, expected, rtol=0, atol=0)


def test_damage_and_missing_calibrators_are_told(calibrated: pyg.CalibratedModel) -> None:
    state = calibrated.state_dict()
    bytes_ = state["_extra_state"].clone()
    bytes_[-3] ^= 1
    again = pyg.CalibratedModel(copy.deepcopy(calibrated.model))
    with pytest.raises(FileFormatError, match="damaged"):
        again.load_state_dict({**state, "_extra_state": bytes_})
    del state["_extra_state"]
    with pytest.raises(RuntimeError, match="_extra_state"):
        again.load_state_dict(state)


def test_numbers_follow_the_model(
    model: nn.Module, calibrated: pyg.CalibratedModel, data: Data
) -> None:
    double = copy.deepcopy(calibrated).to(torch.float64)
    found = double(data.x.double(), data.edge_index)
    assert found.dtype == torch.float64
    assert double.state_dict()["_extra_state"].dtype == torch.uint8
    torch.testing.assert_close(
        found.float(), calibrated(data.x, data.edge_index), atol=1e-4, rtol=0
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_results_lie_where_the_logits_lie(calibrated: pyg.CalibratedModel, data: Data) -> None:
    moved = copy.deepcopy(calibrated).to("cuda")
    found = moved(data.x.cuda(), data.edge_index.cuda())
    assert found.device.type == "cuda"
    torch.testing.assert_close(found.cpu(), calibrated(data.x, data.edge_index), atol=1e-4, rtol=0)


def test_a_calibrator_given_is_copied(model: nn.Module, data: Data) -> None:
    mine = SimiMailbox(n_groups=4)
    calibrated = pyg.calibrate(model, data, calibrator=mine)
    assert len(calibrated.calibrator.temperatures_) <= 4
    assert not hasattr(mine, "temperatures_")
    assert "n_groups=4" in repr(calibrated)


def test_no_label_outside_the_masks_is_read(
    model: nn.Module, calibrated: pyg.CalibratedModel, data: Data
) -> None:
    changed = copy.copy(data)
    named = data.val_mask | data.train_mask
    changed.y = torch.where(named, data.y, torch.full_like(data.y, -9))
    found = pyg.calibrate(model, changed, mask=data.val_mask)(data.x, data.edge_index)
    torch.testing.assert_close(found, calibrated(data.x, data.edge_index), rtol=0, atol=0)


def test_features_reach_methods_that_need_them(model: nn.Module, data: Data) -> None:
    calibrated = pyg.calibrate(model, data, calibrator="group-calibration")
    z = logits_of(model, data)
    expected = calibrated.calibrator.predict_proba(z, features=data.x)
    torch.testing.assert_close(calibrated(data.x, data.edge_index).exp(), expected)


class OnData(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, data: Data) -> Tensor:
        return self.model(data.x, data.edge_index)


def test_other_ways_to_call_a_model(
    model: nn.Module, calibrated: pyg.CalibratedModel, data: Data
) -> None:
    expected = calibrated(data.x, data.edge_index)
    whole = pyg.calibrate(OnData(model), data)
    torch.testing.assert_close(whole(data), expected, rtol=0, atol=0)
    in_row = Sequential("x, edge_index", [(model, "x, edge_index -> x")])
    loose = pyg.calibrate(in_row, data)
    torch.testing.assert_close(loose(data.x, data.edge_index), expected, rtol=0, atol=0)
    alone = nn.Sequential(nn.Linear(64, 10))
    flat = pyg.calibrate(alone, data, calibrator="temperature")
    torch.testing.assert_close(flat(data.x), flat.on(data), rtol=0, atol=0)


def test_edge_weights_are_not_guessed(model: nn.Module, data: Data) -> None:
    weighted = copy.copy(data)
    weighted.edge_weight = torch.rand(data.num_edges)
    with pytest.raises(TypeError, match=r"with or without.*data\.edge_index, data\.edge_w"):
        pyg.calibrate(model, weighted)

    def call(model: nn.Module, data: Any) -> Tensor:
        return model(data.x, data.edge_index, data.edge_weight)

    calibrated = pyg.calibrate(model, weighted, call=call)
    found = calibrated(weighted.x, weighted.edge_index, weighted.edge_weight)
    torch.testing.assert_close(found, calibrated.on(weighted), rtol=0, atol=0)


def test_log_probabilities_are_finite(data: Data) -> None:
    class Masked(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            z = x[:, :10].clone()
            z[:, 3] = -1e9
            return z

    some = copy.copy(data)
    some.y = torch.where(data.y == 3, torch.zeros_like(data.y), data.y)
    found = pyg.calibrate(Masked(), some)(data.x, data.edge_index)
    assert bool(torch.isfinite(found).all())
    assert float(found[:, 3].exp().max()) < 1e-30


class Pair(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor]:
        return x, x


class Strange(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor, colour: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"calibrator": "simi-mailbx"}, ValueError, "did you mean"),
        ({"calibrator": SimiMailbox}, TypeError, "a Calibrator or its name, got ABCMeta"),
        ({"calibrator": "dcgc"}, TypeError, "edge weights of its own"),
        ({"mask": torch.zeros(3, dtype=torch.bool)}, ValueError, "3 entries for 1797"),
        ({"model": Pair()}, TypeError, "Pair returned a tuple"),
        ({"model": Strange()}, TypeError, "data has no colour"),
        ({"logits": torch.zeros(3, 2)}, ValueError, "1797"),
    ],
)
def test_mistakes_are_told(
    model: nn.Module, data: Data, given: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"model": model, "data": data, **given}
    with pytest.raises(error, match=message):
        pyg.calibrate(**given)


def test_data_without_labels_or_masks(model: nn.Module, data: Data) -> None:
    bare = Data(x=data.x, edge_index=data.edge_index)
    with pytest.raises(TypeError, match="no labels"):
        pyg.calibrate(model, bare)
    bare.y = data.y
    with pytest.raises(TypeError, match="mask is missing"):
        pyg.calibrate(model, bare)


def test_a_call_without_a_graph_is_told(data: Data) -> None:
    alone = pyg.calibrate(nn.Linear(64, 10), data)
    with pytest.raises(TypeError, match="no graph is among the arguments"):
        alone(data.x)
    assert alone.on(data).shape == (1797, 10)


def test_a_transform_writes_probabilities(calibrated: pyg.CalibratedModel, data: Data) -> None:
    done = pyg.WriteProbabilities(calibrated)(data)
    torch.testing.assert_close(done.prob, calibrated(data.x, data.edge_index).exp())
    assert "prob" not in data
    assert "p" in pyg.WriteProbabilities(calibrated, attr="p")(data)


def test_state_can_be_kept_in_safetensors(calibrated: pyg.CalibratedModel) -> None:
    from safetensors.torch import load as read
    from safetensors.torch import save

    again = pyg.CalibratedModel(copy.deepcopy(calibrated.model))
    again.load_state_dict(read(save(calibrated.state_dict())))
    found, expected = again.calibrator, calibrated.calibrator
    np.testing.assert_array_equal(found.temperatures_, expected.temperatures_)


def test_the_whole_module_is_picklable(calibrated: pyg.CalibratedModel, data: Data) -> None:
    file = io.BytesIO()
    torch.save(calibrated, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)  # our own file
    expected = calibrated(data.x, data.edge_index)
    torch.testing.assert_close(again(data.x, data.edge_index), expected, rtol=0, atol=0)


def test_own_layers_are_supported(data: Data) -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = GCNConv(64, 10)

        def forward(self, x: Tensor, adj_t: Tensor) -> Tensor:
            return self.conv(x, adj_t)

    calibrated = pyg.calibrate(Own(), data, call=lambda model, data: model(data.x, data.edge_index))
    found = calibrated(data.x, adj_t=data.edge_index)
    torch.testing.assert_close(found, calibrated.on(data), rtol=0, atol=0)


def test_the_wrapper_does_without_pyg() -> None:
    code = "import sys, simi_mailbox.pyg; sys.exit('torch_geometric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nodes_that_the_model_was_trained_on_are_refused(data: Data, model: nn.Module) -> None:
    both = data.val_mask | data.train_mask
    with pytest.raises(ValueError, match="allow_training_nodes"):
        pyg.calibrate(model, data, mask=both)
    insisted = pyg.calibrate(model, data, mask=both, allow_training_nodes=True)
    assert insisted(data.x, data.edge_index).shape == (data.num_nodes, 10)
