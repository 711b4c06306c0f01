"""Folders that runs write into: one run at a time, users' files stay, damage is noticed."""

import json
import multiprocessing
import os
import signal

import numpy as np
import pytest

from simi_mailbox.scale import calibrate
from tests.scale.conftest import probabilities, run_until_killed

pytestmark = pytest.mark.usefixtures("many_blocks")
SHAREABLE = [("work", "out"), ("elsewhere", "out"), ("work", "elsewhere")]


@pytest.mark.parametrize(("work", "out"), SHAREABLE)
def test_a_second_run_on_one_folder_says_so_and_disturbs_nothing(
    work, out, shards, tmp_path, on_disk
):
    told = []

    def second(step, done, _total):
        if step == "cutting tiles" and done == 2:
            with pytest.raises(BlockingIOError) as caught:
                calibrate(shards, tmp_path / out, engine="disk", work=tmp_path / work)
            told.append(str(caught.value))

    given = {"engine": "disk", "work": tmp_path / "work", "progress": second}
    done = calibrate(shards, tmp_path / "out", **given)
    (line,) = told
    shared = "out" if out == "out" else "work"
    assert line.startswith(f"another run works in {tmp_path / shared}: wait until it has ended")
    assert np.array_equal(probabilities(done), on_disk)
    assert not list(tmp_path.rglob(".lock"))


def _tell(folder, out, heard):
    try:
        calibrate(folder, out, engine="disk")
        heard.put("done")
    except BlockingIOError:
        heard.put("another")


def test_of_several_that_start_together_one_runs(shards, tmp_path):
    context = multiprocessing.get_context("fork")
    heard = context.Queue()
    started = [
        context.Process(target=_tell, args=(shards, tmp_path / "out", heard)) for _ in range(4)
    ]
    for process in started:
        process.start()
    found = sorted(heard.get(timeout=300) for _ in started)
    for process in started:
        process.join()
    # One that starts when the first has ended runs, too.
    assert "done" in found
    assert set(found) <= {"another", "done"}
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["blocks"] == 7


def test_a_file_of_others_beside_results_of_ours_stays_and_stale_shards_go(
    shards, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    calibrate(shards, out, engine="memory")
    assert len(list((out / "groups").iterdir())) == 7
    monkeypatch.setattr("simi_mailbox.scale.tiles.LARGEST_BLOCK", 1000)
    calibrate(shards, out, engine="memory")
    assert len(list((out / "groups").iterdir())) == 2
    (out / "groups" / "mine.csv").write_text("mine")
    calibrate(shards, out, engine="memory")
    assert (out / "groups" / "mine.csv").read_text() == "mine"


def test_shards_are_not_calibrated_into_their_own_folder(shards):
    with pytest.raises(ValueError, match="is the folder of the shards itself"):
        calibrate(shards, shards, engine="memory")
    assert not (shards / "probabilities").exists()


@pytest.mark.parametrize("what", ["link", "file"])
def test_what_is_no_work_folder_is_told_and_stays(what, shards, tmp_path):
    place, kept = tmp_path / "out" / ".simi-mailbox", tmp_path / "elsewhere"
    kept.mkdir()
    (kept / "work.json").write_text("mine")
    place.parent.mkdir()
    place.symlink_to(kept) if what == "link" else place.write_text("mine")
    with pytest.raises(ValueError, match=r"\.simi-mailbox is no folder but a link or a file"):
        calibrate(shards, tmp_path / "out", engine="disk")
    assert (kept / "work.json").read_text() == "mine"
    assert place.is_symlink() == (what == "link")


def _dies_in_the_end(folder, out, files):
    unlink, seen = os.unlink, [0]

    def dies(path, **given):
        if str(path).endswith(".npy") and (out / "manifest.json").exists():
            seen[0] += 1
            if seen[0] > files:
                os.kill(os.getpid(), signal.SIGKILL)
        unlink(path, **given)

    os.unlink = dies
    calibrate(folder, out, engine="disk")


@pytest.mark.parametrize("files", [0, 20, 60])
def test_a_kill_during_the_last_clearing_leaves_a_folder_that_is_accepted(files, shards, tmp_path):
    out = tmp_path / "out"
    run_until_killed(_dies_in_the_end, shards, out, files)
    assert (out / "manifest.json").exists()
    assert (out / ".simi-mailbox").exists()
    before = probabilities(out)
    done = calibrate(shards, out, engine="disk")
    assert np.array_equal(probabilities(done), before)
    assert not (out / ".simi-mailbox").exists()
