"""The result store: one JSON line per run, appended, never rewritten.

Several processes may append to one file. Each append happens under an exclusive lock, after
reading what others have added since, so that a row is never there twice; the whole line is handed
to the system in one write, so that a killed process leaves at most one torn line, which the next
append removes.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simi_mailbox.files import whole_file

Row = dict[str, Any]

_Identity = tuple[int, int, int]
"""Tells one version of a file from the next, which is another file under its name."""

_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def row_key(identity: Mapping[str, Any]) -> str:
    """Name of a run: a hash of everything that decides its result.

    Examples
    --------
    >>> row_key({"dataset": "Cora", "split": 0}) == row_key({"split": 0, "dataset": "Cora"})
    True
    >>> row_key({"split": 0}) == row_key({"split": 1})
    False
    """
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class ResultStore:
    """Rows of finished runs in one append-only file.

    Parameters
    ----------
    path
        The file, ``*.jsonl``; it and its folder are made when the first row is appended. Rows in
        a file of the same name with ``.gz`` added are read too: see `pack`.

    Attributes
    ----------
    repairs : list of str
        What had to be repaired or skipped, in words; empty if nothing. Nothing is printed or
        logged here: several processes may read one file, and a reader wants to be told once.

    Raises
    ------
    ValueError
        The path is not a ``.jsonl`` file, or the compressed file cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = ResultStore(pathlib.Path(folder.name) / "rows.jsonl")
    >>> store.append({"key": "a", "metrics": {"ece": 0.02}})
    True
    >>> store.append({"key": "a", "metrics": {"ece": 0.02}})
    False
    >>> len(store), "a" in store
    (1, True)
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix != ".jsonl":
            raise ValueError(f"a result store is a .jsonl file, got {str(self.path)!r}")
        for path in (self.path, self.packed_path):
            if path.is_dir():
                raise ValueError(f"a result store is a file, but {path} is a folder")
        self.repairs: list[str] = []
        self._rows: dict[str, Row] = {}
        self._packed: _Identity | None = None
        self._start_over()
        self.refresh()

    @property
    def packed_path(self) -> Path:
        """The compressed file beside the store."""
        return self.path.with_name(self.path.name + ".gz")

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> Row:
        return self._rows[key]

    def rows(self) -> list[Row]:
        """All rows read so far, in the order in which they were written."""
        return list(self._rows.values())

    def refresh(self) -> None:
        """Read what has been appended, by anyone, since the last look."""
        if _identity(self.packed_path) != self._packed:
            # Packed by another process: what left the plain file is in the compressed one.
            self._start_over()
            self._read_packed()
        try:
            text = self._unread()
        except _NOT_THERE:
            return
        complete = text.rfind(b"\n") + 1  # a line without its end may still be in the making
        if complete:
            self._take(text[:complete], self.path.name, self._lines)
            self._offset += complete
            self._lines += text.count(b"\n")
            self._last = text[text.rfind(b"\n", 0, complete - 1) + 1 : complete]

    def append(self, row: Row) -> bool:
        """Add one row, unless a row with its key is there already.

        Returns
        -------
        bool
            Whether the row was written.
        """
        key = row.get("key")
        if not isinstance(key, str) or not key:
            raise ValueError("a row needs a 'key': the name of its run, see row_key")
        if not isinstance(row.get("metrics"), dict):
            raise ValueError("a row needs 'metrics': the measured numbers by name")
        line = json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n"
        if line.count("\n") != 1:  # pragma: no cover - json escapes line ends
            raise ValueError("a row must be one line")
        with self._locked() as file:
            self._repair(file)
            self.refresh()
            if key in self._rows:
                return False
            end = os.lseek(file, 0, os.SEEK_END)
            data = line.encode()
            try:
                if os.write(file, data) != len(data):
                    raise OSError(f"could not write a whole row to {self.path}: disk full?")
            except OSError:
                os.ftruncate(file, end)
                raise
            os.fdatasync(file)
            self.refresh()
        return True

    def prepare(self) -> None:
        """Make the file, or remove a torn last line, now instead of at the next append.

        Raises
        ------
        OSError
            Nothing can be appended there. Better known before hours of work than after.
        """
        with self._locked() as file:
            self._repair(file)

    def pack(self) -> Path:
        """Move all rows into one compressed file, and empty the plain one.

        A kill in between leaves rows in both files; rows are told apart by their keys, so nothing
        is lost or counted twice.
        """
        with self._locked() as file:
            self._repair(file)
            self.refresh()
            # No time stamp and no file name: the same rows give the same bytes.
            with (
                whole_file(self.packed_path) as unfinished,
                unfinished.open("wb") as raw,
                gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as out,
            ):
                for row in self._rows.values():
                    line = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
                    out.write(line.encode() + b"\n")
            os.ftruncate(file, 0)
            self._start_over()
            self._packed = _identity(self.packed_path)
        return self.packed_path

    # --- inside --------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[int]:
        import fcntl  # POSIX only, and only writers need it

        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)  # releases the lock

    def _repair(self, file: int) -> None:
        """Remove a torn last line; called under the lock, so nobody is writing one."""
        size = os.lseek(file, 0, os.SEEK_END)
        if size == 0 or os.pread(file, 1, size - 1) == b"\n":
            return
        keep = self.path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(file, keep)
        self.repairs.append(
            f"{self.path.name}: removed a torn last line of {size - keep} bytes "
            "(its process was killed while writing; that run is done again)"
        )

    def _start_over(self) -> None:
        """Read the plain file from its beginning at the next look."""
        self._offset = 0
        self._lines = 0
        self._last = b""

    def _unread(self) -> bytes:
        """What stands in the plain file behind the last line read.

        That line must still stand before it: if not, the file was emptied since, as packing does,
        and has grown again.
        """
        with self.path.open("rb") as file:
            file.seek(self._offset - len(self._last))
            text = file.read()
            if text.startswith(self._last):
                return text[len(self._last) :]
            self._start_over()
            file.seek(0)
            return file.read()

    def _read_packed(self) -> None:
        try:
            with self.packed_path.open("rb") as raw:
                self._packed = _told_apart(os.fstat(raw.fileno()))
                text = gzip.GzipFile(fileobj=raw).read()
        except _NOT_THERE:
            self._packed = None
            return
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{self.packed_path} is no whole gzip file ({error}); restore it from a copy, or "
                "move it away: its rows are then made again"
            ) from None
        if text:
            self._take(text, self.packed_path.name, 0)

    def _take(self, text: bytes, name: str, before: int) -> None:
        """Keep the rows of whole lines; ``before`` counts the lines of the file that precede."""
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), start=before + 1):
            try:
                row = json.loads(line)
                key, metrics = row["key"], row["metrics"]
            except (ValueError, KeyError, TypeError):
                key, metrics = None, None
            if isinstance(key, str) and isinstance(metrics, dict):
                self._rows.setdefault(key, row)
                continue
            told = f"{name}: skipped an unreadable line, number {number}: {line[:60]!r}"
            if told not in self.repairs:  # a file may be read again
                self.repairs.append(told)


def _identity(path: Path) -> _Identity | None:
    try:
        return _told_apart(path.stat())
    except _NOT_THERE:
        return None


def _told_apart(found: os.stat_result) -> _Identity:
    return found.st_ino, found.st_mtime_ns, found.st_size
