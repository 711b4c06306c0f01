"""A session in an empty folder with files only, and the same numbers as from Python."""

import json
import sys
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import simi_mailbox
from simi_mailbox import SimiMailbox, calibrators, metrics
from simi_mailbox.cli.group import cli
from simi_mailbox.crossfit import cross_fitted
from simi_mailbox.node_files import read_problem
from simi_mailbox.synthetic import calibration_problem
from tests.cli.conftest import facts, read, run, write, write_problem

N = 400
TOPICS = ("biology", "history", "physics")
PROBLEM = calibration_problem(N, 3, temperature=2.0, seed=0)
Z, Y, GRAPH = np.asarray(PROBLEM.logits, dtype=np.float64), PROBLEM.y, PROBLEM.graph
VAL = np.array([i for i in range(200) if i % 4])
NAMES = [f"paper {k:03d}, v2" for k in np.random.default_rng(0).permutation(N)]
FILES = "--edges edges.csv --labels labels.csv --calibration val.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Files as a colleague sends them: rows in any order, text for ids and classes."""
    monkeypatch.chdir(tmp_path)
    write_problem(Z, np.where(np.arange(N) % 4, Y, -1), GRAPH, NAMES, TOPICS, "paper")
    write("val.csv", ["paper"], *([NAMES[i]] for i in VAL))
    return tmp_path


@pytest.fixture(scope="module")
def expected():
    """What Python says of the same numbers."""
    return SimiMailbox().fit(Z, Y, graph=GRAPH, mask=VAL).predict_proba(Z, graph=GRAPH)


def probabilities(path):
    return read_problem(path, input_type="probabilities")


def test_calibrate_gives_the_numbers_of_python_and_the_names_of_the_files(folder, expected):
    result = run(f"calibrate logits.csv {FILES} --out probs.csv --save c.safetensors")
    assert "150 (as named)" in result.output
    assert not result.stderr
    rows = read("probs.csv")
    assert [*rows[0]] == ["paper", "predicted", "confidence", *(f"p_{topic}" for topic in TOPICS)]
    assert [row["paper"] for row in rows] == NAMES
    values = np.array([[row[f"p_{topic}"] for topic in TOPICS] for row in rows], dtype=float)
    np.testing.assert_array_equal(values, expected)
    assert [row["predicted"] for row in rows] == [TOPICS[k] for k in expected.argmax(1)]
    np.testing.assert_array_equal([float(row["confidence"]) for row in rows], expected.max(1))
    written = {path.name for path in folder.iterdir() if path.suffix != ".csv"}
    assert written == {"c.safetensors"}


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".tsv"])
def test_every_format_holds_the_same_and_fit_and_apply_are_calibrate(folder, expected, ending):
    run(f"calibrate logits.csv {FILES} --out p{ending}")
    np.testing.assert_array_equal(probabilities(folder / f"p{ending}").values, expected)
    run(f"fit logits.csv {FILES} --out c.safetensors")
    run(f"apply c.safetensors logits.csv --edges edges.csv --out q{ending}")
    np.testing.assert_array_equal(probabilities(folder / f"q{ending}").values, expected)


def test_a_second_snapshot_with_columns_in_another_order(folder, expected):
    run(f"fit logits.csv {FILES} --out c.safetensors")
    rows = [[NAMES[i], Z[i, 2], Z[i, 0], Z[i, 1]] for i in range(N)]
    write("later.csv", ["paper", TOPICS[2], *TOPICS[:2]], *rows[::-1])
    run("apply c.safetensors later.csv --edges edges.csv --out p.csv")
    found = probabilities(folder / "p.csv")
    assert found.nodes.classes == TOPICS
    # Nodes are known again by their ids, and so are the labels of the fit.
    np.testing.assert_allclose(found.values, expected[::-1], atol=1e-6)


