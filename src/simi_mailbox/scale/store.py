"""Folders that a run writes into: blocks and tiles between passes, results, and who holds them.

Functions of a pass get the store and the number of their block, take what they need by name and put
back what they made. They do not know who calls them, in which process, or how often: an array is
there whole or not at all, and putting it again puts the same.
"""

import hashlib
import io
import json
import math
import os
import re
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, whole_file

CHUNK = 1 << 24


@dataclass(frozen=True)
class Written:
    """A finished file, and what tells damage."""

    path: str
    bytes: int
    digest: str

    def is_there(self) -> bool:
        """Whether the file is still what was written."""
        digest = Digest(self.digest.partition(":")[0])
        try:
            if os.path.getsize(self.path) != self.bytes:
                return False
            with open(self.path, "rb") as file:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
        except OSError:
            return False
        return str(digest) == self.digest


class Digest:
    """``crc32``, for files that we read ourselves, or ``sha256``, for those that are handed out."""

    def __init__(self, kind: str = "crc32") -> None:
        self.kind, self.crc = kind, 0
        self.sha = hashlib.sha256() if kind == "sha256" else None

    def update(self, data: Any) -> None:
        if self.sha is None:
            self.crc = zlib.crc32(data, self.crc)
        else:
            self.sha.update(data)

    def __str__(self) -> str:
        return f"{self.kind}:{f'{self.crc:08x}' if self.sha is None else self.sha.hexdigest()}"


@dataclass(frozen=True)
class Store:
    """Arrays as ``.npy`` files below a folder, which all processes that work on them can see."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def put(self, name: str, array: Array) -> Written:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return write_npy(path, array)

    def get(self, name: str) -> Array:
        path = self.path(name)
        with _damage(path), path.open("rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            start = file.tell()
            array = np.fromfile(file, dtype, math.prod(shape))
            end = file.read()
            file.seek(0)
            check = zlib.crc32(array.data, zlib.crc32(file.read(start)))
            if end != _bytes(check):
                raise ValueError(_CHANGED)
            return array.reshape(shape)

    def view(self, name: str) -> Array:
        """Like `get`, for those who will look at parts of it."""
        path = self.path(name)
        with _damage(path):
            stamp = os.stat(path)
            if _SEEN.get(str(path)) != (stamp.st_ino, stamp.st_mtime_ns):
                _check_file(path)
                _SEEN[str(path)] = stamp.st_ino, stamp.st_mtime_ns
            array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


_CHANGED = "it has changed since it was written"
_SEEN: dict[str, tuple[int, int]] = {}
"""Files that this process has checked, and what changes when they do."""


def _bytes(check: int) -> bytes:
    return check.to_bytes(4, "little")


def _check_file(path: Path) -> None:
    """Raise if a file does not end in the checksum of what stands before."""
    check, left = 0, os.path.getsize(path) - 4
    with path.open("rb") as file:
        while left > 0:
            chunk = file.read(min(CHUNK, left))
            check, left = zlib.crc32(chunk, check), left - max(1, len(chunk))
        if file.read() != _bytes(check):
            raise ValueError(_CHANGED)


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is gone: start again, it will be made anew") from None
    except MemoryError:
        raise
    except DAMAGE as error:
        raise FileFormatError(
            f"{path}: it is damaged ({error}): start again, it will be made anew"
        ) from error


def write_npy(path: Path, array: Array) -> Written:
    """Write an array and its checksum under another name and rename the file.

    Not flushed to the device: a killed process loses nothing that it has written, and a file that a
    power cut has damaged is told by its checksum.
    """
    array = np.ascontiguousarray(array)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    digest, start = Digest(), header.getvalue()
    digest.update(start)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
    flat = array.reshape(-1).view(np.uint8).data if array.size else memoryview(b"")
    try:
        with unfinished.open("wb") as file:
            file.write(start)
            for first in range(0, len(flat), CHUNK):
                piece = flat[first : first + CHUNK]
                digest.update(piece)
                file.write(piece)
            end = _bytes(digest.crc)
            digest.update(end)
            file.write(end)
        os.replace(unfinished, path)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; it was to be written", str(path)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return Written(str(path), len(start) + len(flat) + len(end), str(digest))


LOCK = ".lock"
WORK_FILE = "work.json"
JOURNAL = "journal"
MAKER = {"made_by": "simi-mailbox", "version": 1}
"""Says whose work a folder holds; one of another version is made anew."""

_ARRAY = re.compile(r"[a-z-]+/(\d[\d-]*\.npy|\.\d[\d-]*\.npy\.\d+-[0-9a-f]+)")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if need be; another run that holds it is told of.

    The system drops the lock of a process that is killed, so that what is left of it does no harm.
    """
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        folder.mkdir(parents=True, exist_ok=True)
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise BlockingIOError(
                f"another run works in {folder}: wait until it has ended, or name another folder"
            ) from None
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            break
        os.close(file)  # it was removed by the one who had it: the next is another file
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(file)


