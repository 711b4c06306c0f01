"""SimiMailbox with a prior: better where it is right, unharmed where it is wrong."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
import torch

import simi_mailbox
from simi_mailbox import Graph, SimiMailbox, TemperatureScaling, audit, prior
from simi_mailbox.data.synthetic import calibration_problem
from simi_mailbox.metrics import ece, nll
from simi_mailbox.prior import Corpus
from tests.prior.conftest import past_run, setting


@pytest.fixture
def steep(tmp_path):
    """A prior file that expects a slope of -0.3."""
    path = tmp_path / "steep.json"
    prior.write(Corpus(tuple(setting(str(k), -0.1 - 0.1 * k) for k in range(5))), path)
    return path


def fit(run, **parameters):
    return SimiMailbox(**parameters).fit(run.logits, run.y, graph=run.graph, mask=run.calibration)


def test_trust_follows_the_evidence(steep):
    right = fit(past_run(0, slope=-0.6, labels=2000), prior=steep)
    wrong = fit(past_run(0, slope=+0.9, labels=2000), prior=steep)
    assert right.prior_weight_ > 0.5
    assert wrong.prior_weight_ < 0.1


def test_few_labels_move_trust_less_than_many(steep):
    few, many = (
        fit(past_run(0, slope=0.9, labels=labels), prior=steep).prior_weight_
        for labels in (25, 2000)
    )
    assert many < few < prior.read(steep).prior().weight


def test_a_right_prior_helps_where_labels_are_few(tmp_path):
    train = [past_run(seed, slope=-0.5, name=str(seed)) for seed in range(5)]
    path = tmp_path / "own.json"
    prior.write(Corpus(tuple(prior.gather(train))), path)
    gains = []
    for seed in range(10, 20):
        run = past_run(seed, slope=-0.5, labels=100)
        rest = np.arange(100, 3000)
        scores = [
            ece(fit(run, prior=p).predict_proba(run.logits, graph=run.graph)[rest], run.y[rest])
            for p in (path, None)
        ]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.002


def test_a_wrong_prior_does_little_harm_where_labels_are_many(steep):
    run = past_run(3, slope=0.3, labels=1500)
    rest = np.arange(1500, 3000)

    def error(calibrator):
        calibrator.fit(run.logits, run.y, graph=run.graph, mask=run.calibration)
        return ece(calibrator.predict_proba(run.logits, graph=run.graph)[rest], run.y[rest])

    assert error(SimiMailbox(prior=steep)) < error(TemperatureScaling()) + 0.01


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
    assert (plain.prior_strength_, plain.prior_weight_, plain.prior_) == (100.0, 0.0, {})
    assert not plain.prior_means_.any()


def test_the_prior_means_are_the_formula():
    run = past_run(0)
    cal = fit(run, n_groups=6)
    z = torch.from_numpy(run.logits)
    c = simi_mailbox.softmax.confidence(z, cal.temperature_).numpy()
    numbers = cal.prior_
    for group in range(6):
        own = c[cal.groups_ == group].mean()
        expected = cal.prior_weight_ * numbers["slope"] * (own - c.mean())
        assert cal.prior_means_[group] == pytest.approx(expected - numbers["luck"] * own / 300)


def test_saved_calibrators_do_not_need_the_prior_file(steep, tmp_path):
    run = past_run(0)
    cal = fit(run, prior=steep)
    cal.save(tmp_path / "cal.safetensors")
    steep.unlink()
    again = simi_mailbox.load(tmp_path / "cal.safetensors")
    assert again.prior_ == cal.prior_
    assert again.prior_weight_ == cal.prior_weight_
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


def test_only_calibration_labels_are_read():
    run = past_run(0)
    graph = {"graph": run.graph}
    assert audit.reads_only(SimiMailbox(), run.logits, run.y, mask=run.calibration, **graph)


def test_order_of_nodes_does_not_matter():
    run = past_run(0)
    order = np.random.default_rng(0).permutation(3000)
    position = np.argsort(order)
    edges = position[run.graph.edge_index().numpy()]
    other = SimiMailbox().fit(
        run.logits[order], run.y[order], graph=edges, mask=position[run.calibration]
    )
    one = fit(run)
    assert other.prior_weight_ == pytest.approx(one.prior_weight_, abs=1e-12)
    np.testing.assert_allclose(
        other.predict_proba(run.logits[order], graph=edges),
        one.predict_proba(run.logits, graph=run.graph)[order],
        rtol=1e-6,
        atol=1e-9,
    )


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


def test_a_prior_costs_next_to_nothing():
    problem = calibration_problem(40_000, 10, seed=0)

    def seconds(chosen):
        started = time.process_time()
        SimiMailbox(prior=chosen).fit(
            problem.logits, problem.y, graph=problem.graph, mask=range(8000)
        )
        return time.process_time() - started

    seconds("learned")
    pairs = [(seconds("learned"), seconds(None)) for _ in range(5)]
    # The bar is 10 %; the test leaves room for a busy machine.
    assert min(a for a, _ in pairs) < 1.3 * min(b for _, b in pairs)
