"""Prediction sets: what they promise, for whom, and what they say when they cannot."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from simi_mailbox import (
    CalibrationWarning,
    FileFormatError,
    Graph,
    NotFittedError,
    TemperatureScaling,
    audit,
    load,
    prior,
)
from simi_mailbox.calibrators.simi_mailbox.evidence import term_names
from simi_mailbox.decide import APS, DAPS, LAC, RAPS, SNAPS, Accept, PredictionSets, load_rule
from simi_mailbox.decide.groups import quantile_edges, read_groups
from simi_mailbox.decide.sets import node_weights
from simi_mailbox.mailbox import expected_agreement, mailbox_edges, mailbox_groups
from simi_mailbox.metrics import coverage, coverage_by_group
from tests.decide import references as by_hand

PROBLEM = by_hand.make_problem(0)
INPUTS = {
    "lac": {},
    "aps": {},
    "raps": {},
    "daps": {"graph": PROBLEM.graph},
    "snaps": {"graph": PROBLEM.graph, "features": PROBLEM.features},
}
every_score = pytest.mark.parametrize("score", INPUTS)
conditions = st.sampled_from([None, "class", "degree", "mailbox"])


def fit(problem, **params):
    rule = PredictionSets(**params)
    inputs = {"graph": problem.graph, "features": problem.features}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        return rule.fit(
            problem.probs, problem.y, mask=problem.mask, used_for_selection=False, **inputs
        )


def predict(rule, problem, **more):
    inputs = {"graph": problem.graph, "features": problem.features}
    return rule.predict_sets(problem.probs, **inputs, **more)


@every_score
def test_sets_are_the_classes_below_the_threshold(score):
    scores = {
        "lac": np.array([by_hand.lac(p) for p in PROBLEM.probs]),
        "aps": np.array([by_hand.aps(p, 0.0) for p in PROBLEM.probs]),
    }
    scores["raps"] = np.array([by_hand.aps(p, 0.0, 0.01, 1) for p in PROBLEM.probs])
    near = (by_hand.neighbour_lists(PROBLEM.graph),)
    scores["daps"] = by_hand.mixed(scores["aps"], [(0.5, *near)])
    alike = by_hand.similar_lists(PROBLEM.features, 20)
    scores["snaps"] = by_hand.mixed(scores["aps"], [(1 / 3, *near), (1 / 3, alike)])
    own = scores[score][PROBLEM.mask, PROBLEM.y[PROBLEM.mask]]
    expected = scores[score] <= by_hand.threshold(own, 0.8) + 1e-7
    whole = APS(randomized=False)
    named = {
        "lac": LAC(), "aps": whole, "raps": RAPS(randomized=False),
        "daps": DAPS(base=whole), "snaps": SNAPS(base=whole),
    }  # fmt: skip
    found = predict(fit(PROBLEM, coverage=0.8, score=named[score]), PROBLEM)
    np.testing.assert_array_equal(found, expected)


@every_score
@pytest.mark.parametrize("condition", [None, "class", "degree", "mailbox"])
def test_labels_outside_the_mask_cannot_be_read(score, condition):
    rule = PredictionSets(score=score, condition_on=condition)
    inputs = {"graph": PROBLEM.graph, "features": PROBLEM.features}
    found = audit.reads_only(rule, PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask, **inputs)
    assert found.passed, found.detail


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


@given(st.integers(0, 500), st.sampled_from(list(INPUTS)), conditions)
def test_more_coverage_means_larger_sets(seed, score, condition):
    problem = by_hand.make_problem(seed, n=60, labelled=30)
    small, large = (
        predict(fit(problem, coverage=c, score=score, condition_on=condition), problem)
        for c in (0.6, 0.85)
    )
    assert (small <= large).all()


@given(st.integers(0, 500), st.sampled_from(["lac", "aps", "raps"]), st.randoms())
def test_the_order_of_nodes_changes_nothing(seed, score, random):
    problem = by_hand.make_problem(seed, n=40, labelled=25)
    order = list(range(40))
    random.shuffle(order)
    rule = PredictionSets(coverage=0.8, score=score)
    sets = rule.fit(
        problem.probs, problem.y, mask=problem.mask, used_for_selection=False
    ).predict_sets(problem.probs)
    place = np.argsort(order)
    again = rule.fit(
        problem.probs[order], problem.y[order], mask=place[problem.mask], used_for_selection=False
    ).predict_sets(problem.probs[order])
    np.testing.assert_array_equal(again, sets[order])


@given(st.integers(0, 200), st.sampled_from(["daps", "snaps"]), conditions, st.randoms())
def test_the_order_of_nodes_changes_nothing_on_a_graph(seed, score, condition, random):
    problem = by_hand.make_problem(seed, n=40, labelled=25)
    order = list(range(40))
    random.shuffle(order)
    moved = replace(
        problem,
        probs=problem.probs[order],
        y=problem.y[order],
        graph=problem.graph.permute(order),
        features=problem.features[order],
        mask=np.argsort(order)[problem.mask],
    )
    one, other = (
        fit(p, coverage=0.8, score=score, condition_on=condition) for p in (problem, moved)
    )
    np.testing.assert_allclose(one.thresholds_, other.thresholds_, atol=1e-6)
    np.testing.assert_array_equal(one.counts_, other.counts_)


@given(st.integers(1, 18), conditions)
def test_too_few_labels_mean_all_classes(labelled, condition):
    problem = by_hand.make_problem(1, labelled=labelled)
    rule = PredictionSets(coverage=0.95, condition_on=condition)
    with pytest.warns(CalibrationWarning, match="19"):
        rule.fit(
            problem.probs,
            problem.y,
            mask=problem.mask,
            graph=problem.graph,
            used_for_selection=False,
        )
    assert predict(rule, problem).all()


def test_it_says_how_many_labels_are_needed():
    with pytest.warns(CalibrationWarning, match=r"5 calibration labels are too few.*at least 9"):
        PredictionSets().fit(PROBLEM.probs, PROBLEM.y, mask=range(5), used_for_selection=False)
    groups = np.repeat([7, 3, 11], 30)
    with pytest.warns(CalibrationWarning, match=r"1 of 3 groups.*9 calibration.*\(11: 0\)"):
        rule = PredictionSets(condition_on=groups).fit(
            PROBLEM.probs, PROBLEM.y, mask=range(60), used_for_selection=False
        )
    sets = rule.predict_sets(PROBLEM.probs)
    assert sets[60:].all()
    assert not sets[:60].all()
    np.testing.assert_array_equal(rule.counts_, [30, 30, 0])
    with pytest.warns(CalibrationWarning, match=r"of 4 classes.*they are in every set"):
        rule = PredictionSets(condition_on="class").fit(
            PROBLEM.probs, PROBLEM.y, mask=np.flatnonzero(PROBLEM.y < 3), used_for_selection=False
        )
    assert rule.predict_sets(PROBLEM.probs)[:, 3].all()


def exchangeable(rng, n, k=3):
    """Labels of a model that is far too sure of one group of nodes."""
    group = rng.integers(0, 3, n)
    logits = rng.normal(size=(n, k)) * np.array([0.5, 1.5, 4.0])[group, None]
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sharp = np.exp(np.array([4.0, 1.5, 1.0])[group, None] * logits)
    return sharp / sharp.sum(axis=1, keepdims=True), y, group


@pytest.mark.parametrize("score", ["lac", "aps", "raps"])
def test_coverage_is_what_was_promised(score):
    rng, hits, draws, labels = np.random.default_rng(7), 0, 300, 59
    for _ in range(draws):
        probs, y, _ = exchangeable(rng, labels + 20)
        rule = PredictionSets(coverage=0.85, score=score).fit(
            probs, y, mask=range(labels), used_for_selection=False
        )
        hits += coverage(rule.predict_sets(probs)[labels:], y[labels:]) * 20
    # With 59 labels the promise is met exactly: 51 / 60. Draws spread by at most ±3 σ.
    spread = math.sqrt(0.85 * 0.15 * (1 / 20 + 1 / (labels + 2)) / draws)
    assert hits / (20 * draws) == pytest.approx(0.85, abs=3 * spread)


@pytest.mark.parametrize("kind", ["groups", "members", "class"])
def test_every_group_is_covered(kind):
    rng = np.random.default_rng(11)
    hits, seen, plain = np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(60):
        probs, y, group = exchangeable(rng, 700)
        members = np.column_stack([group == 0, group <= 1, group == 2, np.arange(700) % 2 == 0])
        condition = {"groups": group, "members": members, "class": "class"}[kind]
        rule = PredictionSets(score="lac", condition_on=condition)
        sets = rule.fit(probs, y, mask=range(300), used_for_selection=False).predict_sets(probs)
        marginal = PredictionSets(score="lac").fit(
            probs, y, mask=range(300), used_for_selection=False
        )
        tested = np.arange(300, 700)
        parts = y[:, None] == np.arange(3) if kind == "class" else members
        for g in range(parts.shape[1]):
            chosen = tested[parts[tested, g]]
            hits[g] += sets[chosen, y[chosen]].sum()
            plain[g] += marginal.predict_sets(probs)[chosen, y[chosen]].sum()
            seen[g] += chosen.size
    found = (hits / np.maximum(seen, 1))[seen > 0]
    assert found.min() > 0.885
    assert found.max() < 0.93
    if kind != "class":  # what is promised to all is not kept for the difficult ones
        assert (plain[0] / seen[0]) < 0.86


def prior_file(path, error_free):
    """A prior that has seen this many calibration nodes that could not be wrong."""
    plain = dict.fromkeys((*term_names(hidden=False), "uniform"), 0.0)
    setting = prior.Setting(
        "a", "a", "gcn", 1, 50, plain, {}, bias=dict.fromkeys(prior.MODES, 0.0), bias_weight=1e-4,
        fewer_errors=error_free * 1e-3, fewer_errors_weight=1e-3,
    )  # fmt: skip
    prior.write([setting], path)
    return path


def test_nodes_that_chose_the_model_promise_too_much_unless_it_is_said(tmp_path):
    learned = prior_file(tmp_path / "prior.json", error_free=40)
    rng, found = np.random.default_rng(3), {True: [], False: []}
    for _ in range(150):
        logits = rng.normal(size=(400, 4)) * 2
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        y[:40] = probs[:40].argmax(axis=1)  # among the 150 calibration nodes, 40 are right by luck
        for fresh, values in found.items():
            rule = PredictionSets(score="lac", prior=learned)
            rule.fit(probs, y, mask=range(150), used_for_selection=not fresh)
            values.append(coverage(rule.predict_sets(probs)[150:], y[150:]))
    assert rule.error_weight_ == pytest.approx(150 / 110)
    assert np.mean(found[True]) < 0.88
    assert np.mean(found[False]) == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("condition", ["class", "degree", "members"])
def test_selection_bias_is_thought_of_in_every_group(tmp_path, condition):
    learned = prior_file(tmp_path / "prior.json", error_free=30)
    problem = by_hand.make_problem(8, n=1500, labelled=600)
    members = np.random.default_rng(0).random((1500, 3)) < 0.5
    on = members if condition == "members" else condition
    sizes = {}
    for fresh in (True, False):
        rule = PredictionSets(score="lac", condition_on=on, prior=learned)
        rule.fit(
            problem.probs,
            problem.y,
            mask=problem.mask,
            graph=problem.graph,
            used_for_selection=not fresh,
        )
        sizes[fresh] = rule.predict_sets(problem.probs, graph=problem.graph).sum(axis=1).mean()
    assert sizes[False] > sizes[True]


def test_without_a_prior_there_is_no_selection_bias():
    case = PROBLEM.probs, PROBLEM.y
    plain, none, learned = (
        PredictionSets(prior=given).fit(*case, mask=PROBLEM.mask, used_for_selection=not fresh)
        for given, fresh in (("learned", True), (None, False), ("learned", False))
    )
    np.testing.assert_array_equal(plain.thresholds_, none.thresholds_)
    assert plain.error_weight_ == none.error_weight_ == 1.0
    assert learned.error_weight_ > 1.0
    with pytest.raises(FileNotFoundError, match="no prior file 'nowhere'"):
        PredictionSets(prior="nowhere").fit(*case, mask=PROBLEM.mask)


def test_degree_and_mailbox_make_groups_of_about_a_quarter():
    problem = by_hand.make_problem(5, n=4000, labelled=2000)
    for condition in ("degree", "mailbox"):
        rule = fit(problem, condition_on=condition)
        assert rule.counts_.sum() == 2000
        assert rule.counts_.min() > 300
        assert len(rule.thresholds_) == 4


def test_sure_nodes_among_strangers_get_what_they_were_promised():
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
    probs = np.where(
        (side == 0)[:, None], np.stack([sure, 1 - sure], 1), np.stack([1 - sure, sure], 1)
    )
    y = np.where(right, side, 1 - side)
    graph = Graph.from_edges(ends, n)
    mask = np.arange(2000)
    rest = np.arange(2000, n)
    found = {}
    for condition in (None, "mailbox"):
        rule = PredictionSets(score="lac", condition_on=condition)
        rule.fit(probs, y, mask=mask, graph=graph, used_for_selection=False)
        sets = rule.predict_sets(probs, graph=graph)
        found[condition] = coverage_by_group(sets[rest], y[rest], stray[rest].astype(int))
    assert found["mailbox"].coverage[1] > found[None].coverage[1] + 0.1


def test_torch_in_torch_out():
    numpy_sets = predict(fit(PROBLEM, score="daps", condition_on="mailbox"), PROBLEM)
    rule = PredictionSets(score="daps", condition_on="mailbox")
    probs, y = torch.from_numpy(PROBLEM.probs), torch.from_numpy(PROBLEM.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        rule.fit(
            probs,
            y,
            mask=torch.from_numpy(PROBLEM.mask),
            graph=PROBLEM.graph,
            used_for_selection=False,
        )
    sets = rule.predict_sets(probs, graph=PROBLEM.graph)
    assert isinstance(sets, torch.Tensor)
    assert sets.dtype == torch.bool
    np.testing.assert_array_equal(sets.numpy(), numpy_sets)


def test_other_nodes_and_another_graph():
    other = by_hand.make_problem(9, n=33)
    for condition in (None, "class", "degree", "mailbox"):
        sets = predict(fit(PROBLEM, score="snaps", condition_on=condition), other)
        assert sets.shape == (33, 4)
    groups = np.arange(90) % 2
    rule = fit(PROBLEM, condition_on=groups)
    with pytest.raises(TypeError, match="33 nodes, but the groups in condition_on are those of 90"):
        predict(rule, other)
    with pytest.warns(CalibrationWarning, match="group 5 was not there"):
        sets = predict(rule, other, groups=np.full(33, 5))
    assert sets.all()
    np.testing.assert_array_equal(
        predict(rule, other, groups=torch.ones(33, dtype=torch.int64))[:5],
        PredictionSets.predict_sets(rule, other.probs, groups=np.ones(33, int))[:5],
    )


@pytest.mark.parametrize("condition", [None, "class", "degree", "mailbox", "groups", "members"])
@pytest.mark.parametrize("score", ["lac", DAPS(weight=0.3, base=APS(randomized=False))], ids=repr)
def test_a_file_holds_the_whole_rule(tmp_path, condition, score):
    rng = np.random.default_rng(0)
    given_groups = {"groups": rng.integers(0, 3, 90), "members": rng.random((90, 3)) < 0.5}
    rule = fit(PROBLEM, score=score, condition_on=given_groups.get(condition, condition))
    rule.save(tmp_path / "rule.safetensors")
    again = load_rule(tmp_path / "rule.safetensors")
    assert isinstance(again, PredictionSets)
    assert again.score == score
    np.testing.assert_array_equal(predict(again, PROBLEM), predict(rule, PROBLEM))


def test_a_file_of_something_else_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        PredictionSets().save(tmp_path / "x")
    cal = TemperatureScaling().fit(np.log(PROBLEM.probs), PROBLEM.y, mask=PROBLEM.mask)
    cal.save(tmp_path / "cal")
    with pytest.raises(FileFormatError, match="not a simi-mailbox rule"):
        load_rule(tmp_path / "cal")
    fit(PROBLEM).save(tmp_path / "rule")
    with pytest.raises(FileFormatError, match="not a simi-mailbox calibrator"):
        load(tmp_path / "rule")
    bad = fit(PROBLEM)
    bad.thresholds_ = np.array([math.nan])
    bad.save(tmp_path / "bad")
    with pytest.raises(FileFormatError, match="thresholds_ is not a number"):
        load_rule(tmp_path / "bad")
    bad = fit(PROBLEM).set_params(coverage=3.0)
    bad.save(tmp_path / "bad")
    with pytest.raises(FileFormatError, match="coverage must be a finite number"):
        load_rule(tmp_path / "bad")
    whole = (tmp_path / "rule").read_bytes()
    (tmp_path / "rule").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match="damaged"):
        load_rule(tmp_path / "rule")


def test_parameters_are_kept_and_shown():
    rule = PredictionSets(coverage=0.8, score=LAC(), condition_on="degree")
    assert repr(rule) == "PredictionSets(condition_on='degree', coverage=0.8, score=LAC())"
    assert repr(PredictionSets()) == "PredictionSets()"
    assert clone(rule).get_params() == rule.get_params()
    assert rule.set_params(coverage=0.7).coverage == 0.7
    with pytest.raises(ValueError, match="Invalid parameter 'alpha'"):
        rule.set_params(alpha=0.1)


BAD_PARAMS = [
    ({"coverage": 0.0}, ValueError, r"coverage must be a finite number in \(0, 1\), got 0.0"),
    ({"coverage": 1.0}, ValueError, r"coverage must be a finite number in \(0, 1\)"),
    ({"coverage": 90}, ValueError, r"coverage must be a finite number in \(0, 1\), got 90"),
    ({"coverage": math.nan}, ValueError, "coverage must be a finite number"),
    ({"coverage": "high"}, ValueError, "coverage must be a finite number"),
    ({"score": "apps"}, ValueError, "unknown score 'apps'"),
    ({"condition_on": "degrees"}, ValueError, "unknown condition_on 'degrees'; choose from: class"),
    ({"condition_on": np.zeros(5, int)}, ValueError, r"groups have shape \[5\]; expected.*\[90\]"),
    ({"condition_on": np.zeros(90)}, TypeError, "groups must be whole numbers"),
    ({"condition_on": np.full((90, 2), 0.5)}, ValueError, "memberships must be true or false"),
    (
        {"condition_on": "degree", "groups": 1},
        ValueError,
        "groups must be a whole number ≥ 2, got 1",
    ),
]


@pytest.mark.parametrize(("params", "error", "message"), BAD_PARAMS)
def test_bad_parameters(params, error, message):
    rule = PredictionSets(**params)
    with pytest.raises(error, match=message):
        rule.fit(
            PROBLEM.probs,
            PROBLEM.y,
            mask=PROBLEM.mask,
            graph=PROBLEM.graph,
            used_for_selection=False,
        )
    with pytest.raises(NotFittedError):
        rule.predict_sets(PROBLEM.probs)


BAD_INPUTS = [
    ({"probs": PROBLEM.probs * 5}, ValueError, "expected a probability|sum to"),
    ({"probs": PROBLEM.probs[:, :1] * 0 + 1}, ValueError, "one column"),
    ({"mask": None}, TypeError, "mask is missing"),
    ({"mask": []}, ValueError, "mask selects no node"),
    ({"mask": [0, 90]}, ValueError, "names node 90"),
    ({"y": PROBLEM.y + 2}, ValueError, "has label"),
    ({"y": PROBLEM.y[:7]}, ValueError, r"labels of shape \[7\]"),
    ({"graph": None}, TypeError, r"needs graph: pass graph=…"),
    ({"graph": Graph.empty(7)}, ValueError, "7 nodes"),
    ({"features": None}, TypeError, "needs features"),
    ({"features": PROBLEM.features[:3]}, ValueError, "one row per node"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD_INPUTS)
def test_bad_inputs(change, error, message):
    inputs = {
        "probs": PROBLEM.probs, "y": PROBLEM.y, "mask": PROBLEM.mask,
        "graph": PROBLEM.graph, "features": PROBLEM.features,
    } | change  # fmt: skip
    rule = PredictionSets(score="snaps")
    with pytest.raises(error, match=message):
        rule.fit(inputs.pop("probs"), inputs.pop("y"), used_for_selection=False, **inputs)


def test_bad_use():
    rule = fit(PROBLEM)
    with pytest.raises(ValueError, match="3 classes, but this PredictionSets was fitted on 4"):
        rule.predict_sets(np.full((5, 3), 1 / 3))
    with pytest.raises(TypeError, match="makes its own groups"):
        rule.predict_sets(PROBLEM.probs, groups=np.zeros(90, int))
    with pytest.raises(NotFittedError, match="PredictionSets is not fitted"):
        PredictionSets().predict_sets(PROBLEM.probs)
    members = np.ones((90, 2), bool)
    rule = fit(PROBLEM, condition_on=members)
    with pytest.raises(ValueError, match="memberships in 3 groups, but fit saw 2"):
        rule.predict_sets(PROBLEM.probs, groups=np.ones((90, 3), bool))
    with pytest.raises(ValueError, match="fit saw memberships"):
        rule.predict_sets(PROBLEM.probs, groups=np.ones(90, int))
    with pytest.raises(ValueError, match="fit saw one group per node"):
        fit(PROBLEM, condition_on=np.zeros(90, int)).predict_sets(PROBLEM.probs, groups=members)


def test_a_summary_tells_labels_and_luck():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([0.3, 0.3, 0.3], size=400)
    y = (rng.random((400, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=2)
    rule = PredictionSets(score="lac").fit(probs, y, mask=range(200))
    told = rule.summary()
    assert "score='lac'" in told
    assert "; 200 calibration labels;" in told
    assert f"counts for {rule.error_weight_:.2f}" in told
    assert (
        "counts for" not in rule.fit(probs, y, mask=range(200), used_for_selection=False).summary()
    )
    rule.set_params(condition_on="class").fit(probs, y, mask=range(200), used_for_selection=False)
    assert "calibration labels in each of 3 groups" in rule.summary()
    gate = Accept(max_error=0.4).fit(probs, y, mask=range(200), used_for_selection=False)
    assert f"{gate.errors_} of {gate.accepted_labels_} accepted" in gate.summary()
    with pytest.raises(NotFittedError):
        Accept().summary()


@pytest.mark.parametrize("wrong", [0, 5, 20, 60, 100])
@pytest.mark.parametrize("weight", [1.0, 1.4, 3.0, 1e3])
def test_weights_of_nodes_are_one_on_average_and_never_negative(wrong: int, weight: float) -> None:
    """An error counts for ``weight``, but no more than halfway to where right nodes count for 0."""
    errors = np.arange(100) < wrong
    found = node_weights(errors, weight)
    assert found.mean() == pytest.approx(1.0)
    assert found.min() >= 0
    if wrong in (0, 100):
        np.testing.assert_array_equal(found, 1.0)
        return
    cap = (1 + 100 / wrong) / 2
    np.testing.assert_allclose(found[errors], min(weight, cap))
    assert (found[~errors] > 0).all()


def test_nodes_on_the_edge_of_mailbox_groups_are_above_it() -> None:
    """Five nodes in a ring: the median node, and the median agreement, are those of a node."""
    p = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    probs, graph = np.stack([p, 1 - p], axis=1), Graph.from_edges([range(5), [1, 2, 3, 4, 0]], 5)
    alike = expected_agreement(probs, graph)
    edges = mailbox_edges(probs, graph)
    above = probs.max(axis=1) >= 0.7
    expected = [0.7, np.median(alike[~above]), np.median(alike[above])]
    np.testing.assert_allclose(edges, expected)
    agree = [alike[i] >= expected[1 + int(above[i])] for i in range(5)]
    found = mailbox_groups(probs, graph, edges)
    np.testing.assert_array_equal(found, 2 * above + np.array(agree))
    assert found[2] >= 2  # the median node
    assert set(found[above]) == {2, 3}


def test_a_node_that_is_less_sure_than_all_that_were_seen_agrees_with_its_neighbours() -> None:
    """All nodes are equally sure: of unsure ones nothing is known: any agreement is high."""
    alike, graph = np.tile([0.8, 0.2], (4, 1)), Graph.from_edges([[0, 1], [1, 2]], 4)
    edges = mailbox_edges(alike, graph)
    assert edges.tolist() == [0.8, 0.0, pytest.approx(0.68)]
    assert mailbox_groups(np.tile([0.6, 0.4], (4, 1)), graph, edges).tolist() == [1, 1, 1, 1]
    assert expected_agreement(alike, graph).tolist() == [pytest.approx(0.68)] * 3 + [0.0]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(2, 6))
def test_edges_of_parts_are_values_that_have_others_below_them(values, groups) -> None:
    found = quantile_edges(np.array(values), groups)
    ordered = sorted(values)
    cuts = {ordered[len(values) * g // groups] for g in range(1, groups)}
    assert found.tolist() == sorted(v for v in cuts if v > ordered[0])


@pytest.mark.parametrize(("labels", "told"), [(9, False), (8, True)])
def test_as_many_labels_as_the_coverage_needs_are_enough(labels, told) -> None:
    probs = np.tile([0.7, 0.3], (60, 1))
    y = np.arange(60) % 2
    rule = PredictionSets(coverage=0.9, score="lac")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rule.fit(probs, y, mask=range(labels), used_for_selection=False)
        rule.set_params(condition_on="class")
        rule.fit(probs, y, mask=range(2 * labels), used_for_selection=False)
    assert len(caught) == 2 * told
    if told:
        assert "8 calibration labels are too few" in str(caught[0].message)
        assert "at least 9 are needed" in str(caught[0].message)
        assert "2 of 2 classes have fewer than the 9" in str(caught[1].message)
        assert "(0: 8, 1: 8): they are in every set" in str(caught[1].message)


def test_at_most_five_groups_with_too_few_labels_are_named() -> None:
    probs, y = np.tile([0.7, 0.3], (60, 1)), np.arange(60) % 2
    for groups, more in ((5, False), (6, True)):
        rule = PredictionSets(score="lac", condition_on=10 * (np.arange(60) % groups))
        with pytest.warns(CalibrationWarning, match=f"{groups} of {groups} groups") as caught:
            rule.fit(probs, y, mask=range(groups), used_for_selection=False)
        named = ", ".join(f"{10 * g}: 1" for g in range(5)) + (", …" if more else "")
        assert f"({named}): their sets are all classes" in str(caught[0].message)


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        (np.zeros(4), TypeError, "whole numbers, one per node; got float64"),
        (np.zeros(3, int), ValueError, r"shape \[3\]; expected one group per node \[4\]"),
        (np.zeros((4, 1, 1), int), ValueError, r"memberships \[4, groups\]"),
        (np.full((4, 2), 2), ValueError, "true or false"),
    ],
)
def test_groups_that_are_none_are_refused(groups, error, message) -> None:
    with pytest.raises(error, match=message):
        read_groups(groups, 4)


def test_memberships_may_be_numbers_and_groups_truths() -> None:
    assert read_groups(np.array([[0, 1], [1, 1]]), 2).tolist() == [[False, True], [True, True]]
    assert read_groups(torch.tensor([True, False]), 2).tolist() == [1, 0]
