"""Folders that a run writes into: blocks and tiles between passes, results, and who holds them.

Functions of a pass get the store and the number of their block, take what they need by name and put
back what they made. They do not know who calls them, in which process, or how often: an array is
there whole or not at all, and putting it again puts the same.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, mapped_npy, whole_file

CHUNK = 1 << 24
RESIDUE = 0x2144DF1C  # CRC-32 of whatever ends in its own CRC-32


@dataclass(frozen=True)
class Written:
    """A finished file, and what tells damage: an array's own checksum, or a result's SHA-256."""

    path: str
    bytes: int
    digest: str

    def is_there(self) -> bool:
        digest = _sha256 if self.digest.startswith("sha256") else _checksum
        try:
            return os.path.getsize(self.path) == self.bytes and digest(self.path) == self.digest
        except (OSError, ValueError):
            return False


def _sha256(path: str | Path) -> str:
    with open(path, "rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _checksum(path: str | Path) -> str:
    """The checksum that an array's file ends in; an error if it is not that of the file."""
    check = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            check = zlib.crc32(chunk, check)
        if check != RESIDUE:
            raise ValueError("it has changed since it was written")
        file.seek(-4, os.SEEK_END)
        return f"crc32:{file.read().hex()}"


class _Summed:
    """A file, and the checksum of what was written into it."""

    def __init__(self, file: Any) -> None:
        self.file, self.check = file, 0

    def write(self, data: bytes) -> None:
        self.check = zlib.crc32(data, self.check)
        self.file.write(data)


@dataclass(frozen=True)
class Store:
    """Arrays as ``.npy`` files below a folder, which all processes that work on them can see."""

    folder: Path

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"

    def put(self, name: str, array: Array) -> Written:
        """Write an array and its checksum, which tells damage by a power cut, and rename it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}")
        try:
            with unfinished.open("wb") as file:
                summed = _Summed(file)
                np.lib.format.write_array(summed, np.ascontiguousarray(array))
                end = summed.check.to_bytes(4, "little")
                file.write(end)
                size = file.tell()
            os.replace(unfinished, path)
        except OSError as error:
            words = f"{error.strerror}; it was to be written"
            raise OSError(error.errno, words, str(path)) from error
        finally:
            unfinished.unlink(missing_ok=True)
        return Written(str(path), size, f"crc32:{end.hex()}")

    def get(self, name: str) -> Array:
        return np.array(self.view(name))

    def view(self, name: str) -> Array:
        """Like `get`, for those who will look at parts of it."""
        path = self.path(name)
        try:
            stamp = os.stat(path)
            if _SEEN.get(str(path)) != (stamp.st_ino, stamp.st_mtime_ns):
                _checksum(path)
                _SEEN[str(path)] = stamp.st_ino, stamp.st_mtime_ns
            return mapped_npy(path)
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} is gone: start again, it will be made anew") from None
        except MemoryError:
            raise
        except DAMAGE as error:
            raise FileFormatError(
                f"{path}: it is damaged ({error}): start again, it will be made anew"
            ) from error


_SEEN: dict[str, tuple[int, int]] = {}
"""Files that this process has checked, and what changes when they do."""

LOCK, WORK, JOURNAL, WORK_FILE = ".lock", ".simi-mailbox", "journal", "work.json"
VERSION = 1  # of what a work folder holds; that of another version is made anew


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made if need be; the lock of a killed process goes with it."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        yield
        return
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


def work_in(holder: Path, facts: Mapping[str, Any]) -> Path:
    """The work folder in a folder that is held; emptied unless it is of a run with these facts."""
    place, content = holder / WORK, json.dumps({"version": VERSION, **facts})
    if place.is_symlink() or place.is_file():
        raise ValueError(f"{place} is no folder but a link or a file: remove it, and start again")
    path = place / WORK_FILE
    if not path.exists() or path.read_text("utf-8") != content:
        clear(place)
        place.mkdir(exist_ok=True)
        with whole_file(path) as unfinished:
            unfinished.write_text(content, "utf-8")
    return place


def clear(place: Path) -> None:
    """Remove a work folder, first of all what says that its files can be used again."""
    (place / WORK_FILE).unlink(missing_ok=True)
    if place.exists():
        shutil.rmtree(place)


MANIFEST, CALIBRATOR = "manifest.json", "calibrator.safetensors"
PARTS = ("probabilities", "groups")
UNFINISHED = ".unfinished"  # says that a run has begun and not ended
_SHARD = re.compile(r"\d{5}\.(npy|parquet)$|\.\d{5}\.unfinished-")


@dataclass(frozen=True)
class Output:
    """The folder that results go to; ``ending`` is that of the shards of logits."""

    folder: Path
    ending: str

    def check(self) -> None:
        """Raise if the folder holds files under our names that no run has written."""
        try:
            facts = json.loads((self.folder / MANIFEST).read_text("utf-8"))
            ours = isinstance(facts, dict) and {"method", "engine", "shards"} <= set(facts)
        except (OSError, ValueError):
            ours = False
        found = [self.folder / name for name in (MANIFEST, CALIBRATOR, *PARTS)]
        strange = [path for path in found if path.exists()]
        if strange and not ours and not (self.folder / UNFINISHED).exists():
            raise ValueError(
                f"{strange[0]} is no result of an earlier run: move it, or name another folder"
            )

    def prepare(self) -> None:
        """Make the folders; a manifest of an earlier run would not be true any more."""
        for part in PARTS:
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        (self.folder / UNFINISHED).touch()
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def block(self, block: int, probs: Array, groups: Array) -> list[Written]:
        def write(file: Any) -> None:
            if self.ending == ".npy":
                np.save(file, probs)
            else:
                columns = {f"p_{k}": np.ascontiguousarray(p) for k, p in enumerate(probs.T)}
                pyarrow.parquet.write_table(pa.table(columns), file)

        small = groups.astype(np.uint16)
        return [
            self._written(f"probabilities/{block:05d}{self.ending}", write),
            self._written(f"groups/{block:05d}.npy", lambda file: np.save(file, small)),
        ]

    def _written(self, name: str, write: Callable[[Any], None]) -> Written:
        with whole_file(self.folder / name) as unfinished:
            with unfinished.open("wb") as file:
                write(file)
            size, digest = unfinished.stat().st_size, _sha256(unfinished)
        return Written(str(self.folder / name), size, digest)

    def finish(self, files: list[Written], facts: dict[str, Any]) -> None:
        """Remove shards of earlier runs, and say that all is there."""
        names = [os.path.relpath(file.path, self.folder) for file in files]
        shards = [
            {"file": name, "bytes": file.bytes, "sha256": file.digest.removeprefix("sha256:")}
            for name, file in zip(names, files, strict=True)
        ]
        for part in PARTS:
            for path in (self.folder / part).iterdir():
                if _SHARD.match(path.name) and f"{part}/{path.name}" not in names:
                    path.unlink()
        content = json.dumps({**facts, "shards": shards}, indent=1) + "\n"
        with whole_file(self.folder / MANIFEST) as unfinished:
            unfinished.write_text(content, "utf-8")
        (self.folder / UNFINISHED).unlink()
