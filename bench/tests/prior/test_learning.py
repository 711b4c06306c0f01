"""What is learned from past runs, against known answers, and SimiMailbox with such a prior."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from past_run import past_run
from simi_mailbox import SimiMailbox, prior
from simi_mailbox.calibrators.simi_mailbox.evidence import CLASSES
from simi_mailbox.calibrators.simi_mailbox.model import Coefficients
from simi_mailbox.metrics import nll
from simi_mailbox_bench import datasets
from simi_mailbox_bench.backbones import Settings, train
from simi_mailbox_bench.prior import learning
from simi_mailbox_bench.prior.learning import coefficients, gather, look_at, redrawn, selection_bias

VAGUE = Coefficients.vague(("log_degree", "inverse_degree", *CLASSES[:-1]))


def test_known_numbers_are_recovered_from_graphs():
    runs = [past_run(seed, uniform=0.1, inverse_degree=-4.0, name=str(seed)) for seed in range(5)]
    mixed = prior.prior_of(gather(runs)).plain.location
    plain = gather(past_run(seed, name=str(seed)) for seed in range(5))
    none = prior.prior_of(plain).plain.location
    assert mixed["inverse_degree"] < none["inverse_degree"] - 1
    assert abs(none["log_degree"]) < 0.2
    assert mixed["uniform"] > none["uniform"] + 1


def test_labels_that_follow_their_neighbours_are_believed():
    run = past_run(0)
    label = np.random.default_rng(0).integers(4, size=3000)
    run.graph.edge_index()
    y = run.y.copy()
    for node in range(0, 3000, 2):  # half of the nodes are what their first neighbour is
        friends = run.graph.neighbours(node)
        y[node] = y[friends[0]] if len(friends) else label[node]
    friendly = coefficients(look_at(replace(run, y=y)), hidden=False)
    assert friendly["labels"] > coefficients(look_at(run), hidden=False)["labels"] + 1


def test_a_run_teaches_what_its_inputs_allow():
    run = past_run(0)
    hidden = np.asarray(run.logits) + np.random.default_rng(0).normal(size=run.logits.shape)
    (setting,) = gather([replace(run, hidden=hidden)])
    assert "hidden" not in setting.plain
    assert set(setting.hidden) == {*setting.plain, "hidden"}
    assert gather([run])[0].hidden == {}


def test_runs_of_one_setting_are_averaged():
    one, two = past_run(0), past_run(1)
    (both,) = gather([one, two])
    parts = [gather([run])[0] for run in (one, two)]
    assert both.runs == 2
    for name in ("bias_weight", "fewer_errors", "fewer_errors_weight"):
        expected = np.mean([getattr(part, name) for part in parts])
        assert getattr(both, name) == pytest.approx(expected)
    for table in ("plain", "bias"):
        for name, value in getattr(both, table).items():
            assert value == pytest.approx(np.mean([getattr(part, table)[name] for part in parts]))


def test_selection_bias_is_what_confidence_exceeds_accuracy_by():
    """Calibration labels that are all as predicted make a fit overconfident elsewhere."""
    run = past_run(0)
    y = np.array(run.y)
    y[:300] = np.asarray(run.logits).argmax(axis=1)[:300]
    too_good, fair = (selection_bias(look_at(r), VAGUE) for r in (replace(run, y=y), run))
    for mode in ("kept", "free"):
        assert too_good[mode] / np.sqrt(too_good["weight"]) > 0.05
        assert abs(fair[mode]) / np.sqrt(fair["weight"]) < 0.03


def test_a_setting_is_not_judged_by_its_own_family():
    """The bias of a graph is left by a fit that believes in other families alone."""
    one, two = past_run(0, name="a"), past_run(1, inverse_degree=-4.0, name="b")
    alone = gather([replace(one, family="x")])[0]
    kin = gather([replace(one, family="x"), replace(two, family="x")])[0]
    unrelated = gather([replace(one, family="x"), replace(two, family="y")])[0]
    assert kin.bias == alone.bias
    assert unrelated.bias != alone.bias


def test_unselected_nodes_are_drawn_from_those_that_nobody_had():
    run = replace(past_run(0), train=np.arange(400, 700))
    drawn = redrawn(run)
    assert len(drawn.calibration) == 300
    assert drawn.calibration.min() >= 300
    assert not np.intersect1d(drawn.calibration, run.train).size
    assert (drawn.y[:300] == -1).all()


def test_cached_runs_are_looked_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path))
    run = replace(past_run(0), train=np.arange(400, 700), hidden=past_run(0).logits)
    asked = []
    monkeypatch.setattr(learning, "past_run", lambda cached: asked.append(cached) or run)
    cache = SimpleNamespace(find=lambda key: run if key == "there" else None)
    found = [learning.cached_look(cache, "there") for _ in range(2)]
    assert asked == [run]
    assert learning.cached_look(cache, "gone") is None
    for own, drawn in found:
        for look, made in ((own, look_at(run)), (drawn, look_at(redrawn(run)))):
            for given in (False, True):
                assert coefficients(look, hidden=given) == coefficients(made, hidden=given)
            assert selection_bias(look, VAGUE) == selection_bias(made, VAGUE)
        assert (own.labels, own.hidden, own.error) == (300, True, look_at(run).error)


def test_labels_that_could_not_be_wrong_are_counted():
    many, found = 60, []
    for seed in range(12):
        run = past_run(seed, name=str(seed))
        y = np.array(run.y)
        chosen = np.random.default_rng(seed).choice(300, many, replace=False)
        y[chosen] = np.asarray(run.logits).argmax(axis=1)[chosen]
        found.append(replace(run, y=y))
    plain = prior.prior_of(gather(past_run(seed, name=str(seed)) for seed in range(12)))
    assert prior.prior_of(gather(found)).error_free_labels == pytest.approx(many, abs=15)
    assert plain.error_free_labels < 15


def test_nodes_without_a_label_are_not_looked_at():
    run = past_run(0)
    y = np.where(np.arange(3000) // 500 == 4, -1, run.y)
    look = look_at(replace(run, y=y))
    assert len(look.others_y) == 2200
    assert (look.others_y >= 0).all()


def test_past_runs_that_teach_nothing_are_refused():
    with pytest.raises(ValueError, match="no labelled node is left"):
        gather([replace(past_run(0), train=np.arange(300, 3000))])


def calibrated(run, chosen):
    cal = SimiMailbox(prior=chosen)
    cal.fit(run.logits, run.y, graph=run.graph, mask=run.calibration)
    return cal.predict_proba(run.logits, graph=run.graph)


def test_a_right_prior_helps_where_labels_are_few(tmp_path):
    past = [past_run(seed, uniform=0.15, name=str(seed)) for seed in range(5)]
    path = tmp_path / "own.json"
    prior.write(gather(past), path)
    gains = []
    for seed in range(10, 20):
        run = past_run(seed, uniform=0.15, labels=100)
        rest = np.arange(100, 3000)
        scores = [nll(calibrated(run, p)[rest], run.y[rest]) for p in (path, None)]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.01


def test_confidence_is_accuracy_where_labels_nearby_say_nearly_all():
    digits = datasets.load("Digits")
    split = datasets.make_split(digits, "sparse")
    z = train(digits, split, "gcn", seed=0, settings=Settings(epochs=100)).logits.numpy()
    calibrator = SimiMailbox().fit(z, digits.y, mask=split.val, graph=digits.graph)
    probs = calibrator.predict_proba(z, graph=digits.graph)
    assert calibrator.coefficients_["trust"] > 0.99
    right = (z.argmax(axis=1) == digits.y)[split.test].mean()
    assert probs[split.test].max(axis=1).mean() == pytest.approx(right, abs=0.01)
