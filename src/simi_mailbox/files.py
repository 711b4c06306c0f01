"""Files: written whole or not at all, read without ever running code from them."""

import glob
import os
import platform
import secrets
import struct
import tempfile
import threading
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError

StrPath = str | os.PathLike[str]

NPY_HEADERS = threading.Lock()
"""To be held while NumPy reads a header: it uses `ast`, in which two threads of Python 3.11
disturb each other (SystemError: AST constructor recursion depth mismatch)."""
_NPY, _ZIP, _PICKLE = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06"), b"\x80"
DAMAGE = (
    ValueError, TypeError, LookupError, AttributeError, EOFError, OSError, ArithmeticError,
    MemoryError, RuntimeError, SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip
"""What readers raise over damaged files: a size that was made up asks for all memory, brackets
without end for all of the stack."""


@contextmanager
def whole_file(path: StrPath) -> Iterator[Path]:
    """Write under another name in the same folder; the file gets its own at the end of the block.

    After an error or a kill the old file is as it was; the next writer removes what is left. A link
    is followed, a mode kept, and a pipe or a device written into.
    """
    target = Path(os.path.realpath(path))  # a link stays one, and what it points to is written
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; name a file in it")
    if target.exists() and not target.is_file():  # a pipe or a device must not be replaced
        with tempfile.TemporaryDirectory() as folder:
            unfinished = Path(folder) / f"unfinished{target.suffix}"
            yield unfinished
            target.write_bytes(unfinished.read_bytes())
        return
    kept = target.stat().st_mode & 0o7777 if target.exists() else None
    unfinished = _unfinished(target, 0o666 if kept is None else kept | 0o600)
    try:
        yield unfinished
        if kept is not None:
            unfinished.chmod(kept)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())  # else a power cut could rename a file before its content
        os.replace(unfinished, target)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # as writers of arrays raise it
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def _unfinished(target: Path, mode: int) -> Path:
    """An empty file beside ``target``, named after machine and process; those of dead ones go."""
    machine = zlib.crc32(platform.node().encode())
    begins = f".{target.stem[:100]}.unfinished-{machine:08x}-"
    for left in target.parent.glob(f"{glob.escape(begins)}*{glob.escape(target.suffix)}"):
        process = left.name[len(begins) :].partition("-")[0]
        if process.isdigit() and not _alive(int(process)):
            left.unlink(missing_ok=True)
    name = target.parent / f"{begins}{os.getpid()}-{secrets.token_hex(4)}{target.suffix}"
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no folder {target.parent} to write into") from error
    return name


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's, which is alive
        pass
    return True


def cache_folder(what: str) -> Path:
    """Where ``what`` is kept between runs: below ``SIMI_MAILBOX_CACHE``, else the user's cache."""
    chosen = os.environ.get("SIMI_MAILBOX_CACHE")
    return (Path(chosen) if chosen else Path.home() / ".cache" / "simi-mailbox") / what


class Archive(Mapping[str, Array]):
    """The arrays of an open ``.npz`` file, each read when it is asked for."""

    def __init__(self, path: StrPath, file: Any) -> None:
        self._path, self._file = path, file

    def __getitem__(self, name: str) -> Array:
        if name not in self._file.files:
            raise KeyError(name)
        with _told(self._path, f"array {name!r}"):
            array = self._file[name]
            if not isinstance(array, np.ndarray):  # a member of the archive that is no .npy
                raise TypeError("it is not an array")
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.files)

    def __len__(self) -> int:
        return len(self._file.files)


@contextmanager
def open_archive(path: StrPath) -> Iterator[Archive]:
    """Open a ``.npz`` file; nothing in it is ever unpickled."""
    if not is_archive(path):
        raise FileFormatError(f"{path}: it is a single array, not a .npz file of several")
    with _told(path, "it"):
        file = np.load(path, allow_pickle=False)
    with file:
        yield Archive(path, file)


def read_npy(path: StrPath) -> Array:
    """The array of a ``.npy`` file, checked as by `open_archive`."""
    if is_archive(path):
        raise FileFormatError(f"{path}: it is a .npz file of several arrays, not a single one")
    with _told(path, "it"):
        array: Array = np.load(path, allow_pickle=False)
    return array


def mapped_npy(path: StrPath) -> Array:
    """The array of a ``.npy`` file, read where it is looked at; many threads may call this."""
    with NPY_HEADERS:
        return np.asanyarray(np.load(path, "r", allow_pickle=False))


def is_archive(path: StrPath) -> bool:
    """Whether a NumPy file is a ``.npz``, by its content; any other kind of file is refused."""
    if Path(path).is_dir():
        raise FileFormatError(f"{path}: it is a folder; expected a .npy or .npz file")
    try:
        with open(path, "rb") as file:
            start = file.read(6)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    if start.startswith((*_ZIP, _NPY)):
        return start.startswith(_ZIP)
    if start.startswith(_PICKLE):
        raise FileFormatError(
            f"{path}: it is a pickle, which can run code when it is read; save the array with "
            "numpy.save instead"
        )
    what = "not a NumPy file" if start else "empty"
    raise FileFormatError(f"{path}: it is {what}; expected .npy or .npz, as numpy.save writes it")


@contextmanager
def _told(path: StrPath, what: str) -> Iterator[None]:
    """Damage, and objects that would have to be unpickled, in words for the file's owner."""
    try:
        yield
    except DAMAGE as error:
        reason = f"is damaged: {error}"
        if "allow_pickle" in str(error):
            reason = "holds Python objects, which could run code when read; save numbers, or text"
        raise FileFormatError(f"{path}: {what} {reason}") from error
