"""The numbers of a report are those of the metrics and of the judged nodes alone."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

from simi_mailbox import metrics
from simi_mailbox.calibrators import SimiMailbox, TemperatureScaling
from simi_mailbox.report import gather, read_inputs
from simi_mailbox.report.methods import node_temperatures, run_methods


def content_of(given, methods=("temperature", "simi-mailbox"), **changes):
    given = {**given, **changes}
    inputs = read_inputs(
        given["logits"],
        given.get("graph"),
        given.get("y"),
        given.get("calibration"),
        given.get("test"),
        given.get("train"),
    )
    return gather(inputs, methods, title="t")


def test_scores_are_the_metrics_of_the_judged_nodes(given):
    content = content_of(given)
    test, y = given["test"], given["y"]
    before = softmax(given["logits"].astype(np.float32), axis=1)
    assert [view.name for view in content.views] == ["uncalibrated", "temperature", "simi-mailbox"]
    scores = content.before.scores
    assert scores.values["ece"] == pytest.approx(metrics.ece(before[test], y[test]), abs=1e-6)
    cal = TemperatureScaling().fit(given["logits"], y, mask=given["calibration"])
    after = cal.predict_proba(given["logits"])
    assert content.views[1].scores.values["nll"] == metrics.nll(after[test], y[test])
    for view in content.views:
        assert view.scores.ece.low <= view.scores.ece.high
        assert view.curve.counts.tolist() == view.histogram.tolist()
        assert view.heat.counts.sum() + view.heat.without_neighbours == test.size
        assert sum(table.counts.sum() for table in view.slices) == 3 * test.size
        assert view.classes.counts.sum() == test.size
        assert view.changed == 0


def test_calibrators_are_told_that_the_nodes_chose_no_model(given):
    inputs = read_inputs(*(given[name] for name in ("logits", "graph", "y", "calibration")))
    _, told = run_methods(inputs, ["simi-mailbox"], used_for_selection=False)[0]
    _, plain = run_methods(inputs, ["simi-mailbox"])[0]
    cal = SimiMailbox().fit(
        given["logits"],
        given["y"],
        graph=given["graph"],
        mask=given["calibration"],
        used_for_selection=False,
    )
    np.testing.assert_array_equal(told.calibrator.temperatures_, cal.temperatures_)
    assert (plain.calibrator.temperatures_ != cal.temperatures_).any()
    used = run_methods(inputs, [plain.calibrator], used_for_selection=False)[0][1]
    np.testing.assert_array_equal(used.probs, plain.probs)  # fitted before: used as it is


def test_groups_are_those_of_the_calibrator(given):
    view = content_of(given, ["simi-mailbox"]).views[1]
    cal = SimiMailbox().fit(
        given["logits"], given["y"], graph=given["graph"], mask=given["calibration"]
    )
    assert view.groups.sizes.tolist() == np.bincount(cal.groups_).tolist()
    assert view.groups.calibration_labels.sum() == given["calibration"].size
    np.testing.assert_allclose(view.groups.temperatures, cal.temperatures_)
    plain = content_of(given, [SimiMailbox(prior=None)]).views[1]
    cal.set_params(prior=None).fit(
        given["logits"], given["y"], graph=given["graph"], mask=given["calibration"]
    )
    np.testing.assert_allclose(plain.groups.temperatures, cal.temperatures_)


def test_labels_outside_the_named_nodes_change_nothing(given):
    hidden = given["y"].copy()
    cut = {"test": np.arange(300, 900)}
    hidden[200:300] = -7
    one, two = content_of(given, **cut), content_of(given, **cut, y=hidden)
    for a, b in zip(one.views, two.views, strict=True):
        assert a.scores == b.scores


def test_test_labels_do_not_reach_the_methods(given):
    shuffled = given["y"].copy()
    shuffled[given["test"]] = (shuffled[given["test"]] + 1) % 4
    one, two = content_of(given), content_of(given, y=shuffled)
    for a, b in zip(one.views, two.views, strict=True):
        np.testing.assert_array_equal(a.judged.confidence, b.judged.confidence)


def test_without_labels_what_needs_none_is_still_there(given):
    content = content_of(given, y=None)
    assert [view.name for view in content.views] == ["uncalibrated"]
    assert not content.has_labels
    view = content.before
    assert view.scores is None
    assert view.curve is None
    assert view.histogram.sum() == given["test"].size
    assert view.heat.counts.sum() > 0
    assert any("No labels were given" in line for line in content.missing)
    assert sum("left out" in line for line in content.missing) == 2


def test_without_nodes_to_judge_on_methods_run_but_nothing_is_judged(given):
    content = content_of(given, test=None)
    assert len(content.views) == 3
    assert not content.has_labels
    assert content.views[2].groups.sizes.sum() == 900
    assert any("--test" in line for line in content.missing)


def test_without_edges_graph_parts_and_graph_methods_are_left_out_and_named(given):
    content = content_of(given, graph=None)
    assert [view.name for view in content.views] == ["uncalibrated", "temperature"]
    assert content.before.heat is None
    assert content.before.slices == ()
    assert any("simi-mailbox was left out: it needs a graph" in line for line in content.missing)


def test_methods_may_be_names_calibrators_classes_or_probabilities(given):
    fitted = TemperatureScaling().fit(given["logits"], given["y"], mask=given["calibration"])
    half = np.full((900, 4), 0.25)
    inputs = read_inputs(**given)
    outcomes, missing = run_methods(
        inputs,
        {"ours": fitted, "flat": half, "by name": "temperature", "by class": TemperatureScaling},
    )
    assert not missing
    assert [o.name for o in outcomes[1:]] == ["ours", "flat", "by name", "by class"]
    assert outcomes[1].calibrator is fitted
    np.testing.assert_array_equal(outcomes[2].probs, half)
    np.testing.assert_array_equal(outcomes[1].probs, outcomes[3].probs)


def test_a_method_named_twice_is_shown_under_two_names(given):
    outcomes, _ = run_methods(read_inputs(**given), ["temperature", "temperature"])
    assert [o.name for o in outcomes] == ["uncalibrated", "temperature", "temperature (2)"]


def test_uncalibrated_is_always_there_once(given):
    outcomes, _ = run_methods(read_inputs(**given), ["uncalibrated", "temperature"])
    assert [o.name for o in outcomes] == ["uncalibrated", "temperature"]


def test_torch_input_gives_the_same_report(given):
    tensors = {
        **given,
        "logits": torch.from_numpy(given["logits"]),
        "y": torch.from_numpy(given["y"]),
    }
    assert content_of(tensors).views[2].scores == content_of(given).views[2].scores


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"test": np.arange(100, 900)}, ValueError, "both in calibration and in test"),
        ({"train": [250]}, ValueError, "both in train and in test"),
        ({"y": np.zeros(5)}, ValueError, r"expected one per node, \[900\]"),
        (
            {"y": np.full(900, 9)},
            ValueError,
            "node 0 of calibration has label 9",
        ),
        ({"y": np.full(900, 0.5)}, ValueError, "whole numbers"),
        (
            {"y": np.array(["a"] * 900)},
            TypeError,
            "class numbers 0, 1, …, got an array of <U1",
        ),
        ({"test": np.array([], dtype=int)}, ValueError, "test selects no node"),
        ({"test": [900]}, ValueError, r"test names node 900, but nodes are numbered 0\.\.899"),
        (
            {"calibration": [0.5]},
            TypeError,
            "calibration must be boolean or integer",
        ),
        ({"logits": np.zeros(900)}, ValueError, "shape"),
        ({"graph": np.array([[0], [5000]])}, ValueError, "nodes 0 and 5000"),
        ({"class_names": ["a"]}, ValueError, "must hold 4 names"),
        ({"class_names": "abcd"}, ValueError, "must hold 4 names"),
    ],
)
def test_bad_input_is_refused(given, changes, error, message):
    with pytest.raises(error, match=message):
        read_inputs(**{**given, **changes})


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        ("temperature", TypeError, "must be a list"),
        (["temprature"], ValueError, "did you mean 'temperature'"),
        ([np.zeros((900, 4))], TypeError, "cannot use ndarray as a method"),
        ({"x": np.zeros((3, 4))}, ValueError, r"\[3, 4\], expected \[900, 4\]"),
        (
            {"x": np.full((900, 4), 0.9)},
            ValueError,
            "'x' are not .*: probs of node 0 sum to 3.6",
        ),
    ],
)
def test_bad_methods_are_refused(given, methods, error, message):
    with pytest.raises(error, match=message):
        run_methods(read_inputs(**given), methods)


def test_the_temperatures_shown_make_the_probabilities(given):
    inputs, names = read_inputs(**given), ["temperature", "simi-mailbox-paper"]
    outcomes, _ = run_methods(inputs, names)
    views = gather(inputs, names, title="t").views
    for outcome, view in zip(outcomes[1:], views[1:], strict=True):
        temperatures = node_temperatures(outcome, inputs)
        made = softmax(given["logits"] / temperatures[:, None], axis=1)
        np.testing.assert_allclose(outcome.probs, made, atol=1e-6)
        assert view.temperatures.median == np.median(temperatures)


def test_the_monitor_looks_at_the_test_nodes_without_their_labels(model):
    given = {**vars(model), "graph": model.graph}
    names = ("logits", "graph", "y", "calibration", "test")
    check = gather(read_inputs(*(given[n] for n in names)), ["simi-mailbox"], title="t").check
    assert (check.nodes, check.labels) == (len(model.test), 0)
    assert check.verdict in ("ok", "watch", "unknown")
    without = read_inputs(*(given[n] for n in names))
    assert gather(without, ["temperature"], title="t").check is None
