"""Work files and folders of results: whole or not at all, and nobody else's."""

import hashlib
import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import store as module
from simi_mailbox.scale.store import Output, Store, alone_in, clear, work_in

ARRAYS = [
    np.arange(7.0), np.zeros((0, 3)), np.arange(12).reshape(3, 4)[:, ::2],
    np.arange(40, dtype=np.uint16).reshape(2, 4, 5),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: str(array.shape))
@pytest.mark.parametrize("chunk", [1, 1 << 24])
def test_arrays_come_back_and_their_files_are_known_again(array, chunk, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", chunk)
    store = Store(tmp_path)
    written = store.put("some/00000", array)
    content = Path(written.path).read_bytes()
    assert (written.bytes, written.digest) == (len(content), f"crc32:{content[-4:].hex()}")
    assert int.from_bytes(content[-4:], "little") == zlib.crc32(content[:-4])
    assert written.is_there()
    assert [file.name for file in (tmp_path / "some").iterdir()] == ["00000.npy"]
    for found in (store.get("some/00000"), store.view("some/00000") if array.size else array):
        np.testing.assert_array_equal(found, array)
        assert (found.dtype, found.shape) == (array.dtype, array.shape)


def test_every_byte_of_a_work_file_counts(tmp_path):
    store = Store(tmp_path)
    written = store.put("some/00000", np.arange(4.0))
    path = store.path("some/00000")
    whole = path.read_bytes()
    for place in (*range(10, len(whole), 17), len(whole) - 1):
        content = bytearray(whole)
        content[place] ^= 1
        path.write_bytes(content)
        module._SEEN.clear()
        for look in (store.get, store.view):
            with pytest.raises(FileFormatError, match=r"damaged .*: start again"):
                look("some/00000")
        assert not written.is_there()
    path.write_bytes(whole)
    assert written.is_there()
    path.write_bytes(whole + b"x")
    assert not written.is_there()
    path.unlink()
    assert not written.is_there()
    for look in (store.get, store.view):
        with pytest.raises(FileNotFoundError, match="is gone: start again"):
            look("some/00000")


def test_a_file_that_was_looked_at_is_not_checked_again_until_it_changes(tmp_path, monkeypatch):
    store, looked, check = Store(tmp_path), list[Path](), module._checksum
    monkeypatch.setattr(module, "_checksum", lambda path: (looked.append(path), check(path)))
    store.put("some/00000", np.arange(4.0))
    for _ in range(3):
        store.view("some/00000")
    assert len(looked) == 1
    store.put("some/00000", np.arange(5.0))
    assert len(store.view("some/00000")) == 5
    assert len(looked) == 2


def test_a_failed_write_leaves_nothing_and_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    words = r"No space left on device; it was to be written.*00000\.npy"
    with pytest.raises(OSError, match=words) as caught:
        Store(tmp_path).put("some/00000", np.zeros(3))
    assert caught.value.errno == 28
    assert not files_below(tmp_path)


def files_below(place):
    return sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())


def test_a_folder_is_held_by_one_and_let_go(tmp_path):
    place = tmp_path / "new" / "folder"
    for _ in range(2):
        with alone_in(place):
            with pytest.raises(BlockingIOError, match="another run works in"), alone_in(place):
                pass
            assert files_below(place) == [".lock"]
        assert not files_below(place)


def test_a_work_folder_is_kept_for_the_same_facts_and_made_anew_for_others(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    place = work_in(tmp_path, {"rows": 5})
    Store(place).put("tile/00000-00001", np.zeros(3))
    (place / "tile" / ".00000-00001.npy.77-0a0b").write_text("cut off by a kill")
    assert work_in(tmp_path, {"rows": 5}) == place
    assert len(files_below(place)) == 3
    work_in(tmp_path, {"rows": 6})
    assert files_below(place) == ["work.json"]
    assert json.loads((place / "work.json").read_text())["rows"] == 6
    (place / "work.json").unlink()  # killed while it was cleared
    Store(place).put("tile/00000", np.zeros(3))
    work_in(tmp_path, {"rows": 6})
    assert files_below(tmp_path) == [".simi-mailbox/work.json", "thesis.txt"]


def test_a_link_in_a_work_folder_is_not_followed(tmp_path):
    Store(tmp_path / "outside").put("x/00000", np.zeros(3))
    (work_in(tmp_path, {}) / "x").symlink_to(tmp_path / "outside" / "x")
    clear(tmp_path / ".simi-mailbox")
    assert files_below(tmp_path) == ["outside/x/00000.npy"]


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test_results_are_shards_and_a_manifest_that_tells_them(ending, tmp_path):
    output = Output(tmp_path, ending)
    output.check()
    output.prepare()
    assert (tmp_path / ".unfinished").exists()
    probs, groups = np.random.default_rng(0).random((5, 3)), np.arange(5)
    for stale in (f"probabilities/00007{ending}", "groups/00007.npy"):
        (tmp_path / stale).write_text("of an earlier run")
    (tmp_path / "groups" / "mine.txt").write_text("mine")
    files = output.block(2, probs, groups)
    output.finish(files, {"method": "m", "engine": "e"})
    assert files_below(tmp_path) == [
        "groups/00002.npy", "groups/mine.txt", "manifest.json", f"probabilities/00002{ending}",
    ]  # fmt: skip
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["method"] == "m"
    for entry in manifest["shards"]:
        content = (tmp_path / entry["file"]).read_bytes()
        assert (entry["bytes"], entry["sha256"]) == (
            len(content),
            hashlib.sha256(content).hexdigest(),
        )
    assert all(file.is_there() for file in files)
    stored = np.load(tmp_path / "groups" / "00002.npy")
    assert (stored.dtype, stored.tolist()) == (np.uint16, [0, 1, 2, 3, 4])
    path = tmp_path / "probabilities" / f"00002{ending}"
    found = np.load(path) if ending == ".npy" else np.stack(list(pq.read_table(path)), axis=1)
    np.testing.assert_array_equal(found, probs)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("name", ["groups", "probabilities", "manifest.json"])
def test_only_results_of_an_earlier_run_may_be_there(name, begun, tmp_path):
    if begun:
        (tmp_path / ".unfinished").touch()
    if name == "manifest.json":
        (tmp_path / name).write_text("{}")
    else:
        (tmp_path / name).mkdir()
    output = Output(tmp_path, ".npy")
    if begun:
        output.check()
    else:
        with pytest.raises(ValueError, match=f"{name} is no result of an earlier run"):
            output.check()
    (tmp_path / ".unfinished").unlink(missing_ok=True)
    (tmp_path / "manifest.json").write_text('{"method": 1, "engine": 2, "shards": []}')
    output.check()
    output.prepare()
    assert not (tmp_path / "manifest.json").exists()
