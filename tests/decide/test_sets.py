"""Prediction sets: what they guarantee, to whom, and what they say when they cannot."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import Graph, TemperatureScaling, audit, load, prior
from simi_mailbox.calibrators.simi_mailbox.evidence import term_names
from simi_mailbox.decide import PredictionSets, load_rule
from simi_mailbox.decide.scores import ScoredNodes, resolve
from simi_mailbox.decide.sets import node_weights
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError, NotFittedError
from simi_mailbox.mailbox import expected_agreement, mailbox_edges, mailbox_groups
from simi_mailbox.metrics import coverage, coverage_by_group
from simi_mailbox.validation import read_features
from tests.decide import references as by_hand

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")

PROBLEM = by_hand.make_problem(0)
SCORES = ["lac", "aps", "raps", "daps", "snaps"]
CONDITIONS = [None, "class", "degree", "mailbox"]
conditions = st.sampled_from(CONDITIONS)


def fit(problem, *, mask=None, used_for_selection=False, **params):
    inputs = {"graph": problem.graph, "features": problem.features}
    inputs |= {"mask": problem.mask if mask is None else mask}
    rule = PredictionSets(**params)
    return rule.fit(problem.probs, problem.y, used_for_selection=used_for_selection, **inputs)


def predict(rule, problem, **more):
    inputs = {"graph": problem.graph, "features": problem.features}
    return rule.predict_sets(problem.probs, **inputs, **more)


@pytest.mark.parametrize("score", SCORES)
def test_sets_are_the_classes_below_the_threshold(score):
    nodes = ScoredNodes(PROBLEM.probs, PROBLEM.graph, read_features(PROBLEM.features, 90))
    scores = resolve(score).prepare(nodes)(slice(0, 90))
    own = scores[PROBLEM.mask, PROBLEM.y[PROBLEM.mask]]
    found = fit(PROBLEM, coverage=0.8, score=score)
    expected = scores <= by_hand.threshold(own, 0.8)
    np.testing.assert_array_equal(predict(found, PROBLEM), expected)


def test_the_audit_of_sets_can_fail():
    class Peeks(PredictionSets):
        def fit(self, probs, y, *, mask, **inputs):
            super().fit(probs, y, mask=mask, **inputs)
            self.seen_ = int(np.asarray(y) @ np.arange(len(y)))
            return self

        def predict_sets(self, probs, **inputs):
            return super().predict_sets(probs, **inputs) ^ (self.seen_ % 2 == 0)

    found = audit.reads_only(Peeks(), PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask)
    assert not found.passed
    assert "90 of 90 rows changed" in found.detail


@given(st.integers(0, 500), st.sampled_from(SCORES), conditions)
def test_more_coverage_means_larger_sets(seed, score, condition):
    problem = by_hand.make_problem(seed, n=60, labelled=30)
    small, large = (
        predict(fit(problem, coverage=c, score=score, condition_on=condition), problem)
        for c in (0.6, 0.85)
    )
    assert (small <= large).all()


@given(st.integers(1, 18), conditions)
def test_too_few_labels_mean_all_classes(labelled, condition):
    problem = by_hand.make_problem(1, labelled=labelled)
    with pytest.warns(CalibrationWarning, match="19"):
        rule = fit(problem, coverage=0.95, condition_on=condition)
    assert predict(rule, problem).all()


@pytest.mark.parametrize(
    ("condition", "mask", "message"),
    [
        (None, range(9), None),
        (None, range(8), "8 calibration labels are too few.*: every set.*at least 9 are needed"),
        ("class", range(18), None),
        ("class", range(16), r"2 of 2 classes.* the 9 .*\(0: 8, 1: 8\): they are in every set"),
        (10 * (np.arange(60) % 5), range(5), r"5 of 5 groups.*\(0: 1, 10: 1, .*, 40: 1\): their"),
        (np.arange(60) % 6, range(6), r"6 of 6 groups.*, 4: 1, …\): their sets are all classes"),
        (np.repeat([7, 3, 11], 20), range(40), r"1 of 3 groups.*\(11: 0\)"),
    ],
)
def test_it_says_how_many_labels_are_needed(condition, mask, message):
    rule = PredictionSets(score="lac", condition_on=condition)
    probs, y = np.tile([0.7, 0.3], (60, 1)), np.arange(60) % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rule.fit(probs, y, mask=mask, used_for_selection=False)
    assert len(caught) == (message is not None)
    if message is not None:
        with pytest.raises(CalibrationWarning, match=message):
            raise caught[0].message


def test_only_groups_with_too_few_labels_get_all_classes():
    rule = fit(PROBLEM, mask=range(60), condition_on=np.repeat([7, 3, 11], 30))
    sets = rule.predict_sets(PROBLEM.probs)
    assert sets[60:].all()
    assert not sets[:60].all()
    rule = fit(PROBLEM, mask=np.flatnonzero(PROBLEM.y < 3), condition_on="class")
    assert rule.predict_sets(PROBLEM.probs)[:, 3].all()


def exchangeable(rng, n, k=3):
    """Labels of a model that is far too confident in one group of nodes."""
    group = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, k)) * np.array([0.5, 1.5, 4.0])[group, None]
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sharp = np.exp(np.array([4.0, 1.5, 1.0])[group, None] * logits)
    return sharp / sharp.sum(axis=1, keepdims=True), y, group


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_coverage_is_the_target(score):
    rng, hits, draws, labels = np.random.default_rng(7), 0, 300, 59
    rule = PredictionSets(coverage=0.85, score=score)
    for _ in range(draws):
        probs, y, _ = exchangeable(rng, labels + 20)
        rule.fit(probs, y, mask=range(labels), used_for_selection=False)
        hits += coverage(rule.predict_sets(probs)[labels:], y[labels:]) * 20
    # With 59 labels the target is met exactly: 51 / 60. Draws spread by at most ±3 σ.
    spread = math.sqrt(0.85 * 0.15 * (1 / 20 + 1 / (labels + 2)) / draws)
    assert hits / (20 * draws) == pytest.approx(0.85, abs=3 * spread)


@pytest.mark.parametrize("kind", ["groups", "members", "class"])
def test_every_group_is_covered(kind):
    rng = np.random.default_rng(11)
    hits, seen, plain = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(60):
        probs, y, group = exchangeable(rng, 700)
        members = np.column_stack([group == 0, group <= 1, group == 2, np.arange(700) % 2 == 0])
        condition = {"groups": group, "members": members.astype(int), "class": "class"}[kind]
        sets, marginal = (
            PredictionSets(score="lac", condition_on=on)
            .fit(probs, y, mask=range(300), used_for_selection=False)
            .predict_sets(probs)
            for on in (condition, None)
        )
        tested = np.arange(300, 700)
        parts = y[:, None] == np.arange(3) if kind == "class" else members
        for g in range(parts.shape[1]):
            chosen = tested[parts[tested, g]]
            hits[g] += sets[chosen, y[chosen]].sum()
            plain[g] += marginal[chosen, y[chosen]].sum()
            seen[g] += chosen.size
    found = (hits / np.maximum(seen, 1))[seen > 0]
    assert found.min() > 0.885
    assert found.max() < 0.93
    if kind != "class":  # what is guaranteed to all is not kept for the difficult ones
        assert (plain[0] / seen[0]) < 0.86


@pytest.fixture
def prior_file(tmp_path):
    """A prior that has seen forty calibration nodes that could not be wrong."""
    plain = dict.fromkeys((*term_names(hidden=False), "uniform"), 0.0)
    setting = prior.Setting(
        "a", "a", "gcn", 1, 50, plain, {}, bias=dict.fromkeys(prior.MODES, 0.0), bias_weight=1e-4,
        fewer_errors=40 * 1e-3, fewer_errors_weight=1e-3,
    )  # fmt: skip
    prior.write([setting], tmp_path / "prior.json")
    return tmp_path / "prior.json"


def test_nodes_that_chose_the_model_guarantee_too_much_unless_it_is_said(prior_file):
    rng, found = np.random.default_rng(3), {True: [], False: []}
    for _ in range(150):
        logits = rng.normal(size=(400, 4)) * 2
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        y[:40] = probs[:40].argmax(axis=1)  # 40 of the 150 calibration nodes are right by selection
        for used, values in found.items():
            rule = PredictionSets(score="lac", prior=prior_file)
            rule.fit(probs, y, mask=range(150), used_for_selection=used)
            values.append(coverage(rule.predict_sets(probs)[150:], y[150:]))
            assert rule.error_weight_ == pytest.approx(150 / 110 if used else 1.0)
    assert np.mean(found[False]) < 0.88
    assert np.mean(found[True]) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("condition", ["class", "degree", "members"])
def test_selection_bias_is_thought_of_in_every_group(prior_file, condition):
    problem = by_hand.make_problem(8, n=1500, labelled=600)
    members = np.random.default_rng(0).random((1500, 3)) < 0.5
    params = {"score": "lac", "condition_on": members if condition == "members" else condition}
    plain, corrected = (
        predict(fit(problem, used_for_selection=used, prior=prior_file, **params), problem).sum()
        for used in (False, True)
    )
    assert corrected > plain


@pytest.mark.parametrize("condition", ["degree", "mailbox"])
def test_degree_and_mailbox_make_groups_of_about_a_quarter(condition):
    rule = fit(by_hand.make_problem(5, n=4000, labelled=2000), condition_on=condition)
    assert rule.counts_.sum() == 2000
    assert rule.counts_.min() > 300
    assert len(rule.thresholds_) == 4


def test_confident_nodes_of_low_neighbour_agreement_get_their_coverage():
    rng = np.random.default_rng(2)
    n = 6000
    side = rng.integers(0, 2, n)
    # Two blocks; one node in ten sits in the other's, and of these every second one is wrong.
    stray = rng.random(n) < 0.1
    block = np.where(stray, 1 - side, side)
    order = [np.flatnonzero(block == b) for b in (0, 1)]
    ends = np.concatenate([rng.choice(part, (2, 4 * n)) for part in order], axis=1)
    sure = rng.uniform(0.8, 0.99, n)
    right = rng.random(n) < np.where(stray, 0.5, 0.97)
    p = np.where(side == 0, sure, 1 - sure)
    y = np.where(right, side, 1 - side)
    problem = by_hand.Problem(np.stack([p, 1 - p], 1), y, Graph.from_edges(ends, n), None, None)
    rest, found = np.arange(2000, n), {}
    for condition in (None, "mailbox"):
        rule = fit(problem, mask=range(2000), score="lac", condition_on=condition)
        sets = predict(rule, problem)
        found[condition] = coverage_by_group(sets[rest], y[rest], stray[rest].astype(int))
    assert found["mailbox"].coverage[1] > found[None].coverage[1] + 0.1


def test_other_nodes_and_another_graph():
    other = by_hand.make_problem(9, n=33)
    for condition in CONDITIONS:
        sets = predict(fit(PROBLEM, score="snaps", condition_on=condition), other)
        assert sets.shape == (33, 4)
    rule = fit(PROBLEM, condition_on=np.arange(90) % 2)
    with pytest.raises(TypeError, match="33 nodes, but the groups in condition_on are those of 90"):
        predict(rule, other)
    with pytest.warns(CalibrationWarning, match="group 5 was not there"):
        assert predict(rule, other, groups=np.full(33, 5)).all()
    ones = predict(rule, other, groups=torch.ones(33, dtype=torch.int64))
    np.testing.assert_array_equal(ones, predict(rule, other, groups=np.ones(33, dtype=bool)))
    scores = np.array([by_hand.lac(p) for p in other.probs])
    rule = fit(PROBLEM, score="lac", condition_on=np.arange(90) % 2)
    found = predict(rule, other, groups=np.arange(33) % 2)
    np.testing.assert_array_equal(found, scores <= rule.thresholds_[np.arange(33) % 2, None])


def test_a_file_of_something_else_is_refused(tmp_path):
    cal = TemperatureScaling().fit(np.log(PROBLEM.probs), PROBLEM.y, mask=PROBLEM.mask)
    cal.save(tmp_path / "cal")
    with pytest.raises(FileFormatError, match="does not describe a rule"):
        load_rule(tmp_path / "cal")
    fit(PROBLEM).save(tmp_path / "rule")
    with pytest.raises(FileFormatError, match="not a safetensors file"):
        load(tmp_path / "rule")
    bad = fit(PROBLEM)
    bad.thresholds_ = np.array([math.nan])
    bad.save(tmp_path / "bad")
    with pytest.raises(FileFormatError, match="thresholds_ is not a number"):
        load_rule(tmp_path / "bad")
    whole = (tmp_path / "rule").read_bytes()
    (tmp_path / "rule").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="does not describe a rule"):
        load_rule(tmp_path / "rule")


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"condition_on": "degrees"}, ValueError, "unknown condition_on 'degrees'; choose from: c"),
        ({"condition_on": np.zeros(5, int)}, ValueError, r"shape \[5\]; expected one .* \[90\]"),
        ({"condition_on": np.zeros((90, 1, 1), int)}, ValueError, r"memberships \[90, groups\]"),
        ({"condition_on": np.zeros(90)}, ValueError, "whole numbers, one per node; got float64"),
        ({"condition_on": np.full((90, 2), 0.5)}, ValueError, "memberships must be true or false"),
        ({"condition_on": "degree", "groups": 1}, ValueError, "groups must be .* ≥ 2, got 1"),
    ],
)
def test_bad_parameters(params, error, message):
    rule = PredictionSets(**params)
    given = {"mask": PROBLEM.mask, "graph": PROBLEM.graph, "used_for_selection": False}
    with pytest.raises(error, match=message):
        rule.fit(PROBLEM.probs, PROBLEM.y, **given)
    with pytest.raises(NotFittedError):
        rule.predict_sets(PROBLEM.probs)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"probs": PROBLEM.probs * 5}, ValueError, "expected a probability|sum to"),
        ({"probs": PROBLEM.probs[:, :1] * 0 + 1}, ValueError, "one column"),
        ({"mask": [0, 90]}, ValueError, "names node 90"),
        ({"y": PROBLEM.y + 2}, ValueError, "has label"),
        ({"graph": None}, TypeError, r"needs graph: pass graph=…"),
        ({"graph": Graph.empty(7)}, ValueError, "7 nodes"),
        ({"features": None}, TypeError, "needs features"),
        ({"features": PROBLEM.features[:3]}, ValueError, "one row per node"),
    ],
)
def test_bad_inputs(change, error, message):
    inputs = {**vars(PROBLEM), **change}
    rule = PredictionSets(score="snaps")
    with pytest.raises(error, match=message):
        rule.fit(inputs.pop("probs"), inputs.pop("y"), used_for_selection=False, **inputs)


def test_bad_use():
    members = np.ones((90, 2), bool)
    with pytest.raises(TypeError, match="makes its own groups"):
        fit(PROBLEM).predict_sets(PROBLEM.probs, groups=np.zeros(90, int))
    rule = fit(PROBLEM, condition_on=members)
    with pytest.raises(ValueError, match=r"groups have shape \[90, 3\]; fit saw \[n, 2\]"):
        rule.predict_sets(PROBLEM.probs, groups=np.ones((90, 3), bool))
    with pytest.raises(ValueError, match=r"shape \[90, 2\]; fit saw \[n\]"):
        fit(PROBLEM, condition_on=np.zeros(90, int)).predict_sets(PROBLEM.probs, groups=members)


@pytest.mark.parametrize("wrong", [0, 5, 20, 60, 100])
@pytest.mark.parametrize("weight", [1.0, 1.4, 3.0, 1e3])
def test_weights_of_nodes_are_one_on_average_and_never_negative(wrong, weight):
    """An error counts for ``weight``, but no more than halfway to where right nodes count for 0."""
    errors = np.arange(100) < wrong
    found = node_weights(errors, weight)
    assert found.mean() == pytest.approx(1.0)
    assert found.min() > 0
    if wrong in (0, 100):
        np.testing.assert_array_equal(found, 1.0)
    else:
        np.testing.assert_allclose(found[errors], min(weight, (1 + 100 / wrong) / 2))


def test_a_node_of_lower_confidence_than_all_that_were_seen_agrees_with_its_neighbours():
    """All confidences are equal; of lower ones nothing is known: any agreement is high."""
    alike, graph = np.tile([0.8, 0.2], (4, 1)), Graph.from_edges([[0, 1], [1, 2]], 4)
    edges = mailbox_edges(alike, graph)
    assert edges.tolist() == [0.8, 0.0, pytest.approx(0.68)]
    assert mailbox_groups(np.tile([0.6, 0.4], (4, 1)), graph, edges).tolist() == [1, 1, 1, 1]
    assert expected_agreement(alike, graph).tolist() == [pytest.approx(0.68)] * 3 + [0.0]
