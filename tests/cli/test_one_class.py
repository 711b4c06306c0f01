"""A fraud desk on the command line: the whole story, mistakes, and nobody accepted in silence."""

import re

import numpy as np
import pytest

from simi_mailbox.decide import Accept, Alert
from tests.cli.conftest import facts, read, refused, run, write
from tests.cli.fraud_files import write_day

SCORES = "--input-type binary-logits --positive fraud"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two days of a desk."""
    folder = tmp_path_factory.mktemp("desk")
    day = {"share": 0.08, "seed": 0, "world": 2800, "known": 1000}
    write_day(folder, "", n=1600, **day)
    write_day(folder, "2", n=2800, **day | {"known": 1600})
    return folder


@pytest.fixture
def desk(files, monkeypatch):
    monkeypatch.chdir(files)
    return files


def test_the_whole_story_in_six_commands(desk):
    """Fit, apply to a later snapshot, decide with a saved rule, report, evaluate, monitor."""
    run(f"fit scores.csv --edges edges.csv --labels labels.csv {SCORES} --method simi-mailbox-free")
    run("apply calibrator.safetensors scores.csv --edges edges.csv --out probs.csv")
    goal = "--positive fraud --min-precision 0.6 --not-used-for-selection --save rule.json"
    told = run(f"decide probs.csv --labels labels.csv {goal}").output
    words = r"review \d+ of 1,600 nodes; expect \d+ of class fraud \(\d+ … \d+\), miss"
    assert re.search(words, told)
    run("apply calibrator.safetensors scores2.csv --edges edges2.csv --out probs2.csv")
    found = facts("decide probs2.csv --rule rule.json --out alerts2.csv")
    rows = read("alerts2.csv")
    assert [int(row["rank"]) for row in rows] == list(range(1, 2801))
    p = [float(row["p_fraud"]) for row in rows]
    assert p == sorted(p, reverse=True)
    assert sum(int(row["alert"]) for row in rows) == found["alerts"] > 0
    frauds = {row["id"] for row in read("truth2.csv") if row["label"] == "fraud"}
    alerts = [row["id"] for row in rows if int(row["id"][3:]) >= 1600 and row["alert"] == "1"]
    caught = sum(one in frauds for one in alerts)
    assert len(alerts) > 20
    assert caught / len(alerts) >= 0.5  # 60 % is the rate, with 90 % confidence
    assert found["expected_of_class"]["low"] < found["expected_of_class"]["high"]
    judged = run("evaluate probs2.csv --labels truth2.csv --test test2.csv --positive fraud")
    assert "class fraud: " in judged.output
    nodes = "--edges edges.csv --labels truth.csv --calibration calibration.csv --test test.csv"
    run(f"report scores.csv {nodes} {SCORES} --methods platt")
    assert "caught" in (desk / "report.html").read_text("utf-8").split("</header>")[0]
    watched = facts("monitor calibrator.safetensors scores2.csv --edges edges2.csv")
    assert watched["verdict"] in ("ok", "watch", "do not trust", "unknown")


def test_compare_shows_the_binary_methods_and_the_class(desk):
    found = facts(f"compare scores.csv --labels labels.csv {SCORES} --folds 2 --edges edges.csv")
    names = {row["name"] for row in found["methods"]}
    assert {"platt", "beta", "vector", "simi-mailbox-free"} <= names
    assert found["of_class"]["platt"]["class_ece"] < found["of_class"]["uncalibrated"]["class_ece"]


def test_unknown_names_are_dropped_and_counted(desk):
    rows = [("acc1", "fraud"), ("nobody", "legit"), *((f"acc{i}", "legit") for i in range(2, 40))]
    write("strays.csv", ["id", "label"], *rows)
    line = f"fit scores.csv --labels strays.csv --method platt {SCORES} --out s.safetensors"
    assert "no node 'nobody'" in run(line, code=1).output
    told = run(f"{line} --unknown drop").output
    assert "1 names of nodes that are not in scores.csv were dropped" in told


def test_nobody_is_accepted_in_silence(tmp_path, monkeypatch):
    """3 % fraud, a model trained with class weights: the frauds missed are always named."""
    monkeypatch.chdir(tmp_path)
    y = write_day(tmp_path, "", n=3000, share=0.03, seed=3, known=1500)
    run(f"fit scores.csv --labels labels.csv --method platt {SCORES}")
    run("apply calibrator.safetensors scores.csv --out probs.csv")
    plain = run("decide probs.csv --labels labels.csv --not-used-for-selection").output
    assert int(re.search(r"accepted\W+([\d,]+)", plain)[1].replace(",", "")) > 2500
    frauds = int(y[:1500].sum())
    assert re.search(rf"\d+ of {frauds} of class 1 are accepted as another class", plain)
    told = run("decide probs.csv --labels labels.csv --positive fraud --max-alerts 60").output
    assert re.search(r"expect \d+ of class fraud .*, miss \d+", told)


FIT, DECIDE = "fit scores.csv --labels labels.csv", "decide two.csv --labels labels.csv"
PLATT, KIND = "--method platt --labels labels.csv", "--input-type"
FRAUD = f"{DECIDE} --positive fraud"
MISTAKES = [
    (FIT, "binary-logits"),
    (f"fit scores.csv {PLATT} {KIND} binary-logits", "--positive NAME"),
    (f"fit scores.csv {PLATT} {KIND} binary-logits --positive froud", "--positive NAME"),
    (f"fit scores.csv {PLATT} {KIND} binary-probabilities --positive fraud", "binary-logits"),
    (f"fit p.csv {PLATT} {SCORES}", "binary-probabilities"),
    (f"fit two.csv {PLATT} {SCORES}", "[n] or [n, 1]"),
    (f"fit scores.csv {PLATT} --labels three.csv {SCORES}", "one must be"),
    (f"fit nan.csv {PLATT} {SCORES}", "NaN"),
    (f"fit high.csv {PLATT} {KIND} binary-probabilities --positive fraud", "within [0, 1]"),
    (f"{DECIDE} --positive 2 --max-alerts 3", "the classes are 0..1"),
    (f"{DECIDE} --positive froud --max-alerts 3", "legit, fraud"),
    (FRAUD, "one of --min-precision"),
    (f"{FRAUD} --max-alerts 3 --min-recall 0.5", "got 2"),
    (f"{FRAUD} --max-alerts 0", "max-alerts"),
    (f"{FRAUD} --min-precision 1.5", "min-precision"),
    (f"{FRAUD} --max-alerts 3 --confidence 1", "confidence"),
    (f"{DECIDE} --max-alerts 3", "--positive CLASS"),
    (f"{DECIDE} --save r.json", "--positive CLASS"),
    (f"{FRAUD} --max-alerts 3 --save r.txt", "a .json file"),
    (f"{FRAUD} --max-alerts 3 --out a.npy", "npz"),
    ("decide two.csv --positive fraud --max-alerts 3", "labels are missing"),
    ("decide two.csv --labels legit.csv --positive fraud --max-alerts 3", "none of the"),
    ("decide two.csv --rule rule.json --max-alerts 3", "leave out --max-alerts"),
    ("decide two.csv --rule rule.json --save b.json", "leave out --save"),
    ("decide two.csv --rule broken.json", "does not describe a rule"),
    ("decide two.csv --rule accept.json", "none of alerts"),
    ("decide three-classes.csv --rule rule.json", "fitted on"),
    ("decide renamed.csv --rule rule.json", "was fitted on the classes legit, fraud"),
    ("decide two.csv --rule rule.json --positive legit", "not to --positive"),
    ("evaluate two.csv --labels labels.csv --positive froud", "legit, fraud"),
    (f"compare two.csv --labels labels.csv {KIND} probabilities --positive x", "legit, fraud"),
]


@pytest.fixture(scope="module")
def shelf(files, tmp_path_factory):
    """Good and bad files and rules beside each other."""
    folder = tmp_path_factory.mktemp("shelf")
    for name in ("scores.csv", "labels.csv"):
        (folder / name).write_bytes((files / name).read_bytes())
    s = [(row["id"], float(row["score"])) for row in read(files / "scores.csv")]
    p = [(i, 1 / (1 + np.exp(-v))) for i, v in s]
    last = s[-1][0]
    tables = {
        "p": (["id", "score"], p),
        "two": (["id", "p_legit", "p_fraud"], [(i, 1 - v, v) for i, v in p]),
        "renamed": (["id", "p_good", "p_bad"], [(i, 1 - v, v) for i, v in p]),
        "three-classes": (["id", *"abc"], [(i, (1 - v) / 2, (1 - v) / 2, v) for i, v in p]),
        "nan": (["id", "score"], [*s[:-1], (last, "nan")]),
        "high": (["id", "score"], [*p[:-1], (last, 1.7)]),
        "three": (["id", "label"], [("acc1", "fraud"), ("acc2", "a"), ("acc3", "b")]),
        "legit": (["id", "label"], [(f"acc{i}", "legit") for i in range(50)]),
    }
    for name, (header, rows) in tables.items():
        write(folder / f"{name}.csv", header, *rows)
    (folder / "broken.json").write_text("{")
    probs, y = np.tile([0.9, 0.1], (400, 1)), (np.arange(400) % 10 == 0).astype(int)
    rule = Alert(max_alerts=5, classes=["legit", "fraud"]).fit(probs, y, mask=range(300))
    rule.save(folder / "rule.json")
    Accept(max_error=0.4).fit(probs, 0 * y, mask=range(300)).save(folder / "accept.json")
    return folder


@pytest.mark.parametrize(("line", "told"), MISTAKES)
def test_mistakes_are_told_in_a_line_and_nothing_is_written(line, told, shelf, monkeypatch):
    monkeypatch.chdir(shelf)
    refused(line, told, shelf)
