"""The store: nothing lost, nothing doubled, torn lines repaired."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simi_mailbox.experiments import store as store_module
from simi_mailbox.experiments.store import ResultStore, row_key

# The store needs the standard library only; loading its file alone starts a process in no time.
WRITER = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("store", sys.argv[5])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
ResultStore = module.ResultStore
store = ResultStore(sys.argv[1])
first, last, mark = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
written = sum(store.append({"key": str(i), "by": mark, "pad": "x" * 200})
              for i in range(first, last))
print(written)
"""


def writer(path: Path, first: int, last: int, mark: str) -> subprocess.Popen[str]:
    numbers = [str(first), str(last)]
    command = [sys.executable, "-c", WRITER, str(path), *numbers, mark, store_module.__file__]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "new" / "rows.jsonl")
    for key in "cab":
        assert store.append({"key": key, "metrics": {"ece": 0.1}})
    assert [row["key"] for row in ResultStore(store.path).rows()] == ["c", "a", "b"]


def test_a_row_is_never_written_twice(tmp_path: Path) -> None:
    first, second = (ResultStore(tmp_path / "rows.jsonl") for _ in range(2))
    assert first.append({"key": "a", "value": 1})
    assert not second.append({"key": "a", "value": 2})
    assert first.path.read_text().count("\n") == 1
    assert second["a"]["value"] == 1


@pytest.mark.parametrize("torn", ['{"key": "b", "val', '{"key": "b"}', "\x00\x00", "é"])
def test_a_torn_last_line_is_removed_and_reported(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key":"a"}\n' + torn)
    store = ResultStore(path)
    assert [row["key"] for row in store.rows()] == ["a"]
    assert store.append({"key": "b", "value": 1})
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert len(store.repairs) == 1
    assert "torn" in store.repairs[0]


def test_a_long_torn_line_without_any_line_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 200_000)
    store = ResultStore(path)
    store.append({"key": "a"})
    assert path.read_text() == '{"key":"a"}\n'


def test_an_unreadable_line_in_the_middle_is_skipped_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key":"a"}\n<<<<<<< HEAD\n{"key":"b"}\n')
    store = ResultStore(path)
    assert [row["key"] for row in store.rows()] == ["a", "b"]
    assert "unreadable" in store.repairs[0]


def test_two_processes_lose_and_double_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    processes = [writer(path, 0, 300, "one"), writer(path, 100, 400, "two")]
    written = [int(process.communicate()[0]) for process in processes]
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert sorted(keys, key=int) == [str(i) for i in range(400)]
    assert sum(written) == 400


def test_kill_leaves_whole_rows_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    process = writer(path, 0, 10**6, "killed")
    while not path.exists() or path.stat().st_size < 10_000:
        time.sleep(0.01)
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    store = ResultStore(path)
    found = len(store)
    assert [int(row["key"]) for row in store.rows()] == list(range(found))
    assert store.append({"key": "after"})
    assert len(ResultStore(path)) == found + 1


def test_packing_keeps_every_row_and_is_seen_by_others(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    other = ResultStore(store.path)
    for key in "ab":
        store.append({"key": key})
    other.refresh()
    packed = store.pack()
    assert store.path.read_bytes() == b""
    assert not other.append({"key": "a"})
    assert other.append({"key": "c"})
    assert {row["key"] for row in ResultStore(store.path).rows()} == set("abc")
    with gzip.open(packed, "rt") as file:
        assert len(file.readlines()) == 2
    first = packed.read_bytes()
    ResultStore(store.path).pack()
    ResultStore(store.path).pack()
    assert packed.read_bytes() != first
    assert len(ResultStore(store.path)) == 3


def test_a_kill_between_the_two_steps_of_packing_doubles_nothing(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append({"key": "a"})
    plain = store.path.read_bytes()
    store.pack()
    store.path.write_bytes(plain)
    assert [row["key"] for row in ResultStore(store.path).rows()] == ["a"]


def test_rows_without_key_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="key"):
        ResultStore(tmp_path / "rows.jsonl").append({"value": 1})
    with pytest.raises(ValueError, match="jsonl"):
        ResultStore(tmp_path / "rows.csv")


def test_keys_depend_on_content_not_on_order() -> None:
    assert row_key({"a": 1, "b": [1, 2]}) == row_key({"b": [1, 2], "a": 1})
    assert row_key({"a": 1}) != row_key({"a": 1.5})
    with pytest.raises(ValueError, match="JSON"):
        row_key({"a": float("nan")})
