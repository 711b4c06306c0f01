"""A command that is stopped ends in order: at once, with its processes, saying how to go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from simi_mailbox.experiments.store import ResultStore

psutil = pytest.importorskip("psutil", reason="needs simi-mailbox[bench], whose Dask needs it")

ROOT = Path(__file__).parents[2]
MODULE = "tests.cli.endless"


def alive(group: int) -> list[Any]:
    """Processes of a group, but for those that have ended and wait to be noticed."""
    found = []
    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != "zombie":
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def wait_until_gone(group: int, seconds: float) -> bool:
    """Whether all processes of a group end within some seconds."""
    stop = time.monotonic() + seconds
    while alive(group):
        if time.monotonic() > stop:
            return False
        time.sleep(0.05)
    return True


def test_the_end_of_the_main_process_is_the_end_of_all(tmp_path: Path) -> None:
    store = tmp_path / "rows.jsonl"
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, "--store", str(store), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        while not store.exists() or len(ResultStore(store)) < 2:
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGTERM)
        _, told = process.communicate(timeout=20)
        assert wait_until_gone(process.pid, 10)
    finally:
        for left in alive(process.pid):
            left.kill()
    assert process.returncode == 143, told
    rows = len(ResultStore(store))
    assert 2 <= rows < 1200
    words = " ".join(told.split())
    assert f"stopped; {rows} rows are in {store}; the same command continues" in words
    assert "Aborted" not in told
    assert "Traceback" not in told
    assert "Warning" not in told
