"""What a method is given on a run: which labels, which nodes it is measured on."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from simi_mailbox import metrics, pyg
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, load_logits
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.calibration import (
    CalibrationUnit,
    features,
    inputs_of,
    probabilities,
    variance_of_calibration_error,
)
from simi_mailbox_bench.methods import HIDDEN, WITH_HIDDEN, Method
from simi_mailbox_bench.oracle import ORACLE
from simi_mailbox_bench.runner import Failure

RUN = RunKey("Digits", "gcn", "sparse")


@pytest.fixture(scope="module")
def source(cache):
    return load_logits(RUN)


def rows(unit):
    return list(unit.execute(lambda key: False))


@pytest.mark.parametrize("name", ["gats", "simi-mailbox", "simi-mailbox-oracle"])
def test_probabilities_are_those_that_the_rows_measure(source, name):
    (row,) = rows(CalibrationUnit(RUN, (Method.of(name),)))
    test = source.split.test
    probs = probabilities(RUN, Method.of(name))
    assert probs.shape == source.logits.shape
    expected = metrics.evaluate(probs[test], source.dataset.y[test])
    assert row["metrics"] == pytest.approx(expected, rel=1e-6)
    assert (probabilities(RUN, Method.of(name), source) == probs).all()


def test_the_pyg_wrapper_gives_the_row_with_the_hidden_layer(source):
    """A plain GCN of PyG with the weights of the run, calibrated without further arguments."""
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data
    from torch_geometric.nn import GCN
    from torch_geometric.utils import index_to_mask

    weights, x = source.weights, torch.tensor(np.asarray(features(source, "nodes")))
    width, classes = weights["weight1"].shape
    model = GCN(x.shape[1], width, num_layers=2, out_channels=classes, dropout=0.5)
    for k, layer in enumerate(model.convs):
        layer.lin.weight.data = weights[f"weight{k}"].T.clone()
        layer.bias.data = weights[f"bias{k}"].clone()
    dataset, split = source.dataset, source.split
    data = Data(x.float(), dataset.graph.edge_index(), y=torch.tensor(dataset.y))
    data.val_mask = index_to_mask(torch.tensor(split.val), len(dataset.y))
    shown = pyg.calibrate(model, data, mask=data.val_mask).on(data).exp()[split.test]
    method = Method.of(f"simi-mailbox{WITH_HIDDEN}")
    (row,) = rows(CalibrationUnit(RUN, (method,)))
    expected = metrics.evaluate(shown.double().numpy(), dataset.y[split.test])
    for name in ("nll", "brier", "accuracy"):
        assert row["metrics"][name] == pytest.approx(expected[name], rel=1e-4)


STOPS_EARLY = ("cagcn", "dcgc", "gats", "gets", "simcalib", "wats")
VALIDATION_ONLY = ("simi-mailbox", "simi-mailbox-paper", "temperature", "vector")


@pytest.mark.parametrize("name", [*STOPS_EARLY, *VALIDATION_ONLY, "group-calibration", ORACLE])
def test_which_further_labels_a_method_sees(source, name):
    """Training nodes to stop on, none at all, or everything."""
    split = source.split
    holdout, measured = CalibrationUnit(RUN, ()).nodes(name, source)
    assert measured.tolist() == split.test.tolist()
    if name in STOPS_EARLY:
        assert holdout.tolist() == split.train.tolist()
    elif name == ORACLE:
        assert len(holdout) + len(split.val) == source.dataset.num_nodes
    else:
        assert holdout is None


def test_group_calibration_holds_out_a_tenth_that_nobody_is_measured_on(source):
    unit = CalibrationUnit(RUN, (), "test-90")
    holdout, measured = unit.nodes("group-calibration", source)
    assert holdout is not None
    assert len(holdout) == 100
    assert not set(holdout) & set(measured)
    assert sorted([*holdout, *measured]) == source.split.test.tolist()
    for other in ("temperature", "simi-mailbox", "simi-mailbox-oracle"):
        assert unit.nodes(other, source)[1].tolist() == measured.tolist()
    again = CalibrationUnit(RunKey("Digits", "gcn", "sparse", init=3), (), "test-90")
    assert again.nodes("group-calibration", source)[1].tolist() == measured.tolist()


def test_features_are_those_the_backbone_saw(source):
    """Digits are grey levels from 0 to 16; the backbone divides each row by its sum."""
    raw = np.asarray(source.dataset.x)
    assert raw.sum(axis=1).min() > 1
    given = np.asarray(features(source, "nodes"))
    np.testing.assert_allclose(given, raw / raw.sum(axis=1, keepdims=True), rtol=1e-6)
    as_they_are = replace(source, settings=Settings(row_normalise=False))
    assert features(as_they_are, "nodes") is source.dataset.x
    assert features(source, "hidden").shape == (source.dataset.num_nodes, 64)


def test_a_row_names_the_logits_it_was_measured_on(source):
    unit = CalibrationUnit(RUN, (Method.of("uncalibrated"),))
    (row,) = rows(unit)
    assert row["logits"] == digest(source.logits)
    assert "logits" not in unit.identity(unit.items[0])
    other = source.logits.clone()
    other[3, 2] = np.nextafter(float(other[3, 2]), np.float32(np.inf), dtype=np.float32).item()
    assert digest(other) != row["logits"]


def test_one_failure_does_not_stop_the_others_and_missing_logits_are_one(source):
    unit = CalibrationUnit(RUN, (Method.of("simi-mailbox", n_groups=0), Method.of("uncalibrated")))
    failed, made = rows(unit)
    assert isinstance(failed, Failure)
    assert "n_groups must be a whole number ≥ 1, got 0" in failed.error
    assert made["method"] == "uncalibrated"
    (failed,) = rows(replace(unit, run=RunKey("Digits", "gcn", "public")))
    assert isinstance(failed, Failure)
    assert "no 'public' split" in failed.error


def given(name, hidden):
    split = SimpleNamespace(train=np.arange(3), val=np.arange(3, 6))
    source = SimpleNamespace(dataset=SimpleNamespace(graph="graph"), split=split, hidden=hidden)
    return inputs_of(name, Method.of(name).build(RunKey("Cora", "gcn")), source)


@pytest.mark.parametrize("name", ["simi-mailbox", "simi-mailbox-free"])
def test_the_default_is_measured_with_the_inputs_of_the_readme(name):
    assert given(name, "hidden") == {"graph": "graph"}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_row_with_hidden_has_it_or_is_not_made(name):
    assert given(name, "hidden") == {"graph": "graph", "hidden": "hidden"}
    with pytest.raises(ValueError, match="needs a hidden layer"):
        given(name, None)


def test_variance_rows_and_their_table_against_loops(source):
    (row,) = rows(CalibrationUnit(RUN, (Method.of("uncalibrated"),), quantity="variance"))
    names = {f"variance_{name}" for name in ("nodes", "confidence", "similarity")}
    assert row["metrics"].keys() == names
    assert all(0 < value < 0.25 for value in row["metrics"].values())
    rng = np.random.default_rng(0)
    n, bins = 400, 10
    probs = rng.dirichlet([1.0, 0.6, 0.3], size=n)
    y = rng.integers(0, 3, n)
    similarity = np.round(rng.random(n), 1)
    similarity[::17] = np.nan
    confidence, right = probs.max(1), probs.argmax(1) == y
    row = [min(int(c * bins), bins - 1) for c in confidence]
    accuracy = {m: np.mean([right[i] for i in range(n) if row[i] == m]) for m in set(row)}
    said = {m: np.mean([confidence[i] for i in range(n) if row[i] == m]) for m in set(row)}
    error = [abs(accuracy[row[i]] - confidence[i]) for i in range(n)]
    node_wise = np.var([abs(accuracy[m] - said[m]) for m in row], ddof=1)

    def mean_variance(key):
        cells = {}
        for i in range(n):
            if key(i) is not None:
                cells.setdefault(key(i), []).append(error[i])
        return np.mean([np.var(e, ddof=1) for e in cells.values() if len(e) > 1])

    def column(i):
        if np.isnan(similarity[i]):
            return None
        return row[i], min(round(similarity[i] * 10), bins - 1)

    table = variance_of_calibration_error(probs, y, similarity, bins=bins)
    np.testing.assert_allclose(table[0], node_wise)
    np.testing.assert_allclose(table[1], mean_variance(lambda i: row[i]))
    np.testing.assert_allclose(table[2], mean_variance(column))