def claim(place: Path, facts: Mapping[str, Any], *, ours: bool) -> bool:
    """Make the work folder that of a run with these ``facts``; whether it had to be emptied.

    ``ours``: whether its name says that it holds nothing else. Any other folder is emptied only if
    its `WORK_FILE` is one that was written here, and never of files that were not.
    """
    content, path = json.dumps({**MAKER, **facts}), place / WORK_FILE
    found = path.read_text("utf-8") if path.exists() else None
    if found == content:
        return False
    files = [file for file in place.rglob("*") if file.is_symlink() or not file.is_dir()]
    strange = [file for file in files if not _is_made_here(file.relative_to(place))]
    if found is None and not ours:
        strange = [file for file in files if file.name != LOCK]
    elif found is not None and not _is_marked(found):
        strange = [path]
    if strange:
        raise ValueError(
            f"{place} holds other files ({min(strange).relative_to(place)}): name a folder of its "
            "own for work"
        )
    clear(place)
    with whole_file(path) as unfinished:
        unfinished.write_text(content, "utf-8")
    return True


def clear(place: Path) -> None:
    """Remove what runs have made in a work folder, last of all what says that they have."""
    folders = [entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink()]
    for folder in folders:
        for file in folder.iterdir():
            if _is_made_here(file.relative_to(place)):
                file.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
    for name in (JOURNAL, WORK_FILE):
        (place / name).unlink(missing_ok=True)


def _is_made_here(file: Path) -> bool:
    text = file.as_posix()
    unfinished = text.startswith(f".{Path(WORK_FILE).stem}.unfinished-")
    return text in (LOCK, JOURNAL, WORK_FILE) or unfinished or bool(_ARRAY.fullmatch(text))


def _is_marked(text: str) -> bool:
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("made_by") == MAKER["made_by"]


MANIFEST = "manifest.json"
CALIBRATOR = "calibrator.safetensors"
PARTS = ("probabilities", "groups")
UNFINISHED = ".unfinished"
"""File that says that a run has begun and not ended: what lies beside it is its own."""
_SHARD = re.compile(r"\d{5}\.(npy|parquet)$|\.\d{5}\.unfinished-")


@dataclass(frozen=True)
class Output:
    """The folder that results go to; ``ending`` is that of the shards of logits."""

    folder: Path
    ending: str

    def check(self) -> None:
        """Raise if the folder holds files under our names that no run has written."""
        manifest = self.folder / MANIFEST
        found = [manifest, self.folder / CALIBRATOR]
        found += [file for part in PARTS for file in (self.folder / part).glob("*")]
        strange = [file for file in found if file.exists()]
        if (self.folder / UNFINISHED).exists() or _is_manifest(manifest):
            made = [file for file in found if file.parent == self.folder or _SHARD.match(file.name)]
            strange = [file for file in strange if file not in made]
        strange = [file for file in strange if not file.name.startswith(".")]
        if strange:
            raise ValueError(
                f"{min(strange)} is no result of an earlier run: move it, or name another folder"
            )

    def prepare(self) -> None:
        """Make the folders; a manifest of an earlier run would not be true any more."""
        for part in PARTS:
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / UNFINISHED).touch()
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def block(self, block: int, probs: Array, groups: Array) -> list[Written]:
        """Two finished shards."""
        path = self.folder / "groups" / f"{block:05d}.npy"
        small = groups.astype(np.uint16)
        return [self._probabilities(block, probs), _written(path, lambda f: np.save(f, small))]

    def _probabilities(self, block: int, probs: Array) -> Written:
        path = self.folder / "probabilities" / f"{block:05d}{self.ending}"
        if self.ending == ".npy":
            return _written(path, lambda file: np.save(file, probs))
        columns = {f"p_{k}": np.ascontiguousarray(probs[:, k]) for k in range(probs.shape[1])}
        return _written(path, lambda file: pyarrow.parquet.write_table(pa.table(columns), file))

    def finish(self, files: list[Written], facts: dict[str, Any]) -> None:
        """Remove shards of earlier runs, and say that all is there."""
        ours = {os.path.abspath(file.path) for file in files}
        for part in PARTS:
            for path in (self.folder / part).iterdir():
                if _SHARD.match(path.name) and os.path.abspath(path) not in ours:
                    path.unlink()
        shards = [
            {
                "file": os.path.relpath(file.path, self.folder),
                "bytes": file.bytes,
                **dict([file.digest.split(":")]),
            }
            for file in files
        ]
        content = json.dumps({**facts, "shards": shards}, indent=1) + "\n"
        with whole_file(self.folder / MANIFEST) as unfinished:
            unfinished.write_text(content, "utf-8")
        (self.folder / UNFINISHED).unlink()


def _is_manifest(path: Path) -> bool:
    """Whether a run has written the manifest."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and {"method", "engine", "shards"} <= set(found)


def _written(path: Path, write: Any) -> Written:
    digest = Digest("sha256")
    with whole_file(path) as unfinished:
        with unfinished.open("wb") as file:
            write(file)
        with unfinished.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
        size = unfinished.stat().st_size
    return Written(str(path), size, str(digest))
