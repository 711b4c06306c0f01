"""Every snippet of our pages runs, in the order in which a reader meets them.

Commands that would take hours are read by the command's own parser instead: they exist, and take
the options that are shown.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import numpy as np
import pytest
import torch

from simi_mailbox import metrics
from simi_mailbox.cli.group import cli
from simi_mailbox.synthetic import calibration_problem
from simi_mailbox.testing import CheckProblem
from tests import pages
from tests.pyg.loaders import AllNeighbours


def arrays():
    """What pages that speak of a reader's own model take for granted."""
    problem = calibration_problem(400, 3, temperature=2.0, seed=0)
    edges, mask = problem.graph.edge_index(), np.arange(400) < 200
    given = {"logits": problem.logits, "y": problem.y, "edge_index": edges, "val_mask": mask}
    given |= {"calibration": np.arange(200), "train": np.arange(200, 250), "hidden": problem.logits}
    later = {"nodes": np.arange(300, 310), "labels": problem.y[300:310]}
    return given | later | {"train_mask": np.arange(200, 250)}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Pages write files where they run."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("page", "line"), pages.command_lines())
def test_commands_of_the_pages_exist_and_take_their_options(page, line):
    pages.parse(cli, shlex.split(line)[1:])


def test_a_command_that_is_not_there_is_found_out():
    with pytest.raises(click.NoSuchOption):
        pages.parse(cli, ["calibrate", "logits.csv", "--no-such-option"])
    assert len(pages.command_lines()) >= 9


def test_shards_of_the_page_are_calibrated_and_so_are_those_of_next_week():
    for folder in ("shards", "next-week"):
        write_shards(Path(folder))
    pages.run_line("calibrate shards --memory")
    pages.run_line("apply calibrated/calibrator.safetensors next-week")
    assert Path("calibrated", "manifest.json").exists()
    assert Path("calibrated-next-week", "manifest.json").exists()


def test_the_readmes_command_calibrates_the_files_of_the_shells_page():
    pages.run_page("shell.md")
    assert "wrote probs.csv" in pages.run_line("calibrate logits.csv")
    assert Path("probs.csv").read_text("utf-8").startswith("paper,predicted,confidence,p_biology")


def test_shell_page():
    """Every command of docs/shell.md runs, and prints what the page shows."""
    pages.run_page("shell.md")
    ran = 0
    for block in pages.blocks(pages.DOCS / "shell.md", "console"):
        lines = re.sub(r"\\\n\s*", "", block)  # a command may go on in the next line
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", lines, re.MULTILINE):
            pages.compare(pages.run_shell(command), shown, command, atol=0.02)
            ran += 1
    assert ran >= 9


def test_the_line_for_completion_is_what_the_shell_wants():
    (line,) = pages.blocks(pages.DOCS / "shell.md", "bash")
    name, shell = re.search(r"(_\w+_COMPLETE)=(\w+)", line).groups()
    command, environment = [sys.executable, "-m", "simi_mailbox"], {**os.environ, name: shell}
    result = subprocess.run(command, env=environment, capture_output=True)
    assert b"_simi_mailbox_completion" in result.stdout


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_no_snippet_is_left_out(page):
    """Python has a test of its own or runs by itself; other languages are few, and each is read."""
    languages = set(re.findall(r"^```([^\n`]+)\n", page.read_text("utf-8"), re.MULTILINE))
    languages = {name for name in languages if not name.startswith("{")}
    assert languages <= {"python", "console", "bash", "toml", "text", "bibtex"}
    for block in (*pages.blocks(page, "console"), *pages.blocks(page, "bash")):
        called = [line for line in block.splitlines() if line.startswith("$")]
        assert page.name == "shell.md" or all("simi-mailbox" in line for line in called)
    for block in pages.blocks(page, "toml"):
        tomllib.loads(block)


OWN = ("start", "pyg", "decide", "methods", "plugins", "shell")
BY_ITSELF = [
    p.name
    for p in pages.PAGES
    if pages.blocks(p, "python") and p.stem not in (*OWN, *pages.BENCH_PAGES)
]


@pytest.mark.parametrize("name", [name for name in BY_ITSELF if name != "README.md"])
def test_python_of_the_page_runs(name):
    if name == "scale.md":
        write_shards(Path("shards"))
    found = PROVED.get(name, lambda names: True)(pages.run_page(name, **arrays()))
    assert found, f"{name} does not show what it says"


def write_shards(folder):
    given = arrays()
    for part in ("logits", "edges"):
        (folder / part).mkdir(parents=True)
    np.save(folder / "logits" / "part-0.npy", given["logits"])
    np.save(folder / "edges" / "part-0.npy", given["edge_index"].numpy())
    np.save(folder / "labels.npy", given["y"])
    np.save(folder / "calibration.npy", given["calibration"])


def same(a, b):
    return bool(np.abs(np.asarray(a) - np.asarray(b)).max() < 1e-5)


def metrics_show(names):
    streamed, whole = names["running"].evaluate()["ece"], metrics.ece(names["probs"], names["y"])
    seen_all = names["running"].num_nodes == len(names["y"])
    return seen_all and whole < 0.05 and abs(streamed - whole) < 1e-12


