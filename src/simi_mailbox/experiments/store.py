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
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simi_mailbox._files import whole_file

Row = dict[str, Any]

log = logging.getLogger(__name__)

_TAIL_BLOCK = 1 << 16


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
        What had to be repaired, in words; empty if nothing.

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
        self.repairs: list[str] = []
        self._rows: dict[str, Row] = {}
        self._offset = 0
        self._read_packed()
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
        if not self.path.exists():
            return
        if self.path.stat().st_size < self._offset:
            # Packed by another process: what left this file is in the compressed one.
            self._offset = 0
            self._read_packed()
        with self.path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        complete = text.rfind(b"\n") + 1  # a line without its end may still be in the making
        self._take(text[:complete])
        self._offset += complete

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

    def repair(self) -> None:
        """Remove a torn last line now, instead of at the next append."""
        if self.path.exists():
            with self._locked() as file:
                self._repair(file)

    def pack(self) -> Path:
        """Move all rows into one compressed file, and empty the plain one.

        A kill in between leaves rows in both files; rows are told apart by their keys, so nothing
        is lost or counted twice.
        """
        with self._locked() as file:
            self._repair(file)
            self._read_packed()
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
            self._offset = 0
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
        keep = _end_of_last_line(file, size)
        torn = os.pread(file, size - keep, keep)
        os.ftruncate(file, keep)
        self.repairs.append(
            f"{self.path.name}: removed a torn last line of {len(torn)} bytes "
            "(its process was killed while writing; that run is done again)"
        )
        log.warning(self.repairs[-1])

    def _read_packed(self) -> None:
        if self.packed_path.exists():
            with gzip.open(self.packed_path, "rb") as file:
                self._take(file.read())

    def _take(self, text: bytes) -> None:
        for line in text.splitlines():
            try:
                row = json.loads(line)
                key = row["key"]
            except (ValueError, KeyError, TypeError):
                self.repairs.append(f"{self.path.name}: skipped an unreadable line: {line[:60]!r}")
                log.warning(self.repairs[-1])
                continue
            self._rows.setdefault(key, row)


def _end_of_last_line(file: int, size: int) -> int:
    """Offset just behind the last line end before ``size``; 0 if there is none."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL_BLOCK)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
