"""A command that is stopped ends in order: at once, with its processes, saying how to go on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from endless import EndlessTable
from simi_mailbox_bench import runner, tables
from simi_mailbox_bench.commands.bench import bench
from simi_mailbox_bench.store import ResultStore

psutil = pytest.importorskip("psutil", reason="the bench installs it")

SCRIPT = Path(__file__).parents[1] / "endless.py"


def alive(group):
    """Processes of a group, but for those that have ended and wait to be noticed."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != "zombie":
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def wait_until_gone(group, seconds):
    """Whether all processes of a group end within some seconds."""
    stop = time.monotonic() + seconds
    while alive(group):
        if time.monotonic() > stop:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def endless(store):
    """A command with two workers, both at work; nothing of it is left afterwards."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--store", str(store), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        while not store.exists() or len(ResultStore(store)) < 2:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        yield process
    finally:
        for left in alive(process.pid):
            left.kill()


def test_the_end_of_the_main_process_is_the_end_of_all(tmp_path):
    store = tmp_path / "rows.jsonl"
    with endless(store) as process:
        os.kill(process.pid, signal.SIGTERM)
        _, told = process.communicate(timeout=20)
        assert wait_until_gone(process.pid, 10)
    assert process.returncode == 143, told
    rows = len(ResultStore(store))
    assert 2 <= rows < 1200
    words = " ".join(told.split())
    assert f"stopped; {rows} rows are in {store}; the same command continues" in words
    assert "Aborted" not in told
    assert "Traceback" not in told
    assert "Warning" not in told


def test_workers_die_with_a_parent_that_is_killed(tmp_path):
    with endless(tmp_path / "rows.jsonl") as process:
        process.kill()
        process.wait()
        assert wait_until_gone(process.pid, 10)


def test_a_killed_worker_is_one_line_and_the_same_command_continues(tmp_path, monkeypatch):
    """That the runner notices is tested with the runner."""
    path = tmp_path / "rows.jsonl"

    def killed(planned, store, **_):
        work(0, replace(planned.units[0], pause=0, items=("0", "1")), str(store.path))
        raise runner.WorkerLostError("a worker process was killed, by the system or by hand")

    work = runner.work
    monkeypatch.setattr(runner, "run", killed)
    monkeypatch.setattr(tables, "get", lambda name: EndlessTable())
    result = CliRunner().invoke(bench, ["endless", "--store", str(path), "--jobs", "2"])
    assert (result.exit_code, result.stdout) == (1, "")
    told = result.stderr.splitlines()[-1]
    assert told == (
        "Error: a worker process was killed, by the system or by hand; "
        f"2 rows are in {path}; the same command continues"
    )
    assert "Traceback" not in result.stderr
    assert len(ResultStore(path)) == 2
