"""Choosing: the better method wins when labels can tell, and else nobody does."""

import numpy as np
import pytest
from scipy.special import softmax

from simi_mailbox import NotFittedError, TemperatureScaling, calibrators, select, selection
from simi_mailbox.selection import CandidateScore
from simi_mailbox.synthetic import calibration_problem

PAIR = ("uncalibrated", "temperature")


@pytest.fixture(scope="module")
def problem():
    return calibration_problem(800, 3, temperature=2.5, seed=1)


def test_the_truth_is_chosen_and_fitted_on_all_labels(problem):
    choice = select(
        problem.logits, problem.y, mask=range(400), methods=PAIR, default="uncalibrated"
    )
    alone = TemperatureScaling().fit(problem.logits, problem.y, mask=range(400))
    assert choice.name == "temperature"
    assert choice.calibrator.temperature_ == alone.temperature_
    assert [row.name for row in choice.evidence] == ["temperature", "uncalibrated"]
    best, base = choice.evidence
    assert best.difference < -2 * best.error < 0
    assert (base.difference, base.error) == (0.0, 0.0)
    assert best.nll - base.nll == pytest.approx(best.difference)
    verdict = "temperature: NLL significantly lower than that of uncalibrated, by 0."
    assert choice.verdict.startswith(verdict)
    assert len(str(choice).splitlines()) == 3
    choice = select(problem.logits, problem.y, mask=range(400), methods=PAIR, default="temperature")
    assert choice.verdict == "temperature: NLL significantly lower than that of every other"


@pytest.mark.parametrize("labels", [1, 9])
def test_fewer_labels_than_folds_need_give_the_default_without_evidence(problem, labels):
    choice = select(problem.logits, problem.y, mask=range(labels), graph=problem.graph)
    assert (choice.name, choice.evidence) == ("simi-mailbox", ())
    kept = "simi-mailbox (default kept: no other method is significantly better)"
    assert str(choice) == choice.verdict == kept
    assert choice.calibrator.predict_proba(problem.logits, graph=problem.graph).shape == (800, 3)


def test_no_label_outside_the_mask_is_read_and_seeds_cut_differently(problem):
    mask = np.arange(800) < 60
    hidden = np.where(mask, problem.y, -1)
    given = {"mask": mask, "methods": PAIR, "default": "uncalibrated"}
    found = [
        select(problem.logits, y, **given).evidence for y in (problem.y, hidden, problem.y[mask])
    ]
    assert found[0] == found[1] == found[2]
    assert select(problem.logits, problem.y, **given, seed=7).evidence != found[0]


def test_the_error_holds_its_promise():
    """Where two methods are alike, the default is left in no more than the risk taken."""
    left = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(60, 3)) * 2
        y = np.array([rng.choice(3, p=p) for p in softmax(logits, axis=1)])
        choice = select(logits, y, mask=range(60), methods=PAIR, default="uncalibrated", repeats=1)
        left += choice.name != "uncalibrated"
    assert left <= 5  # two are expected; six or more have a chance of 1 %


def test_calibrators_of_ones_own_are_compared_and_not_touched(problem):
    mine = TemperatureScaling()
    methods = {"mine": mine, "plain": calibrators.get("uncalibrated")()}
    choice = select(problem.logits, problem.y, mask=range(300), methods=methods, default="plain")
    assert choice.name == "mine"
    with pytest.raises(NotFittedError):
        mine.predict_proba(problem.logits)


def test_what_a_method_lacks_is_named(problem):
    with pytest.raises(TypeError, match="simi-mailbox needs graph=; or choose another default="):
        select(problem.logits, problem.y, mask=range(100))
    with pytest.raises(TypeError, match="gets needs features="):
        select(problem.logits, problem.y, mask=range(100), graph=problem.graph, methods=["gets"])
    twice = {"methods": ["temperature", TemperatureScaling()], "default": "temperature"}
    with pytest.raises(ValueError, match="two methods have one name"):
        select(problem.logits, problem.y, mask=range(100), **twice)


def test_all_that_a_method_uses_reaches_it(problem):
    hidden = np.eye(3)[problem.y] + np.random.default_rng(0).normal(size=(800, 3))
    given = {"mask": range(300), "graph": problem.graph, "train_mask": range(300, 400)}
    given |= {"hidden": hidden, "used_for_selection": False}
    choice = select(problem.logits, problem.y, **given, methods=["temperature"], repeats=1)
    alone = calibrators.get("simi-mailbox")().fit(problem.logits, problem.y, **given)
    np.testing.assert_array_equal(choice.calibrator.temperatures_, alone.temperatures_)
    with pytest.raises(TypeError, match="unknown argument 'fetures'; did you mean 'features'"):
        select(problem.logits, problem.y, mask=range(300), fetures=hidden)


def test_many_rivals_need_more_proof():
    rows = [CandidateScore("base", 1.0, 0.0, 0.0), CandidateScore("rival", 0.9, -0.1, 0.05)]
    assert selection._judge(tuple(rows), "base", 15)[0] == "rival"
    rows += [CandidateScore(f"other {k}", 1.1, 0.1, 0.05) for k in range(9)]
    assert selection._judge(tuple(rows), "base", 15)[0] == "base"
