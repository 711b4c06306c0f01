"""Files that appear whole or not at all, and that are read without running anything."""

import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import cache_folder, mapped_npy, open_archive, read_npy, whole_file


def put(path: Path, text: str = "new") -> None:
    with whole_file(path) as unfinished:
        unfinished.write_text(text)


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="power cut"), whole_file(path) as unfinished:  # noqa: PT012
        unfinished.write_text("half")
        raise RuntimeError("power cut")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"):
        put(tmp_path / "nowhere" / "a.txt")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        put(tmp_path)


@pytest.mark.parametrize("mode", [None, 0o600, 0o640, 0o755, 0o444])
def test_the_new_file_replaces_the_old_one_and_keeps_its_mode(mode, tmp_path):
    path = tmp_path / "a.txt"
    if mode is not None:
        path.write_text("old")
        path.chmod(mode)
    before = os.umask(0o022)
    try:
        put(path)
    finally:
        os.umask(before)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == (0o644 if mode is None else mode)


def test_the_cache_is_where_the_variable_says_else_in_the_home(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path))
    assert cache_folder("logits") == tmp_path / "logits"
    monkeypatch.delenv("SIMI_MAILBOX_CACHE")
    assert cache_folder("logits") == Path.home() / ".cache" / "simi-mailbox" / "logits"


def read_all(path):
    with open_archive(path) as archive:
        return dict(archive)


class Bomb:
    """What a pickle could do: run code when it is read."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("read", [read_npy, read_all])
def test_other_kinds_of_files_are_refused_by_name(tmp_path, read):
    path = tmp_path / "file"
    for content, message in (
        (b"", "it is empty"),
        (b"1,2,3", "it is not a NumPy file"),
        (pickle.dumps(Bomb()), "it is a pickle, which can run code"),
    ):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=f"^{path}: {message}"):
            read(path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read(tmp_path / "absent")
    with pytest.raises(FileFormatError, match="it is a folder"):
        read(tmp_path)
    np.savez(tmp_path / "a.npz", a=np.arange(2))
    np.save(tmp_path / "a.npy", np.arange(2))
    other, message = ("a.npz", "several arrays") if read is read_npy else ("a.npy", "single array")
    with pytest.raises(FileFormatError, match=message):
        read(tmp_path / other)


def test_python_objects_are_never_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="it holds Python objects"):
        read_npy(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", good=np.arange(2), bad=np.array([Bomb()], dtype=object))
    with open_archive(tmp_path / "a.npz") as archive:
        assert archive["good"].tolist() == [0, 1]
        with pytest.raises(FileFormatError, match="array 'bad' holds Python objects"):
            archive["bad"]


def test_a_file_cut_anywhere_is_damaged(tmp_path):
    rng = np.random.default_rng(0)
    np.savez_compressed(tmp_path / "a.npz", a=rng.normal(size=50), b=rng.normal(size=50))
    np.save(tmp_path / "a.npy", rng.normal(size=50))
    for name, read in (("a.npz", read_all), ("a.npy", read_npy)):
        whole = (tmp_path / name).read_bytes()
        for size in range(6, len(whole) - 1, 7):
            (tmp_path / "cut").write_bytes(whole[:size])
            with pytest.raises(FileFormatError, match="is damaged"):
                read(tmp_path / "cut")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{'descr': '<f8'",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }\n",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-5,), }\n",
        "{'descr': '<f8', 'fortran_order': False}\n",
        "{'descr': '<q99', 'fortran_order': False, 'shape': (1,), }\n",
        "[1, 2]\n",
    ],
)
def test_a_header_that_was_made_up_is_damage_not_a_lack_of_memory(tmp_path, text):
    length = len(text).to_bytes(2, "little")
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + length + text.encode())
    with pytest.raises(FileFormatError, match=r"a\.npy: it is damaged"):
        read_npy(tmp_path / "a.npy")


def test_a_link_is_followed_and_stays_one(tmp_path):
    (tmp_path / "folder").mkdir()
    real, link = tmp_path / "folder" / "real.txt", tmp_path / "link.txt"
    link.symlink_to(real)
    put(link, "first")  # what it points to need not be there yet
    put(link, "second")
    assert link.is_symlink()
    assert real.read_text() == "second"
    assert sorted(os.listdir(tmp_path)) == ["folder", "link.txt"]


def test_a_pipe_or_device_is_written_into_and_not_replaced(tmp_path):
    put(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    put(pipe)
    reader.join()
    assert heard == ["new"]
    assert pipe.is_fifo()


KILLED = """
import os, signal, sys
from simi_mailbox.files import whole_file
with whole_file(sys.argv[1]) as unfinished:
    unfinished.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path):
    path = tmp_path / "a[1].txt"
    path.write_text("old")
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert path.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 2
    other = tmp_path / ".b.txt"
    other.write_text("mine")
    put(path)
    assert sorted(os.listdir(tmp_path)) == [".b.txt", "a[1].txt"]
    assert path.read_text() == "new"


def test_what_a_living_writer_is_at_is_left_alone(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as first:
        assert first.suffix == ".txt"
        first.write_text("first")
        put(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_one_thread_at_a_time_reads_the_header_of_an_array(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.arange(6.0))
    load, inside, most = np.load, [], []

    def slow(*given, **options):
        inside.append(given)
        most.append(len(inside))
        time.sleep(0.001)
        found = load(*given, **options)
        inside.pop()
        return found

    monkeypatch.setattr(np, "load", slow)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(mapped_npy, [tmp_path / "a.npy"] * 40))
    assert [array.sum() for array in found] == [15.0] * 40
    assert max(most) == 1
