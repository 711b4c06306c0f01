"""What every rule holds to: its labels, the order of nodes, kinds of arrays, files, mistakes."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.base import clone

from simi_mailbox import Graph, NotFittedError, audit
from simi_mailbox.decide import APS, DAPS, Accept, Alert, Costs, PredictionSets, load_rule
from tests.decide import references as by_hand

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")

PROBLEM = by_hand.make_problem(0, n=300, labelled=150)
CONDITIONS = (None, "class", "degree", "mailbox")
GROUPS, MEMBERS = np.arange(300) % 3, np.random.default_rng(0).random((300, 3)) < 0.5
SCORES = ("lac", "aps", "raps", "daps", "snaps", DAPS(weight=0.3, base=APS(randomized=False)))
RULES = [
    *(
        PredictionSets(coverage=0.8, score=s, condition_on=on)
        for s, on in product(SCORES, CONDITIONS)
    ),
    *(PredictionSets(coverage=0.8, score="lac", condition_on=on) for on in (GROUPS, MEMBERS)),
    *(Accept(max_error=0.4, **more) for more in ({}, {"per_class": True}, {"finite": True})),
    Accept(max_error=0.001),  # accepts nothing: its threshold is infinite
    *(Alert(**goal) for goal in ({"min_precision": 0.5}, {"min_recall": 0.5}, {"max_alerts": 9})),
    Alert(positive="b", classes=["a", "b", "inf", "nan"], min_precision=0.5),
    *(Costs(wrong=wrong, reject=0.5) for wrong in (4.0, np.ones((4, 4)) - np.eye(4))),
]
every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: " ".join(repr(rule).split()))


def fit(rule, given=PROBLEM):
    inputs = {"graph": given.graph, "features": given.features, "mask": given.mask}
    return clone(rule).fit(given.probs, given.y, used_for_selection=False, **inputs)


def answer(rule, given=PROBLEM):
    if isinstance(rule, PredictionSets):
        return rule.predict_sets(given.probs, graph=given.graph, features=given.features)
    names = {Accept: "accepts", Alert: "alerts", Costs: "actions"}
    return getattr(rule, names[type(rule)])(given.probs)


@every_rule
def test_labels_outside_the_mask_cannot_be_read(rule):
    hidden = np.full_like(PROBLEM.y, -7)
    hidden[PROBLEM.mask] = PROBLEM.y[PROBLEM.mask]
    np.testing.assert_equal(fit(rule, replace(PROBLEM, y=hidden))._state(), fit(rule)._state())
    inputs = {"graph": PROBLEM.graph, "features": PROBLEM.features}
    inputs = inputs if isinstance(rule, PredictionSets) else {}
    if isinstance(rule, PredictionSets | Accept):
        found = audit.reads_only(rule, PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask, **inputs)
        assert found.passed, found.detail


@every_rule
def test_a_file_holds_the_whole_rule(rule, tmp_path):
    rule = fit(rule)
    rule.save(tmp_path / "rule.json")
    again = load_rule(tmp_path / "rule.json")
    assert (type(again), repr(again)) == (type(rule), repr(rule))
    np.testing.assert_equal(again._state(), rule._state())
    np.testing.assert_array_equal(answer(again), answer(rule))
    if rule.get_params().get("max_error") == 0.001:
        assert again.threshold_ == math.inf


def test_a_file_holds_tensors_and_paths(tmp_path):
    prior = tmp_path / "prior.json"
    rule = PredictionSets(score="lac", condition_on=torch.from_numpy(GROUPS), prior=prior)
    rule = fit(rule)
    rule.save(tmp_path / "rule.json")
    again = load_rule(tmp_path / "rule.json")
    assert again.prior == str(prior)
    np.testing.assert_array_equal(answer(again), answer(rule))


@every_rule
def test_torch_in_torch_out(rule):
    tensors = {name: torch.from_numpy(getattr(PROBLEM, name)) for name in ("probs", "y", "mask")}
    given = replace(PROBLEM, **tensors)
    found = answer(fit(rule, given), given)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), answer(fit(rule)))


@every_rule
def test_the_order_of_nodes_changes_nothing(rule):
    order = np.random.default_rng(1).permutation(300)
    rows = {name: getattr(PROBLEM, name)[order] for name in ("probs", "y", "features")}
    place = np.argsort(order)
    graph = Graph.from_edges(place[PROBLEM.graph.edge_index().numpy()], 300)
    mask = place[PROBLEM.mask]
    moved = replace(PROBLEM, **rows, graph=graph, mask=mask)
    one, other, params = fit(rule), clone(rule), rule.get_params()
    if isinstance(on := params.get("condition_on"), np.ndarray):
        other.set_params(condition_on=on[order])
    other = fit(other, moved)
    if hasattr(one, "thresholds_"):
        np.testing.assert_allclose(one.thresholds_, other.thresholds_, atol=1e-6)
    alone = params.get("score", "lac") in ("lac", "aps", "raps")
    if alone and not (isinstance(on, str) and on == "mailbox"):  # sums over neighbours are rounded
        np.testing.assert_array_equal(answer(other, moved), answer(one)[order])


@every_rule
def test_mistakes_are_refused(rule):
    name = type(rule).__name__
    with pytest.raises(ValueError, match=f"3 classes, but this {name} was fitted on 4"):
        answer(fit(rule), replace(PROBLEM, probs=np.full((300, 3), 1 / 3)))
    with pytest.raises(TypeError, match="mask is missing"):
        fit(rule, replace(PROBLEM, mask=None))
    with pytest.raises(NotFittedError, match=f"{name} is not fitted"):
        clone(rule).save("nowhere")


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (PredictionSets, "coverage"),
        (Accept, "max_error"),
        (Accept, "confidence"),
        (Alert, "min_recall"),
        (Alert, "confidence"),
    ],
)
@pytest.mark.parametrize("bad", [0, 1.0, 5, math.nan, "high"])
def test_shares_lie_between_zero_and_one(rule, name, bad):
    with pytest.raises(ValueError, match=rf"{name} must be a finite .* \(0, 1\).*, got {bad!r}"):
        fit(rule(**{name: bad}))
