"""SimiMailbox with a prior: better where it is right, unharmed where it is wrong."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import simi_mailbox
from simi_mailbox import (
    CalibrationWarning,
    Graph,
    SimiMailbox,
    TemperatureScaling,
    prior,
)
from simi_mailbox.metrics import ece, nll
from simi_mailbox.prior import Corpus
from simi_mailbox.prior.baseline import Baseline
from simi_mailbox.synthetic import calibration_problem
from tests.prior.conftest import setting
from tests.prior.past_run import past_run


@pytest.fixture
def sure(tmp_path):
    """A prior file that expects many blind guesses, firmly."""
    path = tmp_path / "sure.json"
    prior.write(Corpus(tuple(setting(str(k), 0.01 * k) for k in range(5))), path)
    return path


def fit(run, **parameters):
    return SimiMailbox(**parameters).fit(run.logits, run.y, graph=run.graph, mask=run.calibration)


def test_the_baseline_follows_the_evidence():
    many = {"n": 6000, "labels": 4000}
    blind = fit(past_run(0, blind=0.15, **many)).baseline_
    lonely = fit(past_run(0, inverse_degree=-5.0, **many)).baseline_
    neither = fit(past_run(0, **many)).baseline_
    assert blind["blind"] > 0.08 > 4 * neither["blind"]

    def of_the_lonely(baseline):
        """Exponent of a node with one neighbour, relative to one with eight."""
        return baseline["log_degree"] * np.log(2 / 9) + baseline["inverse_degree"] * (1 / 2 - 1 / 9)

    assert of_the_lonely(lonely) < of_the_lonely(neither) - 0.5


def test_few_labels_move_the_baseline_less_than_many(sure):
    few, many = (
        fit(past_run(0, labels=labels), prior=sure).baseline_["blind"] for labels in (25, 2500)
    )
    assert many < few


def test_a_wrong_prior_does_little_harm_where_labels_are_many(sure):
    run = past_run(3, labels=1500)
    rest = np.arange(1500, 3000)

    def error(calibrator):
        calibrator.fit(run.logits, run.y, graph=run.graph, mask=run.calibration)
        return ece(calibrator.predict_proba(run.logits, graph=run.graph)[rest], run.y[rest])

    assert error(SimiMailbox(prior=sure)) < error(TemperatureScaling()) + 0.01


def test_strength_follows_the_evidence():
    def truth(confidence, similarity):
        return np.where(similarity > np.median(similarity), 0.5, 2.5)

    alike = calibration_problem(8000, 4, seed=0)
    unlike = calibration_problem(8000, 4, temperature=truth, seed=0)
    strengths = [
        SimiMailbox().fit(p.logits, p.y, graph=p.graph, mask=range(4000)).prior_strength_
        for p in (alike, unlike)
    ]
    assert strengths[0] > 3 * strengths[1]
    given = SimiMailbox(prior_strength=70.0)
    given.fit(alike.logits, alike.y, graph=alike.graph, mask=range(4000))
    assert given.prior_strength_ == 70.0


def test_without_a_prior_groups_are_shrunk_to_the_one_temperature():
    plain = fit(past_run(0), prior=None)
    assert (plain.prior_strength_, plain.prior_) == (100.0, {})
    assert plain.baseline_ == Baseline(plain.temperature_).fields()
    assert not plain.prior_means_.any()


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("selecting", [True, False])
def test_the_prior_means_are_the_luck_and_targets_are_met(keep, selecting):
    run = past_run(0, n=4000, labels=900)
    given = {"graph": run.graph, "mask": run.calibration, "used_for_selection": selecting}
    cal = SimiMailbox(n_groups=6, keep_classes=keep).fit(run.logits, run.y, **given)
    # Groups that change nothing leave the baseline; what it says of the predicted class is due.
    bare = copy.copy(cal)
    bare.temperatures_ = np.full(6, cal.baseline_["temperature"])
    bare.keep_classes = False
    said = bare.predict_proba(run.logits, graph=run.graph)
    predicted = (run.logits if keep else said).argmax(1)
    before = said[np.arange(4000), predicted]
    after = cal.predict_proba(run.logits, graph=run.graph).max(1)
    right = predicted == run.y
    plain = TemperatureScaling().fit(run.logits, run.y, mask=run.calibration)
    error = ((1 - plain.predict_proba(run.logits)[run.calibration].max(1)).sum() + 1) / 902
    level = cal.prior_["kept" if keep else "free"]
    drop = level["luck" if selecting else "fresh_luck"] * error * before.mean() / 900
    sizes = np.bincount(cal.groups_, minlength=6)
    assert sizes @ cal.prior_means_ / 4000 == pytest.approx(-drop, abs=2e-4)
    for group in range(6):
        members = cal.groups_ == group
        labelled = np.intersect1d(np.flatnonzero(members), run.calibration)
        found = (right[labelled] - before[labelled]).sum()
        s = cal.prior_strength_
        shift = cal.prior_means_[group] + found / (len(labelled) + s)
        assert after[members].mean() == pytest.approx(before[members].mean() + shift, abs=1e-6)


def test_certain_labels_do_not_make_certain_nodes():
    run = past_run(0)
    y = run.logits.argmax(1)
    with pytest.warns(CalibrationWarning, match="all 300 calibration nodes are predicted right"):
        cal = SimiMailbox().fit(run.logits, y, graph=run.graph, mask=run.calibration)
    assert 0 < cal.baseline_["blind"] < 0.001
    assert nll(cal.predict_proba(run.logits, graph=run.graph), run.y) < 10


def test_too_few_labels_mean_temperature_scaling_and_no_prior():
    run = past_run(0, labels=12)
    with pytest.warns(CalibrationWarning, match="cannot support 20 groups"):
        cal = fit(run)
    plain = TemperatureScaling().fit(run.logits, run.y, mask=run.calibration)
    np.testing.assert_allclose(
        cal.predict_proba(run.logits, graph=run.graph), plain.predict_proba(run.logits)
    )
    assert cal.prior_ == {}


def test_saved_calibrators_do_not_need_the_prior_file(sure, tmp_path):
    run = past_run(0)
    cal = fit(run, prior=sure)
    cal.save(tmp_path / "cal.safetensors")
    sure.unlink()
    again = simi_mailbox.load(tmp_path / "cal.safetensors")
    assert again.prior_ == cal.prior_
    assert again.baseline_ == cal.baseline_
    np.testing.assert_array_equal(
        again.predict_proba(run.logits, graph=run.graph),
        cal.predict_proba(run.logits, graph=run.graph),
    )


def test_priors_by_name_survive_saving(tmp_path):
    run = past_run(0)
    cal = fit(run, prior=prior.leave_out("Cora"))
    cal.save(tmp_path / "cal.safetensors")
    assert simi_mailbox.load(tmp_path / "cal.safetensors").prior == prior.leave_out("Cora")
    assert "Cora" not in cal.prior_["origin"]


@pytest.mark.parametrize("classes", [2, 200])
@pytest.mark.parametrize("labels", [20, 21, 400])
@pytest.mark.parametrize("edges", [False, True])
def test_unusual_graphs_are_never_much_worse_than_temperature_scaling(classes, labels, edges):
    problem = calibration_problem(2000, classes, temperature=1.5, seed=1)
    graph = problem.graph if edges else Graph.from_edges(np.empty((2, 0), dtype=np.int64), 2000)
    mask, rest = np.arange(labels), np.arange(labels, 2000)

    def loss(calibrator):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calibrator.fit(problem.logits, problem.y, graph=graph, mask=mask)
        probs = calibrator.predict_proba(problem.logits, graph=graph)
        assert np.isfinite(probs).all()
        return nll(probs[rest], problem.y[rest])

    assert loss(SimiMailbox()) < loss(TemperatureScaling()) + 0.02
