"""Where blocks of nodes and tiles of the graph lie between passes: a folder.

Functions of a pass get the store and the number of their block, take what they need by name and put
back what they made. They do not know who calls them, in which process, or how often: an array is
there whole or not at all, and putting it again puts the same.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE

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
