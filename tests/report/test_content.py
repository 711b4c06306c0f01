"""The numbers of a report are those of the metrics and of the judged nodes alone."""

import numpy as np
import pytest
from scipy.special import softmax

from simi_mailbox import metrics
from simi_mailbox.calibrators import SimiMailbox, TemperatureScaling
from simi_mailbox.report import gather, read_inputs
from simi_mailbox.report.methods import run_methods


def content_of(given, methods=("temperature", "simi-mailbox"), **changes):
    return gather(read_inputs(**{**given, **changes}), methods, title="t")


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


def fitted(given, used_for_selection=True, **params):
    masks = {"mask": given["calibration"], "used_for_selection": used_for_selection}
    return SimiMailbox(**params).fit(given["logits"], given["y"], graph=given["graph"], **masks)


def test_calibrators_are_told_that_the_nodes_chose_no_model(given):
    inputs = read_inputs(**given)
    _, told = run_methods(inputs, ["simi-mailbox"], used_for_selection=False)[0]
    _, plain = run_methods(inputs, ["simi-mailbox"])[0]
    cal = fitted(given, used_for_selection=False)
    np.testing.assert_array_equal(told.calibrator.temperatures_, cal.temperatures_)
    assert (plain.calibrator.temperatures_ != cal.temperatures_).any()
    used = run_methods(inputs, [plain.calibrator], used_for_selection=False)[0][1]
    np.testing.assert_array_equal(used.probs, plain.probs)  # fitted before: used as it is


@pytest.mark.parametrize("params", [{}, {"prior": None}])
def test_groups_are_those_of_the_calibrator(given, params):
    view, cal = content_of(given, [SimiMailbox(**params)]).views[1], fitted(given, **params)
    assert view.groups.sizes.tolist() == np.bincount(cal.groups_).tolist()
    assert view.groups.calibration_labels.sum() == given["calibration"].size
    np.testing.assert_allclose(view.groups.temperatures, cal.temperatures_)


def test_labels_outside_the_named_nodes_change_nothing_and_test_labels_no_method(given):
    nodes = np.arange(900)
    hidden = np.where((nodes >= 200) & (nodes < 300), -7, given["y"])
    wrong = np.where(nodes >= 300, (hidden + 1) % 4, hidden)
    cut = {"test": np.arange(300, 900)}
    contents = [content_of(given, **cut, **more) for more in ({}, {"y": hidden}, {"y": wrong})]
    for plain, same, shuffled in zip(*(content.views for content in contents), strict=True):
        assert plain.scores == same.scores != shuffled.scores
        np.testing.assert_array_equal(plain.judged.confidence, shuffled.judged.confidence)


def test_what_is_not_given_is_left_out_and_named(given):
    content = content_of(given, y=None)
    assert [view.name for view in content.views] == ["uncalibrated"]
    assert not content.has_labels
    view = content.before
    assert (view.scores, view.curve, view.decisions) == (None, None, None)
    assert content_of(given, calibration=None).before.decisions is None
    assert view.histogram.sum() == given["test"].size
    assert view.heat.counts.sum() > 0
    assert any("No labels were given" in line for line in content.missing)
    assert sum("left out" in line for line in content.missing) == 2
    content = content_of(given, test=None)  # methods run, but nothing is judged
    assert len(content.views) == 3
    assert not content.has_labels
    assert content.views[2].groups.sizes.sum() == 900
    assert any("--test" in line for line in content.missing)
    content = content_of(given, graph=None)
    assert [view.name for view in content.views] == ["uncalibrated", "temperature"]
    assert (content.before.heat, content.before.slices) == (None, [])
    assert any("simi-mailbox was left out: it needs a graph" in line for line in content.missing)


def test_methods_may_be_names_calibrators_or_probabilities(given):
    mine = TemperatureScaling().fit(given["logits"], given["y"], mask=given["calibration"])
    half, inputs = np.full((900, 4), 0.25), read_inputs(**given)
    kinds = {"ours": mine, "flat": half, "by name": "temperature"}
    outcomes, missing = run_methods(inputs, kinds)
    assert not missing
    assert [outcome.name for outcome in outcomes] == ["uncalibrated", *kinds]
    assert outcomes[1].calibrator is mine
    np.testing.assert_array_equal(outcomes[2].probs, half)
    np.testing.assert_array_equal(outcomes[1].probs, outcomes[3].probs)
    # Every outcome has a name of its own, and uncalibrated is there once.
    outcomes, _ = run_methods(inputs, ["temperature", "uncalibrated", "temperature"])
    assert [o.name for o in outcomes] == ["uncalibrated", "temperature", "temperature (2)"]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"test": np.arange(100, 900)}, ValueError, "both in calibration and in test"),
        ({"train": [250]}, ValueError, "both in train and in test"),
        ({"test": None, "train": range(150, 300)}, ValueError, "50 nodes are both in calibration"),
        ({"y": np.zeros(5)}, ValueError, r"expected one per node, \[900\]"),
        ({"y": np.full(900, 9)}, ValueError, "node 0 of calibration has label 9"),
        ({"y": np.array(["a"] * 900)}, TypeError, "class numbers 0, 1, …, got an array of <U1"),
        ({"test": np.array([], dtype=int)}, ValueError, "test selects no node"),
        ({"calibration": [0.5]}, TypeError, "calibration must be boolean or integer"),
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
        ({"x": np.full((900, 4), 0.9)}, ValueError, "'x' are not .*: probs of node 0 sum to 3.6"),
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
        temperatures = outcome.temperatures
        made = softmax(given["logits"] / temperatures[:, None], axis=1)
        np.testing.assert_allclose(outcome.probs, made, atol=1e-6)
        assert view.temperatures.median == np.median(temperatures)


def test_the_monitor_looks_at_the_test_nodes_without_their_labels(given):
    check = content_of(given, ["simi-mailbox"]).check
    assert (check.nodes, check.labels) == (len(given["test"]), 0)
    assert check.verdict in ("ok", "watch", "unknown")
    assert content_of(given, ["temperature"]).check is None
