"""A session in an empty folder with files only, and the same numbers as from Python."""

import csv
import json
import sys
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import simi_mailbox
from simi_mailbox import calibrators, metrics
from simi_mailbox.cli.group import cli
from simi_mailbox.crossfit import cross_fitted
from simi_mailbox.node_files import read_problem
from simi_mailbox.synthetic import calibration_problem

N = 400
TOPICS = ("biology", "history", "physics")


@pytest.fixture(scope="module")
def problem():
    return calibration_problem(N, 3, temperature=2.0, seed=0)


@pytest.fixture
def names():
    return [f"paper {k:03d}, v2" for k in np.random.default_rng(0).permutation(N)]


@pytest.fixture
def folder(tmp_path, monkeypatch, problem, names):
    """Files as a colleague sends them: rows in any order, text for ids and classes."""

    def write(name, rows, order=None):
        rows = [rows[k] for k in order] if order is not None else rows
        with (tmp_path / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)

    monkeypatch.chdir(tmp_path)
    logits = np.asarray(problem.logits, dtype=np.float64)
    edges = problem.graph.edge_index().T.tolist()
    write("logits.csv", [["paper", *TOPICS], *([names[i], *logits[i].tolist()] for i in range(N))])
    write("edges.csv", [["source", "target"], *([names[i], names[j]] for i, j in edges if i < j)])
    labelled = [["paper", "topic"]]
    labelled += [[names[i], TOPICS[problem.y[i]] if i % 4 else ""] for i in range(N)]
    write("labels.csv", labelled, [0, *range(N, 0, -1)])
    write("val.csv", [["paper"], *([names[i]] for i in range(200) if i % 4)])
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


FILES = ("--edges", "edges.csv", "--labels", "labels.csv", "--calibration", "val.csv")


@pytest.fixture
def expected(problem):
    val = np.array([i for i in range(200) if i % 4])
    logits = np.asarray(problem.logits, dtype=np.float64)
    cal = simi_mailbox.SimiMailbox().fit(logits, problem.y, graph=problem.graph, mask=val)
    return val, logits, cal.predict_proba(logits, graph=problem.graph)


def test_calibrate_gives_the_numbers_of_python_and_the_names_of_the_files(folder, names, expected):
    result = run("calibrate", "logits.csv", *FILES, "--out", "probs.csv", "--save", "c.safetensors")
    assert "calibration nodes" in result.output
    assert "150 (as named)" in result.output
    assert not result.stderr
    with open("probs.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["paper", "predicted", "confidence", *(f"p_{topic}" for topic in TOPICS)]
    assert [row[0] for row in rows] == names
    _, _, probs = expected
    np.testing.assert_array_equal(np.array([row[3:] for row in rows], dtype=float), probs)
    assert [row[1] for row in rows] == [TOPICS[k] for k in probs.argmax(1)]
    np.testing.assert_array_equal([float(row[2]) for row in rows], probs.max(1))
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        ["c.safetensors", "edges.csv", "labels.csv", "logits.csv", "probs.csv", "val.csv"]
    )


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet", ".tsv"])
def test_every_format_holds_the_same(folder, expected, ending):
    run("calibrate", "logits.csv", *FILES, "--out", f"p{ending}")
    found = read_problem(folder / f"p{ending}", values="probabilities")
    np.testing.assert_array_equal(found.values, expected[2])


def test_fit_and_apply_are_calibrate(folder, expected):
    run("fit", "logits.csv", *FILES, "--out", "c.safetensors")
    run("apply", "c.safetensors", "logits.csv", "--edges", "edges.csv", "--out", "p.npy")
    np.testing.assert_array_equal(np.load("p.npy"), expected[2])


def test_a_second_snapshot_with_columns_in_another_order(folder, problem, expected):
    run("fit", "logits.csv", *FILES, "--out", "c.safetensors")
    with open("logits.csv", newline="") as file:
        rows = list(csv.reader(file))
    with open("later.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [row[0], row[3], row[1], row[2]] for row in rows[:1] + rows[:0:-1]
        )
    run("apply", "c.safetensors", "later.csv", "--edges", "edges.csv", "--out", "p.csv")
    found = read_problem(folder / "p.csv", values="probabilities")
    assert found.nodes.classes == TOPICS
    # Nodes are known again by their ids, and so are the labels of the fit.
    np.testing.assert_allclose(found.values, expected[2][::-1], atol=1e-6)


