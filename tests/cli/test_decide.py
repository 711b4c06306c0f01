"""`decide` on files: the decisions of Python, by the names of the files."""

import csv
import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from simi_mailbox import decide
from simi_mailbox.cli.group import cli
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.synthetic import calibration_problem

N = 600
TOPICS = ("biology", "history", "physics")


@pytest.fixture(scope="module")
def problem():
    return calibration_problem(N, 3, seed=0)


@pytest.fixture(scope="module")
def probs(problem):
    return scaled_softmax(torch.from_numpy(problem.logits).double()).numpy()


@pytest.fixture
def folder(tmp_path, monkeypatch, problem, probs):
    def write(name, *rows):
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)

    monkeypatch.chdir(tmp_path)
    ids = [f"paper {i}" for i in range(N)]
    header = ["paper", *(f"p_{topic}" for topic in TOPICS)]
    write("probs.csv", header, *([ids[i], *probs[i].tolist()] for i in range(N)))
    edges = problem.graph.edge_index().T.tolist()
    write("edges.csv", ["source", "target"], *([ids[i], ids[j]] for i, j in edges))
    write("labels.csv", ["paper", "topic"], *([ids[i], TOPICS[problem.y[i]]] for i in range(N)))
    write("val.csv", ["paper"], *([ids[i]] for i in range(300)))
    write("test.csv", ["paper"], *([ids[i]] for i in range(300, N)))
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, ["decide", "probs.csv", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


LABELS = ("--labels", "labels.csv", "--calibration", "val.csv")


def test_the_file_holds_the_decisions_of_python(folder, problem, probs):
    told = run(*LABELS, "--max-error", 0.3, "--score", "lac", "--not-used-for-selection").output
    rule = decide.PredictionSets(score="lac").fit(
        probs, problem.y, mask=range(300), used_for_selection=False
    )
    gate = decide.Accept(max_error=0.3).fit(
        probs, problem.y, mask=range(300), used_for_selection=False
    )
    sets, accepted = rule.predict_sets(probs), gate.accepts(probs)
    assert 0 < accepted.sum() < N
    with open("decisions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["paper"] for row in rows] == [f"paper {i}" for i in range(N)]
    assert [row["decision"] for row in rows] == np.where(accepted, "accept", "defer").tolist()
    held = [[row[f"in_{topic}"] == "1" for topic in TOPICS] for row in rows]
    np.testing.assert_array_equal(held, sets)
    for row, inside in zip(rows, sets, strict=True):
        named = [topic for topic, there in zip(TOPICS, inside, strict=True) if there]
        assert row["set"].split(" | ") == named or not named
        assert row["set_size"] == str(len(named))
    assert f"{accepted.sum()} ({accepted.mean():.1%})" in told


def test_arrays_graph_scores_groups_and_luck(folder, problem, probs):
    options = ("--edges", "edges.csv", "--score", "daps", "--condition-on", "degree")
    more = ("--test", "test.csv", "--coverage", 0.8, "--json", "--out", "d.npz")
    facts = json.loads(run(*LABELS, *options, *more).stdout)
    rule = decide.PredictionSets(coverage=0.8, score="daps", condition_on="degree")
    rule.fit(probs, problem.y, mask=range(300), graph=problem.graph)
    sets = rule.predict_sets(probs, graph=problem.graph)
    with np.load("d.npz") as file:
        np.testing.assert_array_equal(file["sets"], sets)
        assert file["accepted"].sum() == facts["accepted"]
        assert file["classes"].tolist() == list(TOPICS)
    assert facts["error_counts_for"] == pytest.approx(rule.error_weight_)
    assert facts["error_counts_for"] > 1
    found = facts["test_coverage"]
    assert found["value"] == sets[np.arange(300, N), problem.y[300:]].mean()
    assert found["low"] < found["value"] < found["high"]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ((*LABELS, "--score", "snaps"), 1, "need --features FILE and --edges FILE"),
        ((*LABELS, "--condition-on", "degree"), 1, "need --edges FILE"),
        ((*LABELS, "--out", "d.npy"), 1, "use .npz"),
        ((*LABELS, "--test", "val.csv"), 1, "cannot judge it"),
        ((*LABELS, "--coverage", "1.5"), 2, "--coverage"),
        (("--labels", "labels.csv"), 1, "every node has a label"),
    ],
)
def test_mistakes_are_told_in_one_line_and_nothing_is_written(folder, options, code, told):
    result = run(*options, code=code)
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert not list(folder.glob("d*.*"))


def test_too_few_labels_promise_nothing(folder):
    with open("few.csv", "w") as file:
        file.write("paper\npaper 0\npaper 1\n")
    result = run("--labels", "labels.csv", "--calibration", "few.csv", "--json")
    assert "at least 9 are needed" in result.stderr
    facts = json.loads(result.stdout)
    assert (facts["accepted"], facts["mean_set_size"], facts["threshold"]) == (0, 3, None)
    assert len(facts["warnings"]) == 2
