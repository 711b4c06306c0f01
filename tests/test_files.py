"""Files that appear whole or not at all, and that are read without running anything."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import cache_folder, open_archive, read_npy, whole_file


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with whole_file(path) as unfinished:
            unfinished.write_text("half")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_new_file_replaces_the_old_one_and_others_may_read_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    before = os.umask(0o022)
    try:
        with whole_file(path) as unfinished:
            assert (unfinished.suffix, path.read_text()) == (".txt", "old")
            unfinished.write_text("new")
    finally:
        os.umask(before)
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_missing_folder_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere"),
        whole_file(tmp_path / "nowhere" / "a.txt"),
    ):
        pass


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
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"1,2,3", "it is not a NumPy file"),
        (pickle.dumps(Bomb()), "it is a pickle, which can run code"),
    ],
)
def test_other_kinds_of_files_are_refused_by_name(tmp_path, read, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read(tmp_path / "absent")
    with pytest.raises(FileFormatError, match="it is a folder"):
        read(tmp_path)


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


def test_a_size_that_was_made_up_is_damage_not_a_lack_of_memory(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(10))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content.replace(b"(10,), }        ", b"(10000000000000,)}"))
    with pytest.raises(FileFormatError, match="is damaged"):
        read_npy(tmp_path / "a.npy")


def test_an_archive_is_not_an_array_and_an_array_no_archive(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.arange(2))
    np.save(tmp_path / "a.npy", np.arange(2))
    with pytest.raises(FileFormatError, match="several arrays, not a single one"):
        read_npy(tmp_path / "a.npz")
    with pytest.raises(FileFormatError, match=r"a single array, not a \.npz file"):
        read_all(tmp_path / "a.npy")
