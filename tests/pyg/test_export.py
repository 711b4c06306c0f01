"""What torch would do wrongly with a calibrated model is refused; compiled models are fine."""

import warnings
from itertools import product

import pytest
import torch
from torch_geometric.nn import GCN

from simi_mailbox import pyg
from tests.pyg.loaders import same
from tests.pyg.test_hidden import K, Plain, data, quiet

__all__ = ["data"]


@pytest.fixture(scope="module")
def calibrated(data):
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
def test_it_is_not_exported_without_its_calibrator(export, calibrated, data):
    with pytest.raises(Exception, match="cannot be traced, scripted or exported: its calibrator"):
        export(calibrated, (data.x, data.edge_index))


def test_compiled_before_or_after_it_is_calibrated_as_it_is(calibrated, data):
    expected = calibrated(data.x, data.edge_index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(calibrated, backend="eager")
        found = compiled(data.x, data.edge_index)
    same(found, expected)
    inside = torch.compile(calibrated.model, backend="eager")
    inside(data.x, data.edge_index)  # compiled before any hook is there
    again = quiet(inside, data)
    assert again.hidden_layer == "conv2"
    same(again.on(data), expected, atol=1e-6)
    same(again(data.x, data.edge_index), expected, atol=1e-6)


def compiled(module):
    return torch.compile(module, backend="eager")


def in_place(module):
    module.compile(backend="eager")
    return module


ALL = "all compiled"  # torch's own wrapper, whose names of weights are torch's own
WAYS = {
    "plain": pyg.CalibratedModel,
    "model compiled": lambda model: pyg.CalibratedModel(compiled(model)),
    "compiled in place": lambda model: in_place(pyg.CalibratedModel(in_place(model))),
    ALL: lambda model: compiled(pyg.CalibratedModel(model)),
}


@pytest.mark.parametrize(("save", "load"), [*product(WAYS, WAYS)])
def test_state_loads_compiled_or_not(save, load, data):
    def gcn(seed):
        torch.manual_seed(seed)
        return GCN(data.num_features, 5, num_layers=2, out_channels=K, norm="batch_norm")

    first = quiet(gcn(0), data)
    saved, again = WAYS[save](gcn(1)), WAYS[load](gcn(2))
    getattr(saved, "_orig_mod", saved).load_state_dict(first.state_dict())
    # As for any module, what torch.compile returns reads only states with its own prefix.
    inner = again if save == ALL else getattr(again, "_orig_mod", again)
    inner.load_state_dict(saved.state_dict())
    assert again.hidden_layer == "convs.1"
    same(again(data.x, data.edge_index), first.on(data), atol=1e-6)
