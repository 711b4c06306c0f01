"""`decide` on files: the decisions of Python, by the names of the files."""

import json

import numpy as np
import pytest
import torch

from simi_mailbox import decide
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.synthetic import calibration_problem
from tests.cli.conftest import facts, read, refused, run, write, write_problem

N = 600
TOPICS = ("biology", "history", "physics")
PROBLEM = calibration_problem(N, 3, seed=0)
Y = PROBLEM.y
PROBS = scaled_softmax(torch.from_numpy(PROBLEM.logits).double()).numpy()
LABELS = "decide logits.csv --labels labels.csv --calibration val.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids = [f"paper {i}" for i in range(N)]
    write_problem(PROBS, Y, PROBLEM.graph, ids, TOPICS, "paper")
    write("val.csv", ["paper"], *([name] for name in ids[:300]))
    write("test.csv", ["paper"], *([name] for name in ids[300:]))
    return tmp_path


def test_the_file_holds_the_decisions_of_python():
    told = run(f"{LABELS} --max-error 0.3 --score lac --not-used-for-selection").output
    given = {"mask": range(300), "used_for_selection": False}
    sets = decide.PredictionSets(score="lac").fit(PROBS, Y, **given).predict_sets(PROBS)
    accepted = decide.Accept(max_error=0.3).fit(PROBS, Y, **given).accepts(PROBS)
    assert 0 < accepted.sum() < N
    rows = read("decisions.csv")
    assert [row["paper"] for row in rows] == [f"paper {i}" for i in range(N)]
    assert [row["decision"] for row in rows] == np.where(accepted, "accept", "defer").tolist()
    held = [[row[f"in_{topic}"] == "1" for topic in TOPICS] for row in rows]
    np.testing.assert_array_equal(held, sets)
    for row, inside in zip(rows, sets, strict=True):
        named = [topic for topic, there in zip(TOPICS, inside, strict=True) if there]
        assert row["set"] == " | ".join(named)
        assert row["set_size"] == str(len(named))
    assert f"{accepted.sum()} ({accepted.mean():.1%})" in told


def test_arrays_graph_scores_groups_and_selection_bias():
    options = "--edges edges.csv --score daps --condition-on degree --test test.csv --coverage 0.8"
    found = facts(f"{LABELS} {options} --out d.npz")
    rule = decide.PredictionSets(coverage=0.8, score="daps", condition_on="degree")
    rule.fit(PROBS, Y, mask=range(300), graph=PROBLEM.graph)
    sets = rule.predict_sets(PROBS, graph=PROBLEM.graph)
    with np.load("d.npz") as file:
        np.testing.assert_array_equal(file["sets"], sets)
        assert file["accepted"].sum() == found["accepted"]
        assert file["classes"].tolist() == list(TOPICS)
    assert found["error_counts_for"] == pytest.approx(rule.error_weight_)
    assert found["error_counts_for"] > 1
    coverage = found["test_coverage"]
    assert coverage["value"] == sets[np.arange(300, N), Y[300:]].mean()
    assert coverage["low"] < coverage["value"] < coverage["high"]


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        (f"{LABELS} --score snaps", 1, "need --features FILE and --edges FILE"),
        (f"{LABELS} --condition-on degree", 1, "need --edges FILE"),
        (f"{LABELS} --out d.npy", 1, "use .npz"),
        (f"{LABELS} --test val.csv", 1, "cannot judge it"),
        (f"{LABELS} --coverage 1.5", 2, "--coverage"),
        ("decide logits.csv --labels labels.csv", 1, "every node has a label"),
    ],
)
def test_mistakes_are_told_in_one_line_and_nothing_is_written(folder, line, code, told):
    refused(line, told, folder, code)


def test_too_few_labels_guarantee_nothing():
    write("few.csv", ["paper"], ["paper 0"], ["paper 1"])
    result = run("decide logits.csv --labels labels.csv --calibration few.csv --json")
    assert "at least 9 are needed" in result.stderr
    found = json.loads(result.stdout)
    assert (found["accepted"], found["mean_set_size"], found["threshold"]) == (0, 3, None)
    assert len(found["warnings"]) == 2
