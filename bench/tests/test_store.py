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

import simi_mailbox
from simi_mailbox_bench import store as store_module
from simi_mailbox_bench.store import ResultStore, row_key

# A package without its __init__ starts a process in no time: the store needs nothing heavy.
WRITER = """
import sys, types
package = sys.modules["simi_mailbox"] = types.ModuleType("simi_mailbox")
package.__path__ = [sys.argv[5]]
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
    package = str(Path(simi_mailbox.__file__).parent)
    command = [sys.executable, "-c", WRITER, str(path), *numbers, mark, package]
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


def test_packing_keeps_every_row_and_is_seen_by_others(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    other = ResultStore(store.path)
    for key in "ab":
        store.append(row(key))
    other.refresh()
    packed = store.pack()
    assert store.path.read_bytes() == b""
    assert not other.append(row("a"))
    assert other.append(row("c"))
    assert {row["key"] for row in ResultStore(store.path).rows()} == set("abc")
    with gzip.open(packed, "rt") as file:
        assert len(file.readlines()) == 2
    first = packed.read_bytes()
    ResultStore(store.path).pack()
    ResultStore(store.path).pack()
    assert packed.read_bytes() != first
    assert len(ResultStore(store.path)) == 3


@pytest.mark.parametrize("known", [True, False])
def test_packing_by_another_is_seen_however_much_was_appended_since(
    tmp_path: Path, known: bool
) -> None:
    """The plain file is then longer than it was when this store last read it, if it did."""
    first, other = (ResultStore(tmp_path / "rows.jsonl") for _ in range(2))
    for number in range(5):
        (first if known else other).append(row(f"k{number}"))
    other.pack()
    for number in range(10, 20):
        other.append(row(f"k{number}"))
    assert not any(first.append(row(key)) for key in ("k0", "k4", "k10", "k19"))
    assert first.append(row("k20"))
    assert first.path.read_text().count("\n") == 11
    assert {kept["key"] for kept in first.rows()} == {f"k{i}" for i in (*range(5), *range(10, 21))}
    assert first.repairs == []


def test_a_look_between_the_two_steps_of_packing_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The packed file is there already, the plain one not yet emptied."""
    first, other = (ResultStore(tmp_path / "rows.jsonl") for _ in range(2))
    other.append(row("a"))
    empty = os.ftruncate

    def look(file: int, size: int) -> None:
        first.refresh()
        empty(file, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", look)
        other.pack()
    for key in "bc":
        other.append(row(key))
    assert not first.append(row("b"))
    assert [kept["key"] for kept in first.rows()] == ["a", "b", "c"]
    assert first.repairs == []


@pytest.mark.parametrize("part", [0.5, 0.0])
def test_a_packed_file_that_is_not_whole_is_named(tmp_path: Path, part: float) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append(row("a"))
    packed = store.pack()
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


def test_a_kill_between_the_two_steps_of_packing_doubles_nothing(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append(row("a"))
    plain = store.path.read_bytes()
    store.pack()
    store.path.write_bytes(plain)
    assert [row["key"] for row in ResultStore(store.path).rows()] == ["a"]


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
