"""The command ``simi-mailbox prior``."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from past_run import past_run
from simi_mailbox import prior
from simi_mailbox.calibrators import TemperatureScaling
from simi_mailbox.cli.group import cli
from simi_mailbox.metrics import nll
from simi_mailbox_bench.commands.prior import UNIT
from simi_mailbox_bench.prior.judging import judged_methods


def invoke(*arguments, code=0):
    """What the command prints."""
    done = CliRunner().invoke(cli, ["prior", *arguments])
    assert done.exit_code == code, done.output
    return done.output


def judged(out):
    """Rows that a judgement has left, and its table."""
    rows = [json.loads(line) for line in (out / "rows.jsonl").open()]
    return rows, (out / "table.md").read_text()


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
    out = str(tmp_path / "user.json")
    assert "2 settings, 2 runs" in invoke("fit", str(one), str(two), "--out", out)
    assert [(s.graph, s.family, s.backbone) for s in prior.read(out)] == [
        ("shop-2023", "shop", "sage"), ("forum", "forum", "?"),
    ]  # fmt: skip
    assert "shop-2023 sage: 1 run, 100 labels" in invoke("show", out)


def test_the_shipped_prior_is_shown_in_numbers():
    whole = invoke("show")
    assert "Cora gcn" in whole
    learned = prior.learned()
    for belief in (learned.plain, learned.hidden):
        assert f"{belief.location['labels']:+.3f} ± {belief.spread['labels']:.3f}" in whole
    drop = learned.drop(UNIT, 500, keep_classes=False, selected=False)
    assert f"{100 * drop:.2f} with 500" in whole
    assert f"could not be wrong: {learned.error_free_labels:.0f}" in whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "--out", "x.json"], "give either npz files of past runs, or --cached-only"),
        (["show", "nowhere.json"], "nowhere.json"),
        (["judge", "--prior", "user.json", "--out", "x"], "--prior is for RUNS"),
        (["judge", "--graphs", "Nope", "--out", "x"], "unknown dataset 'Nope'"),
        (["judge", __file__, "--graphs", "Cora", "--out", "x"], "leave them or RUNS out"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    done = CliRunner().invoke(cli, ["prior", *arguments])
    assert done.exit_code != 0
    assert message in done.output


def test_a_prior_is_judged_on_past_runs_of_ones_own(tmp_path):
    train = np.arange(500, 550)
    paths = [
        save_run(tmp_path / f"{n}.npz", n, graph="mine", split=n // 2, train=train)
        for n in range(4)
    ]
    out = tmp_path / "judged"
    options = ["--methods", "vector", "--out", str(out)]
    invoke("judge", *map(str, paths), *options)
    rows, text = judged(out)
    assert [row["method"] for row in rows[:6]] == [
        "temperature", "ensemble-temperature", "simi-mailbox", "simi-mailbox", "simi-mailbox-free",
        "vector",
    ]  # fmt: skip
    assert [(row["split"], row["init"]) for row in rows[::6]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert re.search(r"\| mine \| \? \| learned prior \| \S+ ± \S+ \| 4 \|", text)
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
        (["--methods", "vector,dcgc"], "dcgc needs forward, which past runs do not hold"),
        (["--prior", "nowhere.json"], "no prior file"),
    ],
)
def test_a_failed_judgement_writes_nothing(tmp_path, options, message):
    path, out = save_run(tmp_path / "run.npz", 0), tmp_path / "judged"
    told = invoke("judge", str(path), *options, "--out", str(out), code=1)
    assert message in told
    assert not [*out.rglob("*")]


@pytest.mark.parametrize("verb", ["fit", "judge"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(tmp_path, monkeypatch, verb):
    path = save_run(tmp_path / "run.npz", 0)
    monkeypatch.setattr(
        "simi_mailbox_bench.prior.read_run", lambda path: pytest.fail("work was done")
    )
    told = invoke(verb, str(path), "--out", str(path / "x"), code=1)
    assert "cannot write" in told


def test_a_prior_is_not_judged_on_graphs_it_was_learned_on(tmp_path):
    path, own = save_run(tmp_path / "mine.npz", 0), tmp_path / "user.json"
    told = invoke("fit", str(path), "--out", str(own))
    assert told.endswith("learned from 1 setting, 1 run\n")
    options = ["--prior", str(own), "--out", str(tmp_path / "judged")]
    told = invoke("judge", str(path), *options, code=1)
    assert "was learned on 'mine'" in told
    other = save_run(tmp_path / "other.npz", 1)
    invoke("judge", str(other), *options)
    # The shipped prior leaves a relative of the graph out by itself.
    named = save_run(tmp_path / "named.npz", 1, graph="CoraML")
    invoke("judge", str(named), "--out", str(tmp_path / "judged"))
    rows, text = judged(tmp_path / "judged")
    assert rows[-1]["settings"]["prior"].endswith("without cora")
    assert "nan" not in text


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
    invoke("fit", "--cached-only", *options, "--out", str(out))
    (setting,) = prior.read(out)
    assert (setting.runs, setting.family) == (3, "digits")
    assert "hidden" in setting.hidden
    invoke("judge", *options, "--out", str(tmp_path / "judged"))
    rows, text = judged(tmp_path / "judged")
    assert len(rows) == 3 * len(judged_methods("learned", hidden=True))
    assert "| Digits | MLP | learned prior |" in text
