"""The store: nothing lost, nothing doubled, torn lines repaired."""

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

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


def row(key):
    return {"key": key, "metrics": {}}


def writer(path, first, last, mark):
    numbers = [str(first), str(last)]
    command = [sys.executable, "-c", WRITER, str(path), *numbers, mark]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.jsonl"


def keys(path):
    return [row["key"] for row in ResultStore(path).rows()]


def test_rows_come_back_in_order_and_are_never_written_twice(tmp_path):
    path = tmp_path / "new" / "rows.jsonl"
    first, second = ResultStore(path), ResultStore(path)
    assert all(first.append({"key": key, "metrics": {"ece": 0.1}}) for key in "cab")
    assert keys(path) == ["c", "a", "b"]
    assert not second.append({"key": "a", "metrics": {"ece": 0.2}})
    assert path.read_text().count("\n") == 3
    assert second["a"]["metrics"]["ece"] == 0.1


def test_two_threads_that_read_at_once_do_not_skip_later_rows(path):
    """A second look begins while the first one takes in what it read."""
    store, other = ResultStore(path), ResultStore(path)
    other.append(row("a"))
    second = threading.Thread(target=store.refresh)
    take = store._take

    def slowly(*text):
        if second.ident is None:
            second.start()
            second.join(timeout=0.3)
        take(*text)

    store._take = slowly
    store.refresh()
    second.join()
    other.append(row("b"))
    assert not store.append(row("b"))
    assert [row["key"] for row in store.rows()] == ["a", "b"]


@pytest.mark.parametrize("before", [["a"], []])
@pytest.mark.parametrize(
    "torn", ['{"key": "b", "val', '{"key": "b"}', "\x00\x00", "é", 200_000 * "x"], ids=range(5)
)
def test_a_torn_last_line_is_removed_and_reported(path, before, torn):
    path.write_text("".join(f'{{"key":"{key}","metrics":{{}}}}\n' for key in before) + torn)
    store = ResultStore(path)
    assert [row["key"] for row in store.rows()] == before
    assert store.append(row("b"))
    assert [json.loads(line)["key"] for line in path.read_text().splitlines()] == [*before, "b"]
    (told,) = store.repairs
    assert "torn" in told


@pytest.mark.parametrize(
    "line", ["<<<<<<< HEAD", '{"key":"b"}', '{"key":"b","metrics":1}', '{"key":1}', "[]", ""]
)
def test_an_unreadable_line_in_the_middle_is_skipped_and_reported(path, line):
    ResultStore(path).append(row("a"))
    with path.open("a") as file:
        file.write(line + "\n")
    store = ResultStore(path)
    store.append(row("c"))
    assert [kept["key"] for kept in store.rows()] == ["a", "c"]
    told = f"rows.jsonl: skipped an unreadable line, number 2: {line.encode()!r}"
    assert store.repairs == [told]


@pytest.mark.parametrize("told", [True, False], ids=["an error", "fewer bytes"])
def test_a_failed_write_leaves_the_file_as_it_was(path, monkeypatch, told):
    """Others must not read half a row: not even until the next append repairs it."""
    store = ResultStore(path)
    store.append(row("a"))
    before = store.path.read_bytes()
    write = os.write

    def full(file, data):
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


def test_two_processes_lose_and_double_nothing(path):
    processes = [writer(path, 0, 300, "one"), writer(path, 100, 400, "two")]
    written = [int(process.communicate()[0]) for process in processes]
    assert len(path.read_text().splitlines()) == sum(written) == 400
    assert sorted(keys(path), key=int) == [str(i) for i in range(400)]


def test_kill_leaves_whole_rows_only(path):
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


def pack(store):
    """Compress the rows, as a maintainer does with gzip, and empty the plain file."""
    store.packed_path.write_bytes(gzip.compress(store.path.read_bytes()))
    store.path.write_bytes(b"")
    return store.packed_path


def test_packed_rows_are_read_and_not_written_again(path):
    store = ResultStore(path)
    assert all(store.append(row(key)) for key in "ab")
    plain = path.read_bytes()
    packed = pack(store)
    other = ResultStore(path)
    assert not other.append(row("a"))
    assert other.append(row("c"))
    assert keys(path) == ["a", "b", "c"]
    path.write_bytes(plain)  # as if the plain file had not been emptied
    assert keys(path) == ["a", "b"]
    for damaged in (packed.read_bytes()[:-20], b"no gzip at all"):
        packed.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"rows\.jsonl\.gz is no whole gzip file"):
            ResultStore(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_a_folder_is_no_store(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} is a folder"):
        ResultStore(tmp_path / "rows.jsonl")


def test_rows_without_key_and_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="key"):
        ResultStore(tmp_path / "rows.jsonl").append({"metrics": {}})
    with pytest.raises(ValueError, match="metrics"):
        ResultStore(tmp_path / "rows.jsonl").append({"key": "a"})
    with pytest.raises(ValueError, match="jsonl"):
        ResultStore(tmp_path / "rows.csv")


def test_keys_depend_on_content_not_on_order():
    assert row_key({"a": 1, "b": [1, 2]}) == row_key({"b": [1, 2], "a": 1})
    assert row_key({"a": 1}) != row_key({"a": 1.5})
    with pytest.raises(ValueError, match="JSON"):
        row_key({"a": float("nan")})