def test_evaluate_leaves_out_calibration_nodes_and_agrees_with_python(folder, problem, expected):
    run("calibrate", "logits.csv", *FILES, "--out", "p.csv")
    arguments = ("evaluate", "p.csv", "--labels", "labels.csv", "--calibration", "val.csv")
    found = json.loads(run(*arguments, "--json").output)
    rest = np.array([i for i in range(200, N) if i % 4])
    probs, y = expected[2][rest], problem.y[rest]
    assert found["nodes"] == 150
    assert found["left_out"] == 150
    for name, value in metrics.evaluate(probs, y).items():
        if name in found["metrics"]:
            assert found["metrics"][name]["value"] == value
    floor = metrics.noise_floor(probs)
    assert found["noise_floor"] == {"mean": floor.mean, "std": floor.std}
    interval = metrics.bootstrap_interval(metrics.nll, probs, y)
    assert found["metrics"]["nll"]["low"] == interval.low
    table = run(*arguments).output
    assert f"{metrics.ece(probs, y):.2%}" in table
    assert f"{floor.mean:.2%} ± {floor.std:.2%}" in table


def test_evaluate_judges_logits_when_told_so(folder, problem, expected):
    found = run(
        "evaluate", "logits.csv", "--labels", "labels.csv", "--input-type", "logits", "--json"
    )
    rows = np.array([i for i in range(N) if i % 4])
    raised = np.exp(expected[1][rows])
    value = metrics.nll(raised / raised.sum(1, keepdims=True), problem.y[rows])
    assert json.loads(found.output)["metrics"]["nll"]["value"] == pytest.approx(value, rel=1e-9)


def test_compare_cross_fits_as_python_does(folder, problem, expected):
    methods = ("uncalibrated", "temperature", "simi-mailbox")
    found = json.loads(
        run("compare", "logits.csv", *FILES, "--methods", ",".join(methods), "--json").output
    )
    val, logits, _ = expected
    assert found["nodes"] == 150
    rows = {row["name"]: row for row in found["methods"]}
    assert sorted(rows) == sorted(methods)
    assert [row["nll"] for row in found["methods"]] == sorted(row["nll"] for row in rows.values())
    for name in methods:
        probs = cross_fitted(
            calibrators.get(name)(), logits, problem.y, mask=val, graph=problem.graph
        )
        assert rows[name]["nll"] == pytest.approx(metrics.nll(probs, problem.y[val]))
        assert rows[name]["ece"] == pytest.approx(metrics.ece(probs, problem.y[val]))
    assert rows["uncalibrated"]["marks"]["nll"] == ""
    assert "best" in {row["marks"]["nll"] for row in rows.values()}


def test_compare_on_a_test_file_fits_once(folder, problem, names, expected):
    with open("test.csv", "w", newline="") as file:
        csv.writer(file).writerows([["paper"], *([names[i]] for i in range(200, N))])
    arguments = ("compare", "logits.csv", *FILES, "--test", "test.csv")
    found = json.loads(run(*arguments, "--methods", "simi-mailbox", "--json").output)
    rest = np.array([i for i in range(200, N) if i % 4])
    assert found["judged_on"] == "test nodes"
    assert found["methods"][0]["nll"] == pytest.approx(
        metrics.nll(expected[2][rest], problem.y[rest])
    )
    assert "test nodes" in run(*arguments).output


def test_compare_says_what_it_leaves_out(folder):
    arguments = ("--labels", "labels.csv", "--calibration", "val.csv")
    output = run("compare", "logits.csv", *arguments).output
    assert "simi-mailbox was left out: it needs --edges FILE" in output


def test_methods_tells_all_and_what_each_needs():
    rows = {row["name"]: row for row in json.loads(run("methods", "--json").output)["methods"]}
    assert sorted(rows) == calibrators.names()
    for name, row in rows.items():
        assert row["needs"] == sorted(calibrators.get(name).required_inputs)
        assert row["summary"]
    assert not rows["dcgc"]["from_files"]
    assert "n_groups" in rows["simi-mailbox"]["parameters"]
    table = run("methods").output
    assert all(name in table for name in rows)


