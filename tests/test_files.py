"""Files that appear whole or not at all."""

from __future__ import annotations

import os

import pytest

from simi_mailbox._files import whole_file


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
