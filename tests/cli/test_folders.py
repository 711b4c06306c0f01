"""Folders of shards on the command line."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from simi_mailbox import SimiMailbox, metrics
from simi_mailbox.calibrators import SimiMailboxFree
from simi_mailbox.cli.group import cli
from tests.scale.conftest import Known, add_hidden, known, probabilities, shards

__all__ = ["known", "shards"]


def test_a_folder_is_calibrated_and_its_calibrator_applied(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    command = ["calibrate", str(shards), "--engine", "disk", "--out", str(out), "--json"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["engine"] == "disk"
    np.testing.assert_allclose(probabilities(out), known.probs, atol=1e-6)
    done = CliRunner().invoke(
        cli, ["apply", str(out / "calibrator.safetensors"), str(shards), "--out", str(again)]
    )
    assert done.exit_code == 0, done.output
    assert "memory" in done.output
    np.testing.assert_allclose(probabilities(again), known.probs, atol=1e-6)
    judged = CliRunner().invoke(cli, ["evaluate", str(out), "--json"])
    assert judged.exit_code == 0, judged.output
    rows = np.setdiff1d(np.arange(len(known.y)), np.concatenate([known.mask, known.train]))
    facts = json.loads(judged.stdout)
    assert facts["nodes"] == len(rows)
    expected = metrics.evaluate(known.probs[rows], known.y[rows])
    for name, row in facts["metrics"].items():
        assert row["value"] == pytest.approx(expected[name], abs=1e-6), name
    shown = CliRunner().invoke(cli, ["evaluate", str(shards), "--input-type", "logits"])
    assert "miscalibrated" in shown.output
    refused = CliRunner().invoke(cli, ["evaluate", str(out), "--ids", str(shards / "labels.npy")])
    assert "--ids is for files" in refused.output
    (out / "manifest.json").unlink()
    unfinished = CliRunner().invoke(cli, ["evaluate", str(out)])
    assert unfinished.exit_code == 1
    assert "is not finished" in unfinished.output


def test_fresh_nodes_of_a_folder_are_what_they_are_in_memory(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(
        cli, ["calibrate", str(shards), "--not-used-for-selection", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    cal = SimiMailbox()
    given = {
        "graph": known.graph,
        "mask": known.mask,
        "train_mask": known.train,
        "used_for_selection": False,
    }
    probs = cal.fit(known.logits, known.y, **given).predict_proba(known.logits, graph=known.graph)
    np.testing.assert_allclose(probabilities(out), probs, atol=1e-6)
    assert np.abs(probs - known.probs).max() > 1e-4


def test_a_method_and_evidence_of_a_folder_are_what_they_are_in_memory(
    shards: Path, tmp_path: Path, known: Known
) -> None:
    out, again, hidden = tmp_path / "out", tmp_path / "again", add_hidden(shards, known, 7)
    options = ["--method", "simi-mailbox-free", "--set", "n_groups=9", "--out", str(out)]
    done = CliRunner().invoke(cli, ["calibrate", str(shards), *options])
    assert done.exit_code == 0, done.output
    given = {"graph": known.graph, "train_mask": known.train, "hidden": hidden}
    cal = SimiMailboxFree(n_groups=9).fit(known.logits, known.y, mask=known.mask, **given)
    probs = cal.predict_proba(known.logits, **given)
    np.testing.assert_allclose(probabilities(out), probs, atol=1e-6)
    (tmp_path / "later.csv").write_text(f"id,label\n12,{known.y[12]}\n")
    file = str(out / "calibrator.safetensors")
    command = ["apply", file, str(shards), "--known", str(tmp_path / "later.csv")]
    done = CliRunner().invoke(cli, [*command, "--out", str(again)])
    assert done.exit_code == 0, done.output
    told = cal.predict_proba(known.logits, known=([12], known.y[[12]]), **given)
    np.testing.assert_allclose(probabilities(again), told, atol=1e-6)
    assert np.abs(told - probs).max() > 1e-4


def test_what_a_folder_cannot_be_asked_is_refused(shards: Path, tmp_path: Path) -> None:
    for options, words in (
        (["--labels", str(shards / "labels.npy")], "--labels is for files"),
        (["--method", "gats"], "--method gats is for files"),
        (["--allow-training-nodes"], "--allow-training-nodes is for files"),
        (["--engine", "dask"], "needs scheduler"),
        (["--memory", "much"], "'much' is no size"),
    ):
        done = CliRunner().invoke(
            cli, ["calibrate", str(shards), "--out", str(tmp_path / "out"), *options]
        )
        assert done.exit_code != 0
        assert words in done.output


def test_a_damaged_shard_is_one_line(shards: Path, tmp_path: Path) -> None:
    z = np.load(shards / "logits" / "part-10.npy")
    z[5] = np.inf
    np.save(shards / "logits" / "part-10.npy", z)
    done = CliRunner().invoke(cli, ["calibrate", str(shards), "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "part-10.npy, row 5: a logit is NaN or infinite" in done.output