def test_all_labelled_nodes_calibrate_if_none_are_named(folder):
    arguments = ("--edges", "edges.csv", "--labels", "labels.csv", "--json")
    found = json.loads(run("calibrate", "logits.csv", *arguments).output)
    assert found["calibration_nodes"] == 300
    assert found["calibration_is"] == "all labelled nodes"


def test_parameters_reach_the_method(folder):
    run("fit", "logits.csv", *FILES, "--set", "n_groups=3", "--set", "prior=None")
    found = simi_mailbox.load("calibrator.safetensors")
    assert found.get_params()["n_groups"] == 3
    assert found.get_params()["prior"] is None
    assert found.class_names_ == list(TOPICS)


def test_warnings_are_one_line_and_in_the_json(folder, names):
    with open("few.csv", "w", newline="") as file:
        csv.writer(file).writerows([["paper", "topic"], [names[0], "history"]])
    arguments = ("--labels", "few.csv", "--method", "temperature", "--json")
    result = run("calibrate", "logits.csv", *arguments)
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: the temperature lies on its bound")
    assert json.loads(result.stdout)["warnings"] == [line.removeprefix("Warning: ")]


def test_fresh_nodes_are_said_to_be_fresh_in_every_command(folder, problem, expected):
    val, logits, plain = expected
    run(
        "calibrate",
        "logits.csv",
        *FILES,
        "--not-used-for-selection",
        "--out",
        "p.npy",
        "--save",
        "c.safetensors",
    )
    run("fit", "logits.csv", *FILES, "--not-used-for-selection", "--out", "f.safetensors")
    cal = simi_mailbox.SimiMailbox()
    cal.fit(logits, problem.y, graph=problem.graph, mask=val, used_for_selection=False)
    probs = cal.predict_proba(logits, graph=problem.graph)
    assert np.abs(probs - plain).max() > 1e-3
    np.testing.assert_array_equal(np.load("p.npy"), probs)
    saved = [simi_mailbox.load(f"{name}.safetensors").temperatures_ for name in "cf"]
    np.testing.assert_array_equal(saved, [cal.temperatures_] * 2)
    arguments = ("compare", "logits.csv", *FILES, "--methods", "temperature,simi-mailbox")
    result = run(*arguments, "--not-used-for-selection", "--json")
    given = {"mask": val, "graph": problem.graph, "used_for_selection": False}
    fitted = cross_fitted(cal, logits, problem.y, **given)
    rows = {row["name"]: row["nll"] for row in json.loads(result.stdout)["methods"]}
    assert rows["simi-mailbox"] == pytest.approx(metrics.nll(fitted, problem.y[val]))
    assert not result.stderr
    run(
        "report",
        "logits.csv",
        *FILES,
        "--not-used-for-selection",
        "--methods",
        "temperature",
        "--out",
        "r.html",
    )
    assert "over the draw of 150 nodes." in (folder / "r.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["fit --method", "compare --methods"])
def test_a_method_to_which_fresh_means_nothing_says_so(folder, command):
    command, option = command.split()
    given = ("--not-used-for-selection", "--json", option, "temperature")
    result = run(command, "logits.csv", *FILES, *given)
    line = (
        "--not-used-for-selection changes nothing: selection bias is not corrected by temperature"
    )
    assert json.loads(result.stdout)["warnings"] == [line]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("simi-mailbox ca", {"calibrate"}),
        ("simi-mailbox fit --method temp", {"temperature"}),
        ("simi-mailbox compare --methods gats,simi-mailbox-p", {"gats,simi-mailbox-paper"}),
        ("simi-mailbox report --methods gats,simi-mailbox-p", {"gats,simi-mailbox-paper"}),
        ("simi-mailbox calibrate --lab", {"--labels"}),
    ],
)
def test_the_shell_completes_commands_options_and_methods(words, expected):
    environment = {
        "_SIMI_MAILBOX_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    output = CliRunner().invoke(cli, env=environment).output
    assert {line.split(",", 1)[1] for line in output.splitlines()} == expected


def test_training_nodes_calibrate_only_if_one_insists(folder):
    arguments = ("calibrate", "logits.csv", *FILES, "--train", "val.csv", "--out", "p.npy")
    assert "150 nodes are both in --calibration and in --train" in run(*arguments, code=1).stderr
    run(*arguments, "--allow-training-nodes")
    assert np.load("p.npy").shape == (N, 3)


def test_probabilities_are_calibrated_when_they_are_called_so(folder, problem, expected):
    run("calibrate", "logits.csv", *FILES, "--method", "uncalibrated", "--out", "before.csv")
    kind = ("--input-type", "probabilities")
    run("fit", "before.csv", *FILES, *kind, "--out", "c.safetensors")
    run("apply", "c.safetensors", "before.csv", "--edges", "edges.csv", "--out", "after.npy")
    probs = read_problem(folder / "before.csv", values="probabilities").values
    edges = read_problem(folder / "logits.csv", files={"edges": folder / "edges.csv"}).graph
    cal = simi_mailbox.SimiMailbox().fit(
        probs, problem.y, graph=edges, mask=expected[0], input_type="probabilities"
    )
    np.testing.assert_array_equal(np.load("after.npy"), cal.predict_proba(probs, graph=edges))
    again = run("evaluate", "before.csv", "--labels", "labels.csv", "--json")
    assert json.loads(again.output)["nodes"] == 300


def test_a_method_of_ones_own_is_taken_by_every_command(folder, expected):
    (folder / "halved.py").write_text(
        "from simi_mailbox.calibrators import TemperatureScaling\n\n\n"
        "class Halved(TemperatureScaling):\n"
        '    """Half the temperature."""\n\n'
        '    name = "halved"\n'
    )
    plugin = ("--plugin", "halved:Halved")
    try:
        rows = json.loads(run("methods", *plugin, "--json").output)["methods"]
        assert "halved" in {row["name"] for row in rows}
        run("fit", "logits.csv", *FILES, *plugin, "--method", "halved", "--out", "c.safetensors")
        run("apply", "c.safetensors", "logits.csv", *plugin, "--out", "p.npy")
        methods = ("--methods", "halved,temperature")
        found = json.loads(run("compare", "logits.csv", *FILES, *plugin, *methods, "--json").output)
    finally:
        calibrators.registry.forget("halved")
        sys.modules.pop("halved", None)
        sys.path.remove(str(folder))
    first, second = found["methods"]
    assert first["nll"] == second["nll"]
    unknown = run("fit", "logits.csv", *FILES, "--method", "halved", code=2)
    assert "unknown method 'halved'" in unknown.stderr


def test_compare_tells_a_methods_warnings_once_and_by_its_name(folder, monkeypatch):
    fit = simi_mailbox.SimiMailboxPaper._fit

    def warned(self, data):
        text = "2 of 15 groups have their temperature on a bound"
        warnings.warn(text, simi_mailbox.CalibrationWarning, stacklevel=2)
        fit(self, data)

    monkeypatch.setattr(simi_mailbox.SimiMailboxPaper, "_fit", warned)
    arguments = ("compare", "logits.csv", *FILES, "--methods", "temperature,simi-mailbox-paper")
    result = run(*arguments, "--json")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: simi-mailbox-paper: ")
    assert "have their temperature on a bound" in line
    assert json.loads(result.stdout)["warnings"] == [line.removeprefix("Warning: ")]


def test_nodes_that_look_trained_on_are_warned_of_in_words_of_options(folder, problem):
    logits = np.array(problem.logits, dtype=np.float64)
    logits[np.arange(100), problem.y[:100]] += 4.0
    np.savez("b.npz", logits=logits, y=problem.y, val=np.arange(100))
    result = run("calibrate", "b.npz", "--method", "temperature", "--out", "p.npy")
    assert "are unlike the others" in result.stderr
    assert "--train settles which" in result.stderr


def test_a_report_of_probabilities(folder):
    run("calibrate", "logits.csv", *FILES, "--out", "p.csv")
    arguments = ("report", "p.csv", "--input-type", "probabilities", "--labels", "labels.csv")
    run(*arguments, "--methods", "uncalibrated", "--out", "r.html")
    assert "<title>p</title>" in (folder / "r.html").read_text("utf-8")


def test_all_evidence_reaches_the_method_from_files(folder, problem, names, expected):
    val, logits, plain = expected
    train = np.arange(200, 260)
    known = np.array([i for i in range(300, 400) if i % 4])
    hidden = np.random.default_rng(1).standard_normal((N, 4)) + 2 * np.eye(4)[problem.y]
    rows = [[names[i]] for i in train]
    with open("train.csv", "w", newline="") as file:
        csv.writer(file).writerows([["paper"], *rows])
    with open("known.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [["paper", "topic"], *([names[i], TOPICS[problem.y[i]]] for i in known)]
        )
    np.save("hidden.npy", hidden)
    files = (*FILES, "--train", "train.csv", "--hidden", "hidden.npy")
    run("fit", "logits.csv", *files, "--set", "keep_classes=False", "--out", "c.safetensors")
    files = ("--edges", "edges.csv", "--hidden", "hidden.npy", "--known", "known.csv")
    run("apply", "c.safetensors", "logits.csv", *files, "--out", "probs.npy")
    labelled = np.array([i for i in train if i % 4])  # a quarter of the nodes has no label
    cal = simi_mailbox.SimiMailbox(keep_classes=False).fit(
        logits, problem.y, graph=problem.graph, mask=val, train_mask=labelled, hidden=hidden
    )
    given = {"graph": problem.graph, "hidden": hidden, "known": (known, problem.y[known])}
    found = np.load("probs.npy")
    np.testing.assert_allclose(found, cal.predict_proba(logits, **given), atol=1e-9)
    assert np.abs(found - plain).max() > 0.01
    refused = run(
        "apply", "c.safetensors", "logits.csv", *files[:4], "--known", "edges.csv", code=1
    )
    assert "edges.csv" in refused.stderr


def test_an_output_that_is_an_input_is_refused(folder):
    (folder / "link.csv").symlink_to("labels.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for out, option in (
        ("logits.csv", "LOGITS"),
        ("labels.csv", "--labels"),
        ("link.csv", "--labels"),
        ("./edges.csv", "--edges"),
    ):
        result = run("calibrate", "logits.csv", *FILES, "--out", out, code=1)
        assert f"it is what {option} reads; name another file" in result.stderr
    run("decide", "logits.csv", "--input-type", "logits", *FILES, "--out", "val.csv", code=1)
    run("fit", "logits.csv", *FILES, "--out", "c.safetensors")
    run("report", "logits.csv", *FILES, "--out", "labels.csv", code=1)
    result = run("calibrate", "logits.csv", *FILES, "--save", "logits.csv", code=1)
    (folder / "c.safetensors").unlink()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_standard_input_and_output_are_files_like_others(folder, expected, monkeypatch):
    arguments = ["calibrate", "-", *FILES, "--out", "-"]
    raw = (folder / "logits.csv").read_bytes()
    result = CliRunner().invoke(cli, arguments, input=raw)
    assert result.exit_code == 0, result.output
    assert "150 (as named)" in result.stderr
    (folder / "p.csv").write_text(result.stdout)
    found = read_problem(folder / "p.csv", values="probabilities")
    np.testing.assert_array_equal(found.values, expected[2])
    both = CliRunner().invoke(cli, [*arguments, "--json"], input=raw)
    assert both.exit_code == 2
    assert "--out - and --json both take standard output" in both.stderr


def test_an_encoding_is_said_and_ids_with_formulas_are_warned_of(folder):
    text = "id;a;b\n=é;0,5;1,5\nö;2,5;0,5\nü;0,5;0,1\n"
    (folder / "z.csv").write_bytes(text.encode("latin-1"))
    (folder / "y.csv").write_bytes("id;label\n=é;b\nö;a\n".encode("latin-1"))
    arguments = ("calibrate", "z.csv", "--labels", "y.csv", "--method", "uncalibrated")
    assert "such as --encoding latin-1" in run(*arguments, code=1).stderr
    result = run(*arguments, "--encoding", "latin-1", "--out", "p.csv")
    assert "1 ids begin with =, +, - or @" in result.stderr
    assert read_problem(folder / "p.csv", values="probabilities").nodes.ids.tolist() == [
        "=é",
        "ö",
        "ü",
    ]
