"""The command ``simi-mailbox prior``."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from past_run import past_run
from simi_mailbox import prior
from simi_mailbox.calibrators import TemperatureScaling
from simi_mailbox.cli.group import cli
from simi_mailbox.metrics import nll
from simi_mailbox_bench.commands.prior import UNIT
from simi_mailbox_bench.prior import read_run
from simi_mailbox_bench.prior.judging import judged_methods


def save_run(path, seed, **words):
    run = past_run(seed, n=600, labels=100)
    np.savez(
        path,
        logits=run.logits,
        y=run.y,
        edge_index=run.graph.edge_index().numpy(),
        calibration=np.asarray(run.calibration),
        **words,
    )
    return path


def test_a_user_learns_a_prior_from_past_graphs(tmp_path):
    one = save_run(tmp_path / "shop-2023.npz", 0, family="shop", backbone="sage")
    two = save_run(tmp_path / "forum.npz", 1, train=np.arange(200, 300))
    out = tmp_path / "user.json"
    done = CliRunner().invoke(cli, ["prior", "fit", str(one), str(two), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 settings, 2 runs" in done.output
    learned = prior.read(out)
    assert [(s.graph, s.family, s.backbone) for s in learned] == [
        ("shop-2023", "shop", "sage"),
        ("forum", "forum", "?"),
    ]
    shown = CliRunner().invoke(cli, ["prior", "show", str(out)])
    assert "shop-2023 sage: 1 run, 100 labels" in shown.output


def test_the_shipped_prior_is_shown_whole_and_in_part():
    whole = CliRunner().invoke(cli, ["prior", "show"]).output
    part = CliRunner().invoke(cli, ["prior", "show", "--without", "CoraFull"]).output
    assert "Cora gcn" in whole
    assert "Cora gcn" not in part
    assert "CoraML gcn" not in part
    assert "Citeseer gcn" in part


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--out", "x.json"], "give either npz files of past runs, or --cached-only"),
        (["show", "nowhere.json"], "nowhere.json"),
        (["judge", "--prior", "user.json", "--out", "x"], "--prior is for RUNS"),
        (["judge", "--graphs", "Nope", "--out", "x"], "unknown dataset 'Nope'"),
        (["judge", __file__, "--graphs", "Cora", "--out", "x"], "leave them or RUNS out"),
        (["show", "--without", "Coraa"], "did you mean 'Cora'"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    done = CliRunner().invoke(cli, ["prior", *arguments])
    assert done.exit_code != 0
    assert message in done.output


def test_an_incomplete_run_is_refused(tmp_path):
    path = tmp_path / "half.npz"
    np.savez(path, logits=np.zeros((3, 2)))
    done = CliRunner().invoke(cli, ["prior", "fit", str(path), "--out", str(tmp_path / "x.json")])
    assert done.exit_code == 1
    assert "no array 'labels' or 'y', no 'edges' or 'edge_index', no 'calibration'" in done.output
    assert not (tmp_path / "x.json").exists()


def test_a_prior_is_judged_on_past_runs_of_ones_own(tmp_path):
    train = np.arange(500, 550)
    paths = [
        save_run(tmp_path / f"{n}.npz", n, graph="mine", split=n // 2, train=train)
        for n in range(4)
    ]
    out = tmp_path / "judged"
    options = ["--methods", "vector", "--out", str(out)]
    done = CliRunner().invoke(cli, ["prior", "judge", *map(str, paths), *options])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (out / "rows.jsonl").open()]
    assert [row["method"] for row in rows[:6]] == [
        "temperature", "ensemble-temperature", "simi-mailbox", "simi-mailbox", "simi-mailbox-free",
        "vector",
    ]  # fmt: skip
    assert [(row["split"], row["init"]) for row in rows[::6]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert "| mine ? | 4 |" in (out / "table.md").read_text()
    # Measured on the nodes neither trained nor calibrated on.
    run = past_run(0, n=600, labels=100)
    rest = np.setdiff1d(np.arange(600), [*np.asarray(run.calibration), *train])
    scaled = TemperatureScaling().fit(run.logits, run.y, mask=run.calibration)
    probs = scaled.predict_proba(run.logits)
    assert rows[0]["metrics"]["nll"] == pytest.approx(nll(probs[rest], run.y[rest]), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "gatts"], "gats"),
        (["--methods", "vector,dcgc"], "dcgc needs forward, which past runs do not hold; choices:"),
        (["--prior", "nowhere.json"], "no prior file"),
    ],
)
def test_a_failed_judgement_writes_nothing(tmp_path, options, message):
    path, out = save_run(tmp_path / "run.npz", 0), tmp_path / "judged"
    done = CliRunner().invoke(cli, ["prior", "judge", str(path), *options, "--out", str(out)])
    assert done.exit_code == 1
    assert message in done.output
    assert not [*out.rglob("*")]


@pytest.mark.parametrize("verb", ["fit", "judge"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch, verb):
    path = save_run(tmp_path / "run.npz", 0)
    monkeypatch.setattr(
        "simi_mailbox_bench.prior.read_run", lambda path: pytest.fail("work was done")
    )
    done = CliRunner().invoke(cli, ["prior", verb, str(path), "--out", str(path / "x")])
    assert done.exit_code == 1
    assert "cannot write" in done.output


def test_a_prior_is_not_judged_on_graphs_it_was_learned_on(tmp_path):
    path, own = save_run(tmp_path / "mine.npz", 0), tmp_path / "user.json"
    done = CliRunner().invoke(cli, ["prior", "fit", str(path), "--out", str(own)])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("learned from 1 setting, 1 run\n")
    options = ["--prior", str(own), "--out", str(tmp_path / "judged")]
    done = CliRunner().invoke(cli, ["prior", "judge", str(path), *options])
    assert done.exit_code == 1
    assert "was learned on 'mine'" in done.output
    other = save_run(tmp_path / "other.npz", 1)
    done = CliRunner().invoke(cli, ["prior", "judge", str(other), *options])
    assert done.exit_code == 0, done.output
    # The shipped prior leaves a relative of the graph out by itself.
    named = save_run(tmp_path / "named.npz", 1, graph="CoraML")
    done = CliRunner().invoke(
        cli, ["prior", "judge", str(named), "--out", str(tmp_path / "judged")]
    )
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "judged/rows.jsonl").open()]
    assert rows[-1]["settings"]["prior"].endswith("without cora")
    text = (tmp_path / "judged/table.md").read_text()
    assert "## All graphs" in text
    assert "nan" not in text


def test_a_family_of_ones_own_is_left_out_and_an_unknown_one_refused(tmp_path):
    paths = [save_run(tmp_path / f"{name}.npz", n) for n, name in enumerate("ab")]
    own = tmp_path / "user.json"
    CliRunner().invoke(cli, ["prior", "fit", *map(str, paths), "--out", str(own)])
    shown = CliRunner().invoke(cli, ["prior", "show", str(own), "--without", "a"]).output
    assert "b ?: 1 run" in shown
    assert "a ?: 1 run" not in shown
    done = CliRunner().invoke(cli, ["prior", "show", str(own), "--without", "nobody"])
    assert done.exit_code == 1
    assert "unknown dataset 'nobody'" in done.output


def test_the_page_tells_how_to_write_a_run(tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs/prior.md").read_text(encoding="utf-8")
    choices, fitting, writing = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    run = past_run(0, n=200, labels=50)
    given = {name: getattr(run, name) for name in ("logits", "y", "calibration")}
    given |= {"edge_index": run.graph.edge_index(), "train": [190], "hidden": run.logits}
    given |= {"val_mask": run.calibration, "train_mask": [190]}
    exec(choices + fitting + writing, given | {"nodes": [150], "labels": [0]})
    assert read_run("clinic-2025-0.npz").graph_name == "clinic-2025"


def test_settings_are_learned_and_judged_from_the_bank(tmp_path, monkeypatch):
    from simi_mailbox_bench.backbones import Settings
    from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey

    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path))
    bank = RunCache()
    quick = Settings(epochs=3)
    monkeypatch.setattr("simi_mailbox_bench.backbones.cached_runs.settings_for", lambda name: quick)
    for split in range(3):
        bank.get(RunKey("Digits", "mlp", split=split), quick)
    out = tmp_path / "user.json"
    options = ["--graphs", "Digits", "--backbones", "mlp"]
    done = CliRunner().invoke(cli, ["prior", "fit", "--cached-only", *options, "--out", str(out)])
    assert done.exit_code == 0, done.output
    (setting,) = prior.read(out)
    assert (setting.runs, setting.family) == (3, "digits")
    assert "hidden" in setting.hidden
    done = CliRunner().invoke(cli, ["prior", "judge", *options, "--out", str(tmp_path / "judged")])
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "judged/rows.jsonl").open()]
    assert len(rows) == 3 * len(judged_methods("learned", hidden=True))
    assert "Digits MLP | 3 |" in (tmp_path / "judged/table.md").read_text()


def test_the_words_are_the_numbers():
    shown = CliRunner().invoke(cli, ["prior", "show"]).output
    learned = prior.learned()
    for belief in (learned.plain, learned.hidden):
        assert f"{belief.location['labels']:+.3f} ± {belief.spread['labels']:.3f}" in shown
    drop = learned.drop(UNIT, 500, keep_classes=False, selected=False)
    assert f"{100 * drop:.2f} with 500" in shown
    assert f"could not be wrong: {learned.error_free_labels:.0f}" in shown
