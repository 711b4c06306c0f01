"""Tables under shift: what their units measure, and what the remarks say of it."""

from types import SimpleNamespace

import numpy as np
import pytest

from simi_mailbox.synthetic import calibration_problem
from simi_mailbox_bench import shift as measured
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.datasets import NodeDataset, Split
from simi_mailbox_bench.shift import FittedRun, MonitorUnit, UpdateUnit
from simi_mailbox_bench.tables import Selection, get
from simi_mailbox_bench.tables import shift as tables

RUN = RunKey("CoraML", "gcn", "popularity")


@pytest.fixture(scope="module")
def prepared():
    """A run in which nothing drifts: random parts of one problem."""
    p = calibration_problem(1500, 3, temperature=1.5, seed=0)
    parts = np.split(np.random.default_rng(0).permutation(1500), [300, 600, 900, 901])
    names = ("train", "valid_in", "test_in", "valid_out", "test_out")
    shifts = {"popularity": dict(zip(names, parts, strict=True))}
    data = NodeDataset("CoraML", p.graph, np.zeros((1500, 1)), p.y, 3, shifts=shifts)
    split = Split(parts[0], parts[1], parts[4])
    return FittedRun(SimpleNamespace(dataset=data, split=split, logits=p.logits, key=RUN))


@pytest.mark.parametrize("mode", ["kept", "free"])
def test_updates_without_drift_change_little(prepared, mode):
    before, after = (UpdateUnit(RUN, ()).numbers((mode, n), prepared) for n in (0, 50))
    assert set(before) == {
        f"{n}_{w}" for n in ("ece", "nll", "brier", "accuracy") for w in ("in", "out")
    }
    assert abs(after["nll_out"] - before["nll_out"]) < 0.01
    assert not hasattr(prepared.calibrator(keep=mode == "kept"), "late_")


def test_the_monitor_is_right_where_nothing_drifts(prepared, monkeypatch):
    z = prepared.source.logits
    same = SimpleNamespace(logits=SimpleNamespace(numpy=lambda: z))
    monkeypatch.setattr(measured, "load_logits", lambda run: same)
    found = MonitorUnit(RUN, ()).numbers("test_in", prepared)
    assert found["error"] < 0.05
    assert found["covered"] == found["covered_features"] == 1.0
    assert found["false_alarms"] <= 0.3
    assert found["drifted"] == found["distrusted"] == 0.0


def test_every_setting_has_its_runs_and_pairs_share_those_of_their_first_graph():
    assert len(tables.SETTINGS) == 21
    assert len(tables.PAIRS) == 42
    (unit,) = get("update").units(Selection(("Photo density",), ("gcn",), runs=1))
    assert unit.run == RunKey("Photo", "gcn", "density")
    (pair,) = get("twitch").units(Selection(("TwitchDE TwitchES",), runs=1))
    assert pair.items == ("TwitchES",)
    assert pair.run == RunKey("TwitchDE", "gcn", "random-50-25-25")


def test_metrics_of_the_inside_come_from_the_same_rows():
    chosen = Selection(("CS density",), ("gcn",), runs=2)
    plain, inside = get("shift"), get("shift").with_metric("nll_in")
    assert [u.keys() for u in plain.units(chosen)] == [u.keys() for u in inside.units(chosen)]
    assert (inside.name, inside.unit, inside.metric) == ("shift/nll_in", "nats", "nll_in")
    with pytest.raises(ValueError, match="shift shows ece"):
        plain.with_metric("error")


def test_remarks_judge_constants_on_graphs_that_they_were_not_fixed_on():
    def row(error, ece, doubt):
        found = {"error_features": error, "ece": ece, "distrusted_features": doubt}
        return found | {"covered_features": 1.0, "drifted": 0.0, "false_alarms": 0.1}

    rows = [
        ("CS density", "test_in", row(0.01, 0.01, 0.0)),
        ("CS density", "test_out", row(0.03, 0.2, 1.0)),
        ("Photo density", "test_out", row(0.5, 0.2, 0.0)),
        ("Photo density", "test_in", row(0.5, 0.2, 0.0)),
    ]
    fixed, judged = tables.monitor_remarks(rows)
    assert "fixed on CoraML, Citeseer, Photo (1 runs)" in fixed
    assert "median 3.0, mean 3.0 points" in judged
    assert "100.0 % of 1 cases with ECE above 10 %, 0.0 % of 1 with ECE below 5 %" in judged