def test_evaluate_leaves_out_calibration_nodes_and_agrees_with_python(expected):
    run(f"calibrate logits.csv {FILES} --out p.csv")
    line = "evaluate p.csv --labels labels.csv --calibration val.csv"
    found = facts(line)
    rest = np.array([i for i in range(200, N) if i % 4])
    probs, y = expected[rest], Y[rest]
    assert (found["nodes"], found["left_out"]) == (150, 150)
    values = metrics.evaluate(probs, y)
    for name, row in found["metrics"].items():
        assert row["value"] == values[name]
    floor = metrics.noise_floor(probs)
    assert found["noise_floor"] == {"mean": floor.mean, "std": floor.std}
    assert found["metrics"]["nll"]["low"] == metrics.bootstrap_interval(metrics.nll, probs, y).low
    table = run(line).output
    assert f"{metrics.ece(probs, y):.2%}" in table
    assert f"{floor.mean:.2%} ± {floor.std:.2%}" in table


def test_compare_cross_fits_as_python_does():
    methods = ("uncalibrated", "temperature", "simi-mailbox")
    found = facts(f"compare logits.csv {FILES} --methods {','.join(methods)}")
    assert found["nodes"] == 150
    rows = {row["name"]: row for row in found["methods"]}
    assert sorted(rows) == sorted(methods)
    assert [row["nll"] for row in found["methods"]] == sorted(row["nll"] for row in rows.values())
    for name in methods:
        probs = cross_fitted(calibrators.get(name)(), Z, Y, mask=VAL, graph=GRAPH)
        assert rows[name]["nll"] == pytest.approx(metrics.nll(probs, Y[VAL]))
        assert rows[name]["ece"] == pytest.approx(metrics.ece(probs, Y[VAL]))
    assert rows["uncalibrated"]["marks"]["nll"] == ""
    assert "best" in {row["marks"]["nll"] for row in rows.values()}


def test_compare_on_a_test_file_fits_once_and_says_what_it_leaves_out(expected):
    write("test.csv", ["paper"], *([NAMES[i]] for i in range(200, N)))
    line = f"compare logits.csv {FILES} --test test.csv"
    found = facts(f"{line} --methods simi-mailbox")
    rest = np.array([i for i in range(200, N) if i % 4])
    assert found["judged_on"] == "test nodes"
    assert found["methods"][0]["nll"] == pytest.approx(metrics.nll(expected[rest], Y[rest]))
    assert "test nodes" in run(line).output
    output = run(f"compare logits.csv {FILES.replace('--edges edges.csv', '')}").output
    assert "simi-mailbox was left out: it needs --edges FILE" in output


def test_methods_tells_all_and_what_each_needs():
    rows = {row["name"]: row for row in facts("methods")["methods"]}
    assert sorted(rows) == calibrators.names()
    for name, row in rows.items():
        assert row["needs"] == sorted(calibrators.get(name).required_inputs)
        assert row["summary"]
    assert not rows["dcgc"]["from_files"]
    assert "n_groups" in rows["simi-mailbox"]["parameters"]
    table = run("methods").output
    assert all(name in table for name in rows)


def test_all_labelled_nodes_calibrate_if_none_are_named():
    found = facts("calibrate logits.csv --edges edges.csv --labels labels.csv")
    assert found["calibration_nodes"] == 300
    assert found["calibration_is"] == "all labelled nodes"


def test_parameters_reach_the_method():
    run(f"fit logits.csv {FILES} --set n_groups=3 --set prior=None")
    found = simi_mailbox.load("calibrator.safetensors")
    assert found.get_params()["n_groups"] == 3
    assert found.get_params()["prior"] is None
    assert found.class_names_ == list(TOPICS)


def one_warning(result):
    """The only line on standard error, which the JSON holds as well."""
    (line,) = result.stderr.splitlines()
    assert json.loads(result.stdout)["warnings"] == [line.removeprefix("Warning: ")]
    return line


def test_warnings_are_one_line_and_in_the_json():
    write("few.csv", ["paper", "topic"], [NAMES[0], "history"])
    result = run("calibrate logits.csv --labels few.csv --method temperature --json")
    assert one_warning(result).startswith("Warning: the temperature lies on its bound")


def test_compare_tells_a_methods_warnings_once_and_by_its_name(monkeypatch):
    fit = simi_mailbox.SimiMailboxPaper._fit

    def warned(self, data):
        text = "2 of 15 groups have their temperature on a bound"
        warnings.warn(text, simi_mailbox.CalibrationWarning, stacklevel=2)
        fit(self, data)

    monkeypatch.setattr(simi_mailbox.SimiMailboxPaper, "_fit", warned)
    result = run(f"compare logits.csv {FILES} --methods temperature,simi-mailbox-paper --json")
    assert one_warning(result).startswith("Warning: simi-mailbox-paper: 2 of 15 groups have their")


