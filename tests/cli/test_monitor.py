"""`monitor` and `update`: verdicts on nodes without labels, and late labels."""

import json
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox.node_files import read_problem
from simi_mailbox.synthetic import calibration_problem
from tests.cli.conftest import facts, run, write, write_problem

PROBLEM = calibration_problem(900, 3, temperature=1.5, seed=0)
GIVEN = "cal.safetensors logits.csv --edges edges.csv"


def write_labels(path, nodes, y):
    write(path, ["id", "label"], *((f"n{i}", "abc"[y[i]]) for i in nodes))


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """Files of a graph whose first 300 nodes have labels, and a calibrator fitted on them."""
    monkeypatch.chdir(tmp_path)
    known = np.where(np.arange(900) < 300, PROBLEM.y, -1)
    write_problem(PROBLEM.logits, known, PROBLEM.graph, [f"n{i}" for i in range(900)], "abc")
    run("fit logits.csv --edges edges.csv --labels labels.csv --out cal.safetensors")


def test_a_verdict_for_people_and_for_machines():
    told = run(f"monitor {GIVEN}").output
    assert told.startswith("ok: the nodes look like the calibration nodes")
    found = facts(f"monitor {GIVEN}")
    assert (found["verdict"], found["nodes"]) == ("ok", 600)
    assert set(found) >= {"accuracy", "interval", "drift", "to_label", "advice"}


def test_known_labels_and_a_stream_over_days():
    write_labels("known.csv", range(300, 420), (PROBLEM.y + 1) % 3)
    line = f"monitor {GIVEN} --known known.csv --stream s.json"
    found = facts(line)
    assert (found["verdict"], found["labels"]) == ("do not trust", 120)
    assert found["stream"]["alarm"] == "overconfident"
    assert "stream: alarm on day 1" in run(line).output
    assert json.loads(Path("s.json").read_text())["days"] == 2
    Path("s.json").write_text("{}")
    assert "s.json is no stream that monitor has written" in run(line, code=1).stderr


def test_late_labels_are_added_to_a_saved_calibrator():
    write_labels("known.csv", range(300, 400), PROBLEM.y)
    found = facts(f"update {GIVEN} --known known.csv --out new.safetensors")
    assert (found["late_labels"], found["labels_that_test_the_level"]) == (100, 100)
    run(f"apply {GIVEN} --out before.csv")
    run(f"apply new{GIVEN.removeprefix('cal')} --out after.csv")
    before, after = (
        read_problem(Path(name), input_type="probabilities").values
        for name in ("before.csv", "after.csv")
    )
    assert np.abs(after - before)[400:].max() > 1e-3  # evidence on their neighbours


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"update {GIVEN}", "give --known FILE"),
        ("monitor cal.safetensors logits.csv", "needs --edges FILE"),
        ("monitor ts.safetensors logits.csv", "a monitor needs a simi-mailbox"),
        ("update ts.safetensors logits.csv", "only a simi-mailbox is updated"),
    ],
)
def test_what_is_missing_is_named(line, message):
    run("fit logits.csv --labels labels.csv --method temperature --out ts.safetensors")
    assert message in run(line, code=1).stderr
