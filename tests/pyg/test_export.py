"""What torch would do wrongly with a calibrated model is refused; compiled models are fine."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCN

from simi_mailbox import pyg
from tests.pyg.test_hidden import K, N, Plain, data, quiet

__all__ = ["data"]


@pytest.fixture(scope="module")
def calibrated(data: Data) -> pyg.CalibratedModel:
    torch.manual_seed(0)
    return quiet(Plain(), data)


@pytest.mark.parametrize(
    "export",
    [
        lambda model, inputs: torch.jit.trace(model, inputs),
        lambda model, inputs: torch.jit.script(model),
        lambda model, inputs: torch.export.export(model, inputs),
        lambda model, inputs: torch.export.export(model, inputs, strict=True),
    ],
    ids=["trace", "script", "export", "strict export"],
)
@pytest.mark.filterwarnings("ignore")
def test_it_is_not_exported_without_its_calibrator(
    export: Callable[[Any, Any], Any], calibrated: pyg.CalibratedModel, data: Data
) -> None:
    with pytest.raises(Exception, match="cannot be traced, scripted or exported: its calibrator"):
        export(calibrated, (data.x, data.edge_index))


def test_compiling_it_changes_nothing_and_says_nothing(
    calibrated: pyg.CalibratedModel, data: Data
) -> None:
    expected = calibrated(data.x, data.edge_index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(calibrated, backend="eager")
        found = compiled(data.x, data.edge_index)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_compiled_model_is_calibrated_as_it_is(
    calibrated: pyg.CalibratedModel, data: Data
) -> None:
    expected = calibrated.on(data)
    inside = torch.compile(calibrated.model, backend="eager")
    inside(data.x, data.edge_index)  # compiled before any hook is there
    again = quiet(inside, data)
    assert again.hidden_layer == "conv2"
    torch.testing.assert_close(again.on(data), expected, rtol=0, atol=1e-6)
    torch.testing.assert_close(again(data.x, data.edge_index), expected, rtol=0, atol=1e-6)


def compiled(module: nn.Module) -> Any:
    return torch.compile(module, backend="eager")


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "plain": pyg.CalibratedModel,
    "model compiled": lambda model: pyg.CalibratedModel(compiled(model)),
    "layers compiled": lambda model: pyg.CalibratedModel(layers_compiled(model)),
}


def layers_compiled(model: nn.Module) -> nn.Module:
    model.convs[0] = compiled(model.convs[0])
    return model


@pytest.mark.parametrize("save", [*WAYS, "all compiled"])
@pytest.mark.parametrize("load", WAYS)
def test_state_loads_compiled_or_not(save: str, load: str, data: Data) -> None:
    def gcn(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return GCN(data.num_features, 5, num_layers=2, out_channels=K, norm="batch_norm")

    first = quiet(gcn(0), data)
    saved: Any = WAYS.get(save, WAYS["plain"])(gcn(1))
    saved.load_state_dict(first.state_dict())
    saved = compiled(saved) if save == "all compiled" else saved
    again = WAYS[load](gcn(2))
    again.load_state_dict(saved.state_dict())
    assert again.hidden_layer == "convs.1"
    torch.testing.assert_close(again.on(data), first.on(data), rtol=0, atol=1e-6)
    assert again.on(data).shape == (N, K)


def test_state_of_all_compiled_loads_into_the_same(data: Data) -> None:
    torch.manual_seed(0)
    first = quiet(GCN(data.num_features, 5, num_layers=2, out_channels=K), data)
    again = compiled(pyg.CalibratedModel(GCN(data.num_features, 5, num_layers=2, out_channels=K)))
    again.load_state_dict(compiled(first).state_dict())
    torch.testing.assert_close(again.on(data), first.on(data), rtol=0, atol=1e-6)