def test_nodes_that_had_no_part_in_selection_are_taken_as_such_by_every_command(folder, expected):
    given = f"logits.csv {FILES} --not-used-for-selection"
    run(f"calibrate {given} --out p.npy --save c.safetensors")
    run(f"fit {given} --out f.safetensors")
    cal = SimiMailbox().fit(Z, Y, graph=GRAPH, mask=VAL, used_for_selection=False)
    probs = cal.predict_proba(Z, graph=GRAPH)
    assert np.abs(probs - expected).max() > 1e-3
    np.testing.assert_array_equal(np.load("p.npy"), probs)
    saved = [simi_mailbox.load(f"{name}.safetensors").temperatures_ for name in "cf"]
    np.testing.assert_array_equal(saved, [cal.temperatures_] * 2)
    result = run(f"compare {given} --methods temperature,simi-mailbox --json")
    fitted = cross_fitted(cal, Z, Y, mask=VAL, graph=GRAPH, used_for_selection=False)
    rows = {row["name"]: row["nll"] for row in json.loads(result.stdout)["methods"]}
    assert rows["simi-mailbox"] == pytest.approx(metrics.nll(fitted, Y[VAL]))
    assert not result.stderr
    run(f"report {given} --methods temperature --out r.html")
    assert "over the draw of 150 nodes." in (folder / "r.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("simi-mailbox ca", {"calibrate"}),
        ("simi-mailbox fit --method temp", {"temperature"}),
        ("simi-mailbox compare --methods gats,simi-mailbox-p", {"gats,simi-mailbox-paper"}),
        ("simi-mailbox report --methods gats,simi-mailbox-p", {"gats,simi-mailbox-paper"}),
        ("simi-mailbox calibrate --lab", {"--labels"}),
    ],
)
def test_the_shell_completes_commands_options_and_methods(words, offered):
    environment = {"_SIMI_MAILBOX_COMPLETE": "bash_complete", "COMP_WORDS": words}
    environment["COMP_CWORD"] = str(len(words.split()) - 1)
    output = CliRunner().invoke(cli, env=environment).output
    assert {line.split(",", 1)[1] for line in output.splitlines()} == offered


def test_training_nodes_calibrate_only_if_one_insists():
    line = f"calibrate logits.csv {FILES} --train val.csv --out p.npy"
    assert "150 nodes are both in --calibration and in --train" in run(line, code=1).stderr
    run(f"{line} --allow-training-nodes")
    assert np.load("p.npy").shape == (N, 3)


def test_probabilities_are_calibrated_judged_and_reported_when_they_are_called_so(folder):
    run(f"calibrate logits.csv {FILES} --method uncalibrated --out before.csv")
    kind = "--input-type probabilities"
    run(f"fit before.csv {FILES} {kind} --out c.safetensors")
    run("apply c.safetensors before.csv --edges edges.csv --out after.npy")
    probs = probabilities(folder / "before.csv").values
    edges = read_problem(folder / "logits.csv", files={"edges": folder / "edges.csv"}).graph
    cal = SimiMailbox().fit(probs, Y, graph=edges, mask=VAL, input_type="probabilities")
    np.testing.assert_array_equal(np.load("after.npy"), cal.predict_proba(probs, graph=edges))
    assert facts("evaluate before.csv --labels labels.csv")["nodes"] == 300
    run(f"report before.csv {kind} --labels labels.csv --methods uncalibrated --out r.html")
    assert "<title>before</title>" in (folder / "r.html").read_text("utf-8")


