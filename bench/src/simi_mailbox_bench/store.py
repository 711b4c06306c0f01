"""The result store: one JSON line per run, appended, never rewritten.

Processes append under an exclusive lock, after reading what others have added, so that no row is
there twice, and in one write: a killed one leaves a torn line at most, which is removed later.
"""

import gzip
import hashlib
import json
import os
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def row_key(identity: Mapping[str, Any]) -> str:
    """Name of a run: a hash of everything that decides its result."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class ResultStore:
    """Rows of finished runs in one append-only file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.suffix != ".jsonl":
            raise ValueError(f"a result store is a .jsonl file, got {str(self.path)!r}")
        for path in (self.path, self.packed_path):
            if path.is_dir():
                raise ValueError(f"a result store is a file, but {path} is a folder")
        self.repairs: list[str] = []
        self._rows: dict[str, Row] = {}
        self._offset = self._lines = 0
        self._reading = threading.Lock()  # two threads would both move the offset past one text
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
        with self._reading:
            try:
                with self.path.open("rb") as file:
                    file.seek(self._offset)
                    text = file.read()
            except _NOT_THERE:
                return
            complete = text.rfind(b"\n") + 1  # a line without its end may still be in the making
            if complete:
                self._take(text[:complete], self.path.name, self._lines)
                self._offset += complete
                self._lines += text.count(b"\n")

    def append(self, row: Row) -> bool:
        """Add one row, unless a row with its key is there already."""
        key = row.get("key")
        if not isinstance(key, str) or not key:
            raise ValueError("a row needs a 'key': the name of its run, see row_key")
        if not isinstance(row.get("metrics"), dict):
            raise ValueError("a row needs 'metrics': the measured numbers by name")
        line = json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n"
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
        """Make the file, or remove a torn last line, now instead of at the next append."""
        with self._locked() as file:
            self._repair(file)

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

    def _read_packed(self) -> None:
        try:
            text = gzip.decompress(self.packed_path.read_bytes())
        except _NOT_THERE:
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
            self.repairs.append(
                f"{name}: skipped an unreadable line, number {number}: {line[:60]!r}"
            )
