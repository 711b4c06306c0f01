"""Classes that no node can have, and single nodes beyond all measure, harm no method."""

import functools
import warnings

import numpy as np
import pytest
import torch

import simi_mailbox
from simi_mailbox import CalibrationWarning, calibrators
from simi_mailbox.metrics import ece, nll
from simi_mailbox.softmax import LogitRange
from simi_mailbox_bench.backbones import Settings, train
from simi_mailbox_bench.datasets import available, load, make_split

NAMES = calibrators.names()
LISTENING = {"simi-mailbox", "simi-mailbox-free"}
"""They ask a node's neighbours, of which one is now confident of another class."""
UNSTEADY = {name for name in NAMES if "epochs" in calibrators.get(name)().get_params()} | {
    *LISTENING,
    "simi-mailbox-paper",
}
"""Any change of one node leads their training, their few labels, or its neighbours another way."""
MASKS = (-100.0, -1e4, -1e9, -np.inf)
NEAR = 0.003


@functools.cache
def trained():
    """A GCN on Cora, or on the built-in digits where Cora is not on this machine."""
    dataset = load("Cora" if "Cora" in available() else "Digits")
    split = make_split(dataset, "folds" if dataset.name == "Cora" else "sparse")
    run = train(dataset, split, "gcn", seed=0, settings=Settings(epochs=300))
    rest = np.setdiff1d(np.arange(dataset.num_nodes), np.concatenate([split.val, split.test]))
    return dataset, split, run, int(np.setdiff1d(rest, split.train)[0])


def fitted(name, logits):
    """Test ECE of a method on these logits, and what it warned of."""
    dataset, split, run, _ = trained()
    extra = logits[:, run.logits.shape[1] :]

    def forward(edge_weight):
        """The logits, mixed with what arrives over weighted edges."""
        graph = dataset.graph
        received = run.logits[graph.indices] * edge_weight.reshape(-1, 1)
        z = run.logits + 0.1 * torch.zeros_like(run.logits).index_add(0, graph.rows(), received)
        return torch.cat([z, torch.from_numpy(extra)], dim=1)

    method = calibrators.get(name)
    offered = {"graph": dataset.graph, "features": run.hidden, "forward": forward}
    inputs = {key: offered[key] for key in method.required_inputs}
    quick = {"epochs": 20, "patience": 20, "partitions": 2}
    settings = {key: value for key, value in quick.items() if key in method().get_params()}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", CalibrationWarning)
        calibrator = method(**settings).fit(logits, dataset.y, mask=split.val, **inputs)
        probs = calibrator.predict_proba(logits, **inputs)
    assert np.isfinite(probs).all()
    assert not probs[:, run.logits.shape[1] :].any()
    test = split.test
    judged = probs[test], dataset.y[test]
    return ece(*judged), nll(*judged), [str(warning.message) for warning in told]


@functools.cache
def clean(name):
    return fitted(name, trained()[2].logits.numpy())[:2]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", NAMES)
def test_a_masked_class_is_as_if_it_were_not_there(name, mask):
    z = trained()[2].logits.numpy()
    masked = np.concatenate([z, np.full((len(z), 1), mask, z.dtype)], axis=1)
    assert fitted(name, masked)[:2] == pytest.approx(clean(name), abs=1e-9)


@pytest.mark.parametrize("size", [2e6, 1e9, 1e20])
@pytest.mark.parametrize("name", NAMES)
def test_one_extreme_node_is_told_and_harms_no_other(name, size):
    z, node = trained()[2].logits.numpy().copy(), trained()[3]
    z[node] = 0
    z[node, 0] = size
    found, likelihood, told = fitted(name, z)
    assert any(f"node {node}" in message for message in told)
    if name in UNSTEADY:
        moderate = LogitRange.of(torch.from_numpy(z))._narrow(torch.from_numpy(z))
        assert float(moderate[node].abs().max()) < 1e3
        assert found == pytest.approx(fitted(name, moderate.numpy())[0], abs=1e-9)
    else:
        assert abs(found - clean(name)[0]) < NEAR
    if name in LISTENING:
        assert likelihood < clean(name)[1] + NEAR


def test_a_class_that_a_label_names_is_not_taken_out():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3))
    z[:, 2] = -50
    y = z.argmax(1)
    y[0] = 2
    cal = simi_mailbox.TemperatureScaling().fit(z, y, mask=np.arange(100))
    assert cal.classes_.tolist() == [0, 1, 2]
    z[:, 2] = -np.inf
    with pytest.raises(ValueError, match="class 2 are −inf on every node, but a label names"):
        simi_mailbox.TemperatureScaling().fit(z, y, mask=np.arange(100))


def test_a_class_masked_at_fit_must_be_masked_at_prediction(tmp_path):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(200, 3))
    z[:, 1] = -1e9
    y = np.where(rng.random(200) < 0.8, z.argmax(1), 2 - z.argmax(1))
    cal = simi_mailbox.TemperatureScaling().fit(z, y, mask=np.arange(100))
    cal.save(tmp_path / "cal.safetensors")
    again = simi_mailbox.load(tmp_path / "cal.safetensors")
    assert (again.predict_proba(z) == cal.predict_proba(z)).all()
    z[7, 1] = 0.0
    with pytest.raises(ValueError, match="node 7 gives class 1 a logit near its others"):
        again.predict_proba(z)


def test_groups_on_a_bound_are_reported():
    dataset, split, run, _ = trained()
    cal = simi_mailbox.SimiMailboxPaper(solver="exact", selection="none")
    with pytest.warns(CalibrationWarning, match=r"\d+ of 15 groups, with \d+ of \d+ nodes"):
        cal.fit(run.logits, dataset.y, graph=dataset.graph, mask=split.val)
    assert cal.at_bound_.any()