def test_a_method_of_ones_own_is_taken_by_every_command(folder):
    (folder / "halved.py").write_text(
        "from simi_mailbox.calibrators import TemperatureScaling\n\n\n"
        "class Halved(TemperatureScaling):\n"
        '    """Half the temperature."""\n\n'
        '    name = "halved"\n'
    )
    plugin = "--plugin halved:Halved"
    try:
        assert "halved" in {row["name"] for row in facts(f"methods {plugin}")["methods"]}
        run(f"fit logits.csv {FILES} {plugin} --method halved --out c.safetensors")
        run(f"apply c.safetensors logits.csv {plugin} --out p.npy")
        found = facts(f"compare logits.csv {FILES} {plugin} --methods halved,temperature")
    finally:
        calibrators.registry.forget("halved")
        sys.modules.pop("halved", None)
        sys.path.remove(str(folder))
    first, second = found["methods"]
    assert first["nll"] == second["nll"]
    unknown = run(f"fit logits.csv {FILES} --method halved", code=2)
    assert "unknown method 'halved'" in unknown.stderr


def test_nodes_that_look_trained_on_are_warned_of_in_words_of_options():
    logits = Z.copy()
    logits[np.arange(100), Y[:100]] += 4.0
    np.savez("b.npz", logits=logits, y=Y, val=np.arange(100))
    told = run("calibrate b.npz --method temperature --out p.npy").stderr
    assert "are unlike the others" in told
    assert "--train settles which" in told


def test_all_evidence_reaches_the_method_from_files(expected):
    train = np.arange(200, 260)
    known = np.array([i for i in range(300, 400) if i % 4])
    hidden = np.random.default_rng(1).standard_normal((N, 4)) + 2 * np.eye(4)[Y]
    write("train.csv", ["paper"], *([NAMES[i]] for i in train))
    write("known.csv", ["paper", "topic"], *([NAMES[i], TOPICS[Y[i]]] for i in known))
    np.save("hidden.npy", hidden)
    more = "--train train.csv --hidden hidden.npy --set keep_classes=False --out c.safetensors"
    run(f"fit logits.csv {FILES} {more}")
    line = "apply c.safetensors logits.csv --edges edges.csv --hidden hidden.npy"
    run(f"{line} --known known.csv --out probs.npy")
    labelled = train[train % 4 > 0]  # a quarter of the nodes has no label
    given = {"graph": GRAPH, "hidden": hidden}
    cal = SimiMailbox(keep_classes=False).fit(Z, Y, mask=VAL, train_mask=labelled, **given)
    found = np.load("probs.npy")
    right = cal.predict_proba(Z, known=(known, Y[known]), **given)
    np.testing.assert_allclose(found, right, atol=1e-9)
    assert np.abs(found - expected).max() > 0.01
    assert "edges.csv" in run(f"{line} --known edges.csv", code=1).stderr


def test_an_output_that_is_an_input_is_refused(folder):
    (folder / "link.csv").symlink_to("labels.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for out, option in (
        ("logits.csv", "LOGITS"),
        ("labels.csv", "--labels"),
        ("link.csv", "--labels"),
        ("./edges.csv", "--edges"),
    ):
        result = run(f"calibrate logits.csv {FILES} --out {out}", code=1)
        assert f"it is what {option} reads; name another file" in result.stderr
    run(f"decide logits.csv --input-type logits {FILES} --out val.csv", code=1)
    run(f"report logits.csv {FILES} --out labels.csv", code=1)
    run(f"calibrate logits.csv {FILES} --save logits.csv", code=1)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_standard_input_and_output_are_files_like_others(folder, expected):
    line, raw = f"calibrate - {FILES} --out -", (folder / "logits.csv").read_bytes()
    result = run(line, input=raw)
    assert "150 (as named)" in result.stderr
    (folder / "p.csv").write_text(result.stdout)
    np.testing.assert_array_equal(probabilities(folder / "p.csv").values, expected)
    both = run(f"{line} --json", input=raw, code=2)
    assert "--out - and --json both take standard output" in both.stderr


def test_an_encoding_is_said(folder):
    text = "id;a;b\n=é;0,5;1,5\nö;2,5;0,5\nü;0,5;0,1\n"
    (folder / "z.csv").write_bytes(text.encode("latin-1"))
    (folder / "y.csv").write_bytes("id;label\n=é;b\nö;a\n".encode("latin-1"))
    line = "calibrate z.csv --labels y.csv --method uncalibrated --out p.csv"
    assert "such as --encoding latin-1" in run(line, code=1).stderr
    run(f"{line} --encoding latin-1")
    assert probabilities(folder / "p.csv").nodes.ids.tolist() == ["=é", "ö", "ü"]
