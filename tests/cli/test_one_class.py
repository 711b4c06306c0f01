"""A fraud desk on the command line: the whole story, mistakes, and nobody accepted in silence."""

import csv
import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from tests.cli.fraud_files import write, write_day


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, [str(part) for part in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("desk")
    day = {"share": 0.08, "seed": 0, "world": 2800, "known": 1000}
    write_day(folder, "", n=1600, **day)
    write_day(folder, "2", n=2800, **day | {"known": 1600})
    return folder


def test_the_whole_story_in_six_commands(desk, monkeypatch):
    """Fit, apply to a later snapshot, decide with a saved rule, report, evaluate, monitor."""
    monkeypatch.chdir(desk)
    scores = ("--input-type", "binary-logits", "--positive", "fraud")
    nodes = ("--edges", "edges.csv", "--labels", "labels.csv")
    run("fit", "scores.csv", *nodes, *scores, "--method", "simi-mailbox-free")
    cal = "calibrator.safetensors"
    run("apply", cal, "scores.csv", "--edges", "edges.csv", "--out", "probs.csv")
    goal = ("--positive", "fraud", "--min-precision", 0.6, "--not-used-for-selection")
    told = run("decide", "probs.csv", "--labels", "labels.csv", *goal, "--save", "rule.json")
    assert re.search(
        r"review \d+ of 1,600 nodes; expect \d+ of class fraud \(\d+ … \d+\), miss", told.output
    )
    run("apply", cal, "scores2.csv", "--edges", "edges2.csv", "--out", "probs2.csv")
    found = run("decide", "probs2.csv", "--rule", "rule.json", "--out", "alerts2.csv", "--json")
    facts = json.loads(found.stdout)
    with open("alerts2.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["rank"]) for row in rows] == list(range(1, 2801))
    p = [float(row["p_fraud"]) for row in rows]
    assert p == sorted(p, reverse=True)
    assert sum(int(row["alert"]) for row in rows) == facts["alerts"] > 0
    with open("truth2.csv") as file:
        frauds = {row["id"] for row in csv.DictReader(file) if row["label"] == "fraud"}
    new = [row for row in rows if int(row["id"][3:]) >= 1600]
    alerts = [row["id"] for row in new if row["alert"] == "1"]
    caught = sum(one in frauds for one in alerts)
    assert len(alerts) > 20
    assert caught / len(alerts) >= 0.5  # 60 % is the rate, with 90 % confidence
    assert facts["expected_of_class"]["low"] < facts["expected_of_class"]["high"]
    seen = ("--labels", "truth2.csv", "--test", "test2.csv")
    judged = run("evaluate", "probs2.csv", *seen, "--positive", "fraud")
    assert "class fraud: " in judged.output
    report = ("--edges", "edges.csv", "--labels", "truth.csv", "--calibration", "calibration.csv")
    run("report", "scores.csv", *report, "--test", "test.csv", *scores, "--methods", "platt")
    html = (desk / "report.html").read_text("utf-8")
    assert "caught" in html.split("</header>")[0]
    watched = run("monitor", cal, "scores2.csv", "--edges", "edges2.csv", "--json")
    assert json.loads(watched.stdout)["verdict"] in ("ok", "watch", "do not trust", "unknown")


def test_compare_shows_the_binary_methods_and_the_class(desk, monkeypatch):
    monkeypatch.chdir(desk)
    found = run("compare", "scores.csv", "--labels", "labels.csv", "--input-type", "binary-logits",
                "--positive", "fraud", "--folds", 2, "--edges", "edges.csv", "--json")  # fmt: skip
    facts = json.loads(found.stdout)
    names = {row["name"] for row in facts["methods"]}
    assert {"platt", "beta", "vector", "simi-mailbox-free"} <= names
    assert facts["of_class"]["platt"]["class_ece"] < facts["of_class"]["uncalibrated"]["class_ece"]


def test_costs_alert_where_a_miss_costs_more(desk, monkeypatch):
    monkeypatch.chdir(desk)
    scores = ("scores.csv", "--input-type", "binary-logits", "--labels", "labels.csv")
    run("fit", *scores, "--method", "platt", "--positive", "fraud", "--out", "p.safetensors")
    run("apply", "p.safetensors", "scores.csv", "--out", "p.csv")
    given = ("p.csv", "--labels", "labels.csv")
    costs = ("--positive", "fraud", "--miss-cost", 30, "--review-cost", 1, "--save", "costs.json")
    first = run("decide", *given, *costs, "--json").stdout
    facts = json.loads(first)
    assert facts["saving_per_node"] > 0
    again = json.loads(run("decide", "p.csv", "--rule", "costs.json", "--json").stdout)
    assert again["alerts"] == facts["alerts"] > 0


def test_unknown_names_are_dropped_and_counted(desk, monkeypatch):
    monkeypatch.chdir(desk)
    write(desk / "strays.csv", ["id", "label"], ("acc1", "fraud"), ("nobody", "legit"),
          *((f"acc{i}", "legit") for i in range(2, 40)))  # fmt: skip
    given = ("fit", "scores.csv", "--labels", "strays.csv", "--method", "platt")
    scores = ("--input-type", "binary-logits", "--positive", "fraud", "--out", "s.safetensors")
    assert "no node 'nobody'" in run(*given, *scores, code=1).output
    assert (
        "1 names of nodes that are not in scores.csv were dropped"
        in run(*given, *scores, "--unknown", "drop").output
    )


def test_nobody_is_accepted_in_silence(tmp_path, monkeypatch):
    """3 % fraud, a model trained with class weights: the frauds missed are always named."""
    monkeypatch.chdir(tmp_path)
    y = write_day(tmp_path, "", n=3000, share=0.03, seed=3, known=1500)
    given = ("scores.csv", "--input-type", "binary-logits", "--labels", "labels.csv",
             "--method", "platt", "--positive", "fraud")  # fmt: skip
    run("fit", *given)
    run("apply", "calibrator.safetensors", "scores.csv", "--out", "probs.csv")
    plain = run("decide", "probs.csv", "--labels", "labels.csv", "--not-used-for-selection")
    accepted = int(re.search(r"accepted\W+([\d,]+)", plain.output)[1].replace(",", ""))
    assert accepted > 2500
    frauds = int(y[:1500].sum())
    assert re.search(rf"\d+ of {frauds} of class 1 are accepted as another class", plain.output)
    told = run("decide", "probs.csv", "--labels", "labels.csv", "--positive", "fraud",
               "--max-alerts", 60)  # fmt: skip
    assert re.search(r"expect \d+ of class fraud .*, miss \d+", told.output)


# --- mistakes -----------------------------------------------------------------------------------

B = ("--input-type", "binary-logits")
P = ("--input-type", "binary-probabilities")
L = ("--labels", "labels.csv")
F = ("--positive", "fraud")
MISTAKES = [
    (("fit", "scores.csv", *L), "binary-logits"),
    (("fit", "scores.csv", *L, *B, "--method", "platt"), "--positive NAME"),
    (("fit", "scores.csv", *L, *B, "--positive", "froud", "--method", "platt"), "--positive NAME"),
    (("fit", "scores.csv", *L, *P, *F, "--method", "platt"), "binary-logits"),
    (("fit", "p.csv", *L, *B, *F, "--method", "platt"), "binary-probabilities"),
    (("fit", "p.csv", *L, *B[:1], "probabilities", "--method", "platt"), "binary-probabilities"),
    (("fit", "two.csv", *L, *B, *F, "--method", "platt"), r"\[n\] or \[n, 1\]"),
    (("fit", "scores.csv", "--labels", "three.csv", *B, *F, "--method", "platt"), "one must be"),
    (("fit", "nan.csv", *L, *B, *F, "--method", "platt"), "NaN|nan"),
    (("fit", "high.csv", *L, *P, *F, "--method", "platt"), r"within \[0, 1\]"),
    (("fit", "words.csv", *L, *B, *F, "--method", "platt"), "not a number|not numbers"),
    (("fit", "scores.csv", *L, *B, *F, "--unknown", "keep"), "refuse|drop"),
    (("fit", "scores.csv", *B, *F, "--method", "platt"), "labels are missing"),
    (("decide", "two.csv", *L, "--positive", "2", "--max-alerts", 3), "0..1|legit, fraud"),
    (("decide", "two.csv", *L, "--positive", "froud", "--max-alerts", 3), "legit, fraud"),
    (("decide", "two.csv", *L, *F), "one of --min-precision"),
    (("decide", "two.csv", *L, *F, "--max-alerts", 3, "--min-recall", 0.5), "got 2"),
    (("decide", "two.csv", *L, *F, "--max-alerts", 0), "max-alerts"),
    (("decide", "two.csv", *L, *F, "--min-precision", 1.5), "min-precision"),
    (("decide", "two.csv", *L, *F, "--min-recall", 0), "min-recall"),
    (("decide", "two.csv", *L, *F, "--min-precision", "high"), "min-precision"),
    (("decide", "two.csv", *L, *F, "--max-alerts", 3, "--confidence", 1), "confidence"),
    (("decide", "two.csv", *L, *F, "--miss-cost", 3), "two numbers"),
    (("decide", "two.csv", *L, *F, "--review-cost", 3), "two numbers"),
    (("decide", "two.csv", *L, *F, "--miss-cost", -3, "--review-cost", 1), "miss-cost"),
    (("decide", "two.csv", *L, *F, "--miss-cost", 3, "--review-cost", 1, "--max-alerts", 2),
     "no other goal"),
    (("decide", "two.csv", *L, "--max-alerts", 3), "--positive CLASS"),
    (("decide", "two.csv", *L, "--min-precision", 0.5), "--positive CLASS"),
    (("decide", "two.csv", *L, "--save", "r.json"), "--positive CLASS"),
    (("decide", "two.csv", *L, *F, "--max-alerts", 3, "--save", "r.txt"), "a .json file"),
    (("decide", "two.csv", *L, *F, "--max-alerts", 3, "--out", "a.npy"), "npz"),
    (("decide", "two.csv", *F, "--max-alerts", 3), "labels are missing"),
    (("decide", "two.csv", "--labels", "legit.csv", *F, "--max-alerts", 3), "none of the"),
    (("decide", "two.csv", "--rule", "rule.json", "--max-alerts", 3), "leave out --max-alerts"),
    (("decide", "two.csv", "--rule", "rule.json", "--save", "b.json"), "leave out --save"),
    (("decide", "two.csv", "--rule", "nothing.json"), "there is no file"),
    (("decide", "two.csv", "--rule", "broken.json"), "does not describe a rule"),
    (("decide", "two.csv", "--rule", "accept.json"), "none of alerts"),
    (("decide", "three-classes.csv", "--rule", "rule.json"), "fitted on"),
    (("decide", "renamed.csv", "--rule", "rule.json"), "was fitted on the classes legit, fraud"),
    (("decide", "two.csv", "--rule", "rule.json", "--positive", "legit"), "not to --positive"),
    (("evaluate", "two.csv", *L, "--top", 3), "say --positive"),
    (("evaluate", "two.csv", *L, "--positive", "froud"), "legit, fraud"),
    (("evaluate", "two.csv", *L, *F, "--top", 3, "--threshold", 0.5), "pass one of them"),
    (("evaluate", "two.csv", *L, *F, "--top", 4000), "between 1 and"),
    (("compare", "two.csv", *L, "--input-type", "probabilities", "--positive", "x", "--methods",
      "platt"), "legit, fraud"),
]  # fmt: skip


@pytest.fixture(scope="module")
def shelf(desk, tmp_path_factory):
    """Good and bad files beside each other."""
    folder = tmp_path_factory.mktemp("shelf")
    for name in ("scores.csv", "labels.csv"):
        (folder / name).write_bytes((desk / name).read_bytes())
    with (desk / "scores.csv").open() as file:
        s = [(row["id"], float(row["score"])) for row in csv.DictReader(file)]
    p = [(i, 1 / (1 + np.exp(-v))) for i, v in s]
    both = [(i, 1 - v, v) for i, v in p]
    write(folder / "p.csv", ["id", "score"], *p)
    write(folder / "two.csv", ["id", "p_legit", "p_fraud"], *both)
    write(folder / "renamed.csv", ["id", "p_good", "p_bad"], *both)
    write(folder / "three-classes.csv", ["id", "p_a", "p_b", "p_c"],
          *((i, a / 2, a / 2, b) for i, a, b in both))  # fmt: skip
    write(folder / "nan.csv", ["id", "score"], *s[:-1], (s[-1][0], "nan"))
    write(folder / "high.csv", ["id", "score"], *p[:-1], (p[-1][0], 1.7))
    write(folder / "words.csv", ["id", "score"], *s[:-1], (s[-1][0], "oops"))
    write(folder / "three.csv", ["id", "label"], ("acc1", "fraud"), ("acc2", "a"), ("acc3", "b"))
    write(folder / "legit.csv", ["id", "label"], *((f"acc{i}", "legit") for i in range(50)))
    (folder / "broken.json").write_text("{")
    return folder


@pytest.fixture(scope="module")
def rules(shelf):
    from simi_mailbox.decide import Accept, Alert

    p = np.tile([0.9, 0.1], (400, 1))
    y = (np.arange(400) % 10 == 0).astype(int)
    rule = Alert(max_alerts=5, classes=["legit", "fraud"]).fit(p, y, mask=range(300))
    rule.save(shelf / "rule.json")
    Accept(max_error=0.4).fit(p, 0 * y, mask=range(300)).save(shelf / "accept.json")
    return sorted(path.name for path in shelf.iterdir())


@pytest.mark.parametrize(("arguments", "told"), MISTAKES)
def test_mistakes_are_told_in_a_line_and_nothing_is_written(
    arguments, told, shelf, rules, monkeypatch
):
    monkeypatch.chdir(shelf)
    result = CliRunner().invoke(cli, [str(part) for part in arguments])
    assert result.exit_code in (1, 2), result.output
    message = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert len(message) == 1, result.output
    assert re.search(told, message[0]), message[0]
    assert "Traceback" not in result.output
    assert sorted(path.name for path in shelf.iterdir()) == rules


def test_there_are_enough_mistakes():
    assert len(MISTAKES) >= 40