PROVED = {
    "index.md": lambda names: same(names["probs"].sum(axis=1), 1.0),
    "choosing.md": lambda names: names["choice"].name == "simi-mailbox",
    "evaluation.md": lambda names: names["found"].counts.sum() == names["test"].size,
    "production.md": lambda names: same(names["some"], names["later"][names["wanted"]]),
    "scale.md": lambda names: (
        names["after"].metrics.evaluate()["nll"] < 0.9 * names["before"].metrics.evaluate()["nll"]
    ),
    "report.md": lambda names: Path("report.html").read_text("utf-8").count("forty groups") > 0,
    "metrics.md": metrics_show,
    "pictures.md": lambda names: (
        names["ax"].get_figure() is not None and all(one.svg() for one in names["pictures"])
    ),
    "monitor.md": lambda names: names["cal"] is names["refit"],  # after the alarm
}
"""What holds after a page, if it is true."""


def test_every_page_proves_something():
    assert set(PROVED) == set(BY_ITSELF) - {"README.md"}  # that one: test_readme.py
    assert {f"test_{name.replace('-', '_')}_page" for name in OWN} <= set(globals())


def test_report_of_the_page_is_written_by_the_command():
    given = arrays()
    files = {"logits": given["logits"], "edges": given["edge_index"].numpy(), "y": given["y"]}
    for name, array in (files | {"val": np.arange(200), "test": np.arange(200, 400)}).items():
        np.save(f"{name}.npy", array)
    pages.run_line("report ")
    assert os.path.getsize("report.html") > 10_000


def test_start_page(monkeypatch):
    """With the graph that PyG would download, read from a file that is here."""
    cora = pages.stored_cora()
    if cora is None:
        pytest.skip("Cora is not here")
    import torch_geometric.datasets

    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", cora)
    names = pages.run_page(
        "start.md", atol=0.02
    )  # a network trained on another machine differs a little
    before, test, y = names["before"], names["test"], names["y"]
    assert torch.equal(names["probs"].argmax(dim=1), before.argmax(dim=1))
    gain = [metrics.nll(names[key][test], y[test]) for key in ("probs", "baseline", "before")]
    assert gain == sorted(gain)
    assert same(names["again"], names["probs"])
    assert Path("cora.png").exists()


def test_pyg_page(monkeypatch):
    import torch_geometric.loader
    import torch_geometric.nn.models.basic_gnn
    from torch_geometric.typing import WITH_PYG_LIB, WITH_TORCH_SPARSE

    if not (WITH_PYG_LIB or WITH_TORCH_SPARSE):  # PyG's own sampler is compiled
        monkeypatch.setattr(torch_geometric.loader, "NeighborLoader", AllNeighbours)
        monkeypatch.setattr(torch_geometric.nn.models.basic_gnn, "NeighborLoader", AllNeighbours)
    names = pages.run_page("pyg.md")
    data, log_probs, test = names["data"], names["log_probs"], names["data"].test_mask
    loss = torch.nn.functional.nll_loss
    before = names["model"].eval()(data.x, data.edge_index).log_softmax(dim=1).detach()
    assert loss(log_probs[test], data.y[test]) < loss(before[test], data.y[test])
    assert torch.equal(log_probs.argmax(dim=1), before.argmax(dim=1))
    assert names["calibrated"].num_hops == 5
    torch.testing.assert_close(names["again"](data.x, data.edge_index), log_probs, rtol=0, atol=0)
    torch.testing.assert_close(data.prob, log_probs.exp())
    last = test.nonzero().flatten()[-names["batch"].batch_size :]
    torch.testing.assert_close(names["batch_log_probs"], log_probs[last], rtol=0, atol=1e-5)
    assert names["calibrated"].hidden_layer == "conv2"
    torch.testing.assert_close(names["named"].on(data), log_probs, rtol=0, atol=0)
    known = (torch.arange(20), data.y[:20])
    there = names["daily"].on(names["today"], known=known)[names["order"]]
    torch.testing.assert_close(names["tomorrow_log_probs"], there, rtol=0, atol=1e-4)
    some = log_probs[names["nodes"]]
    torch.testing.assert_close(names["some_log_probs"], some, rtol=0, atol=1e-5)
    whole = names["large"](data.x, data.edge_index)
    torch.testing.assert_close(names["large_log_probs"], whole, rtol=0, atol=1e-5)


def test_decide_page():
    names = pages.run_page("decide.md")
    rest, y = names["rest"], names["y"]
    assert 0.87 < metrics.coverage(names["sets"][rest], y[rest]) < 0.93
    wrong = names["probs"].argmax(axis=1) != y
    accepted = names["accepted"][rest]
    assert 0.3 < accepted.mean() < 0.95
    assert wrong[rest][accepted].mean() < 0.1 < wrong[rest].mean()
    assert names["costs"].saving_interval_[0] > 0
    assert names["found"].worst > 0.7


def test_methods_page():
    names = pages.run_page("methods.md", **arrays())
    np.testing.assert_allclose(names["probs"].sum(axis=1), 1.0, atol=1e-5)
    scores = {n: names["likelihood"]({**names["best"], "n_groups": n}) for n in (5, 20)}
    assert names["best"]["n_groups"] == max(scores, key=scores.get)


def test_plugins_page():
    names = pages.run_page("plugins.md")
    problem = CheckProblem.random()
    fitted = names["Smoothing"](strength=0.5).fit(problem.logits, problem.y, mask=problem.mask)
    wrong = (problem.logits.argmax(1) != problem.y)[problem.mask].mean()
    assert fitted.share_ == pytest.approx(0.5 * wrong)
