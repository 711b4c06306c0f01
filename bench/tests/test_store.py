"""The store: nothing lost, nothing doubled, torn lines repaired."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from simi_mailbox_bench import store as store_module
from simi_mailbox_bench.store import ResultStore, row_key

WRITER = """
import sys
from simi_mailbox_bench.store import ResultStore
store = ResultStore(sys.argv[1])
first, last, mark = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
written = sum(store.append({"key": str(i), "metrics": {}, "by": mark, "pad": "x" * 200})
              for i in range(first, last))
print(written)
"""


def row(key: str) -> store_module.Row:
    return {"key": key, "metrics": {}}


def writer(path: Path, first: int, last: int, mark: str) -> subprocess.Popen[str]:
    numbers = [str(first), str(last)]
    command = [sys.executable, "-c", WRITER, str(path), *numbers, mark]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "new" / "rows.jsonl")
    for key in "cab":
        assert store.append({"key": key, "metrics": {"ece": 0.1}})
    assert [row["key"] for row in ResultStore(store.path).rows()] == ["c", "a", "b"]


def test_a_row_is_never_written_twice(tmp_path: Path) -> None:
    first, second = (ResultStore(tmp_path / "rows.jsonl") for _ in range(2))
    assert first.append({"key": "a", "metrics": {"value": 1}})
    assert not second.append({"key": "a", "metrics": {"value": 2}})
    assert first.path.read_text().count("\n") == 1
    assert second["a"]["metrics"]["value"] == 1


def test_two_threads_that_read_at_once_do_not_skip_later_rows(tmp_path: Path) -> None:
    """A second look begins while the first one takes in what it read."""
    path = tmp_path / "rows.jsonl"
    store, other = ResultStore(path), ResultStore(path)
    other.append(row("a"))
    second = threading.Thread(target=store.refresh)
    take = store._take

    def slowly(*text: Any) -> None:
        if second.ident is None:
            second.start()
            second.join(timeout=0.3)
        take(*text)

    store._take = slowly  # type: ignore[method-assign]
    store.refresh()
    second.join()
    other.append(row("b"))
    assert not store.append(row("b"))
    assert [row["key"] for row in store.rows()] == ["a", "b"]


@pytest.mark.parametrize("torn", ['{"key": "b", "val', '{"key": "b"}', "\x00\x00", "é"])
def test_a_torn_last_line_is_removed_and_reported(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key":"a","metrics":{}}\n' + torn)
    store = ResultStore(path)
    assert [row["key"] for row in store.rows()] == ["a"]
    assert store.append(row("b"))
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == ["a", "b"]
    assert len(store.repairs) == 1
    assert "torn" in store.repairs[0]


def test_a_long_torn_line_without_any_line_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"x" * 200_000)
    store = ResultStore(path)
    store.append(row("a"))
    assert path.read_text() == '{"key":"a","metrics":{}}\n'


def test_an_unreadable_line_in_the_middle_is_skipped_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key":"a","metrics":{}}\n<<<<<<< HEAD\n{"key":"b","metrics":{}}\n')
    store = ResultStore(path)
    assert [row["key"] for row in store.rows()] == ["a", "b"]
    assert store.repairs == ["rows.jsonl: skipped an unreadable line, number 2: b'<<<<<<< HEAD'"]


@pytest.mark.parametrize("told", [True, False], ids=["an error", "fewer bytes"])
def test_a_failed_write_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """Others must not read half a row: not even until the next append repairs it."""
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append(row("a"))
    before = store.path.read_bytes()
    write = os.write

    def full(file: int, data: bytes) -> int:
        written = write(file, data[:7])
        if told:
            raise OSError(28, "No space left on device")
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match=r"No space left|disk full"):
            store.append(row("b"))
    assert store.path.read_bytes() == before
    assert store.append(row("b"))
    assert store.repairs == []


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
    assert store.append(row("after"))
    assert len(ResultStore(path)) == found + 1


def pack(store: ResultStore) -> Path:
    """Compress the rows, as a maintainer does with gzip, and empty the plain file."""
    store.packed_path.write_bytes(gzip.compress(store.path.read_bytes()))
    store.path.write_bytes(b"")
    return store.packed_path


def test_packed_rows_are_read_and_not_written_again(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    for key in "ab":
        store.append(row(key))
    plain = store.path.read_bytes()
    pack(store)
    other = ResultStore(store.path)
    assert not other.append(row("a"))
    assert other.append(row("c"))
    assert [kept["key"] for kept in ResultStore(store.path).rows()] == ["a", "b", "c"]
    store.path.write_bytes(plain)  # as if the plain file had not been emptied
    assert [kept["key"] for kept in ResultStore(store.path).rows()] == ["a", "b"]


@pytest.mark.parametrize("part", [0.5, 0.0])
def test_a_packed_file_that_is_not_whole_is_named(tmp_path: Path, part: float) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append(row("a"))
    packed = pack(store)
    whole = packed.read_bytes()
    packed.write_bytes(whole[: int(part * len(whole))] or b"no gzip at all")
    with pytest.raises(ValueError, match=r"rows\.jsonl\.gz is no whole gzip file"):
        ResultStore(store.path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_folder_is_no_store(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} is a folder"):
        ResultStore(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("line", ['{"key":"b"}', '{"key":"b","metrics":1}', '{"key":1}', "[]", ""])
def test_a_row_without_what_makes_it_one_is_unreadable(tmp_path: Path, line: str) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append(row("a"))
    with store.path.open("a") as file:
        file.write(line + "\n")
    store.append(row("c"))
    assert [kept["key"] for kept in store.rows()] == ["a", "c"]
    assert len(store.repairs) == 1
    assert "number 2" in store.repairs[0]


def test_a_store_that_cannot_be_written_is_known_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = ResultStore(tmp_path / "file" / "rows.jsonl")
    with pytest.raises(OSError, match="file"):
        store.prepare()


def test_rows_without_key_and_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="key"):
        ResultStore(tmp_path / "rows.jsonl").append({"metrics": {}})
    with pytest.raises(ValueError, match="metrics"):
        ResultStore(tmp_path / "rows.jsonl").append({"key": "a"})
    with pytest.raises(ValueError, match="jsonl"):
        ResultStore(tmp_path / "rows.csv")


def test_keys_depend_on_content_not_on_order() -> None:
    assert row_key({"a": 1, "b": [1, 2]}) == row_key({"b": [1, 2], "a": 1})
    assert row_key({"a": 1}) != row_key({"a": 1.5})
    with pytest.raises(ValueError, match="JSON"):
        row_key({"a": float("nan")})
