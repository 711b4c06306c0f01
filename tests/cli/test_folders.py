"""Folders of shards on the command line."""

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.calibrators import SimiMailboxFree
from tests.cli.conftest import facts, run
from tests.scale.conftest import add_hidden, known, probabilities, shards

__all__ = ["known", "shards"]


def test_a_folder_is_calibrated_its_calibrator_applied_and_the_result_judged(
    shards, tmp_path, known
):
    out, again = tmp_path / "out", tmp_path / "again"
    assert facts(f"calibrate {shards} --engine disk --out {out}")["engine"] == "disk"
    np.testing.assert_allclose(probabilities(out), known.probs, atol=1e-6)
    assert "memory" in run(f"apply {out}/calibrator.safetensors {shards} --out {again}").output
    np.testing.assert_allclose(probabilities(again), known.probs, atol=1e-6)
    rows = np.setdiff1d(np.arange(len(known.y)), np.concatenate([known.mask, known.train]))
    found = facts(f"evaluate {out}")
    assert found["nodes"] == len(rows)
    expected = metrics.evaluate(known.probs[rows], known.y[rows])
    for name, row in found["metrics"].items():
        assert row["value"] == pytest.approx(expected[name], abs=1e-6), name
    assert "miscalibrated" in run(f"evaluate {shards} --input-type logits").output
    refused = run(f"evaluate {out} --ids {shards}/labels.npy", code=2)
    assert "--ids is for files" in refused.stderr
    (out / "manifest.json").unlink()
    assert "is not finished" in run(f"evaluate {out}", code=1).stderr


def test_a_method_and_evidence_of_a_folder_are_what_they_are_in_memory(shards, tmp_path, known):
    out, hidden = tmp_path / "out", add_hidden(shards, known, 7)
    method = "--method simi-mailbox-free --set n_groups=9 --not-used-for-selection"
    run(f"calibrate {shards} {method} --out {out}")
    given = {"graph": known.graph, "train_mask": known.train, "hidden": hidden}
    fitting = {"mask": known.mask, "used_for_selection": False}
    cal = SimiMailboxFree(n_groups=9).fit(known.logits, known.y, **fitting, **given)
    probs = cal.predict_proba(known.logits, **given)
    np.testing.assert_allclose(probabilities(out), probs, atol=1e-6)
    (tmp_path / "later.csv").write_text(f"id,label\n12,{known.y[12]}\n")
    line = f"apply {out}/calibrator.safetensors {shards} --known {tmp_path}/later.csv"
    run(f"{line} --out {tmp_path}/again")
    told = cal.predict_proba(known.logits, known=([12], known.y[[12]]), **given)
    np.testing.assert_allclose(probabilities(tmp_path / "again"), told, atol=1e-6)
    assert np.abs(told - probs).max() > 1e-4


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("--labels {shards}/labels.npy", 2, "--labels is for files"),
        ("--method gats", 2, "--method gats is for files"),
        ("--allow-training-nodes", 2, "--allow-training-nodes is for files"),
        ("--engine dask", 1, "needs scheduler"),
        ("--memory much", 1, "'much' is no size"),
    ],
)
def test_what_a_folder_cannot_be_asked_is_refused(shards, tmp_path, options, code, words):
    line = f"calibrate {shards} --out {tmp_path}/out {options.format(shards=shards)}"
    assert words in run(line, code=code).stderr
