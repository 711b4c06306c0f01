"""What is learned from past runs, against known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from past_run import past_run
from simi_mailbox.prior import Corpus
from simi_mailbox.prior.evidence import CLASSES
from simi_mailbox.prior.model import INPUTS
from simi_mailbox_bench.prior import learning
from simi_mailbox_bench.prior.learning import coefficients, gather, residuals_of, vague
from simi_mailbox_bench.prior.looks import Look, look_at, refreshed


def test_known_numbers_are_recovered_from_graphs():
    runs = [past_run(seed, blind=0.1, inverse_degree=-4.0, name=str(seed)) for seed in range(5)]
    blind = Corpus(tuple(gather(runs))).prior().beliefs["plain"].middle
    plain = gather(past_run(seed, name=str(seed)) for seed in range(5))
    none = Corpus(tuple(plain)).prior().beliefs["plain"].middle
    assert blind["inverse_degree"] < none["inverse_degree"] - 1
    assert abs(none["log_degree"]) < 0.2
    assert blind["blind"] > none["blind"] + 1


def test_labels_that_follow_their_neighbours_are_believed():
    run = past_run(0)
    label = np.random.default_rng(0).integers(4, size=3000)
    run.graph.edge_index()
    y = run.y.copy()
    for node in range(0, 3000, 2):  # half of the nodes are what their first neighbour is
        friends = run.graph.neighbours(node)
        y[node] = y[friends[0]] if len(friends) else label[node]
    friendly = coefficients(look_at(replace(run, y=y)), "plain")
    assert friendly["near"] > coefficients(look_at(run), "plain")["near"] + 1


def test_a_run_teaches_what_its_inputs_allow():
    run = past_run(0)
    hidden = np.asarray(run.logits) + np.random.default_rng(0).normal(size=run.logits.shape)
    whole = replace(run, train=np.arange(400, 700), hidden=hidden)
    (setting,) = gather([whole])
    assert set(setting.fits) == set(INPUTS)
    assert set(setting.fits["hidden trained"]) > set(CLASSES)
    assert "hidden" not in setting.fits["trained"]
    assert set(gather([run])[0].fits) == {"plain"}


def test_runs_of_one_setting_are_averaged():
    one, two = past_run(0), past_run(1)
    (both,) = gather([one, two])
    parts = [gather([run])[0] for run in (one, two)]
    assert both.runs == 2
    for name in ("log_degree", "blind", "luck", "luck_weight", "lucky", "fresh_luck"):
        expected = np.mean([getattr(part, name) for part in parts])
        assert getattr(both, name) == pytest.approx(expected)
    for name, value in both.free.items():
        assert value == pytest.approx(np.mean([part.free[name] for part in parts]))


def test_luck_is_the_mean_residual_in_units_of_error_and_labels():
    belief = vague(("inverse_degree",))
    seen = residuals_of(look_at(past_run(0)), lambda _: belief, keep_classes=True)
    right, weight = seen.luck()
    unit = seen.error * seen.confidence.mean() / 300
    assert right / weight == pytest.approx(seen.residual.mean() / unit)


def test_fresh_nodes_are_drawn_from_those_that_nobody_had():
    run = replace(past_run(0), train=np.arange(400, 700))
    fresh = refreshed(run)
    assert len(fresh.calibration) == 300
    assert fresh.calibration.min() >= 300
    assert not np.intersect1d(fresh.calibration, run.train).size
    assert (fresh.y[:300] == -1).all()


def test_a_look_survives_its_file(tmp_path):
    look = look_at(replace(past_run(0), train=np.arange(400, 700)))
    look.save(tmp_path / "a" / "look.npz")
    again = Look.load(tmp_path / "a" / "look.npz")
    assert coefficients(again, "trained") == coefficients(look, "trained")
    assert (again.labels, again.inputs) == (300, ("plain", "trained"))


def test_banked_runs_are_looked_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path))
    file = tmp_path / "logits" / "a.safetensors"
    file.parent.mkdir()
    file.write_text("")
    asked = []

    class Bank:
        root = file.parent

        def path(self, key):
            return file

        def find(self, key):
            asked.append(key)
            return key

    monkeypatch.setattr(learning, "past_run", lambda banked: past_run(0))
    one, two = (learning.banked_look(Bank(), "key") for _ in range(2))
    assert asked == ["key"]
    np.testing.assert_array_equal(one.fresh.gaps, two.fresh.gaps)


def test_labels_that_could_not_be_wrong_are_counted():
    lucky, found = 60, []
    for seed in range(12):
        run = past_run(seed, name=str(seed))
        y = np.array(run.y)
        chosen = np.random.default_rng(seed).choice(300, lucky, replace=False)
        y[chosen] = np.asarray(run.logits).argmax(axis=1)[chosen]  # these are right by luck
        found.append(replace(run, y=y))
    plain = Corpus(tuple(gather(past_run(seed, name=str(seed)) for seed in range(12)))).prior()
    assert Corpus(tuple(gather(found))).prior().lucky_labels == pytest.approx(lucky, abs=15)
    assert plain.lucky_labels < 15


def test_nodes_without_a_label_are_not_looked_at():
    run = past_run(0)
    y = np.where(np.arange(3000) // 500 == 4, -1, run.y)
    look = look_at(replace(run, y=y))
    assert len(look.y) == 2500
    assert (look.y >= 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros(10)}, "labels of all 3000 nodes"),
        ({"train": np.arange(300, 3000)}, "no labelled node is left"),
    ],
)
def test_past_runs_that_teach_nothing_are_refused(change, message):
    run = past_run(0)
    with pytest.raises(ValueError, match=message):
        list(gather([type(run)(**{**vars(run), **change})]))
