"""Shards as users have them: ``.npy`` or Parquet files, rows in order of the file names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox._extras import require
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, is_archive

ENDINGS = (".npy", ".parquet")
IDS = ("id", "nid", "node", "node_id")
BATCH = 1 << 16


@dataclass(frozen=True)
class Shard:
    """One file: [rows, columns] numbers, of which any run of rows can be read."""

    path: Path
    rows: int
    columns: int
    dtype: str

    @classmethod
    def open(cls, path: Path, *, edges: bool = False) -> Shard:
        """What a file holds, without reading it; damage shows here if it is in the frame."""
        if path.suffix == ".parquet":
            return _open_parquet(path, edges)
        shape, _, dtype, start = _header(path)
        if len(shape) != 2:
            raise FileFormatError(f"{path}: it has shape {list(shape)}; expected two dimensions")
        missing = start + int(np.prod(shape)) * dtype.itemsize - path.stat().st_size
        if missing > 0:
            raise FileFormatError(
                f"{path}: it is cut off: {missing:,} bytes are missing, from row "
                f"{max(0, shape[0] - 1 - missing // max(1, dtype.itemsize * shape[1]))} on"
            )
        kinds = "iu" if edges else "fiu"
        if dtype.kind not in kinds:
            raise FileFormatError(
                f"{path}: it holds {dtype}; expected {'integers' if edges else 'numbers'}"
            )
        rows, columns = shape
        if edges and columns != 2:
            if rows != 2:
                raise FileFormatError(
                    f"{path}: edges have shape [2, E] or [E, 2], got {list(shape)}"
                )
            rows, columns = columns, rows
        return cls(path, rows, columns, dtype.str)

    def read(self, start: int, stop: int) -> Array:
        """Rows [start, stop) of the shard."""
        try:
            if self.path.suffix == ".parquet":
                return _read_parquet(self, start, stop)
            return _read_npy(self, start, stop)
        except (MemoryError, FileFormatError, ModuleNotFoundError):
            raise
        except DAMAGE as error:
            raise FileFormatError(
                f"{self.path}: rows {start}..{stop - 1} cannot be read: {error}"
            ) from error


@dataclass(frozen=True)
class Shards:
    """The files of a folder as one array.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in (2, 10):
    ...         np.save(f"{folder}/part-{k}.npy", np.full((2, 3), k, dtype=np.float32))
    ...     shards = Shards.open(Path(folder))
    ...     shards.read(1, 3)[:, 0].tolist(), Path(shards.where(3)).name
    ([2.0, 10.0], 'part-10.npy, row 1')
    """

    shards: tuple[Shard, ...]

    @classmethod
    def open(cls, folder: Path, *, edges: bool = False) -> Shards:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder} of shards (.npy or .parquet)")
        files = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
        strange = [path for path in files if path.suffix not in ENDINGS]
        if strange:
            raise FileFormatError(
                f"{min(strange)}: shards are .npy or .parquet files; move it elsewhere"
            )
        if not files:
            raise FileNotFoundError(f"{folder} holds no shard (.npy or .parquet)")
        shards = tuple(Shard.open(path, edges=edges) for path in sorted(files, key=_natural))
        for shard in shards:
            if shard.columns != shards[0].columns:
                raise FileFormatError(
                    f"{shard.path}: it has {shard.columns} columns, "
                    f"but {shards[0].path} has {shards[0].columns}"
                )
        return cls(shards)

    @cached_property
    def starts(self) -> Ints:
        return np.array([0, *accumulate(shard.rows for shard in self.shards)])

    @property
    def rows(self) -> int:
        return int(self.starts[-1])

    @property
    def columns(self) -> int:
        return self.shards[0].columns

    def where(self, row: int) -> str:
        """File and row in it, as a message tells them."""
        at = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.shards[at].path}, row {row - int(self.starts[at])}"

    def pieces(self, start: int, stop: int) -> Iterator[tuple[Shard, int, int]]:
        """Runs of rows of single shards that make up the rows [start, stop)."""
        for shard, first in zip(self.shards, self.starts.tolist(), strict=False):
            low, high = max(start, first), min(stop, first + shard.rows)
            if low < high:
                yield shard, low - first, high - first

    def read(self, start: int, stop: int) -> Array:
        parts = [shard.read(a, b) for shard, a, b in self.pieces(start, stop)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def chunks(self, rows: int) -> list[tuple[Shard, int, int]]:
        """All shards in runs of at most ``rows`` rows."""
        return [
            (shard, start, min(shard.rows, start + rows))
            for shard in self.shards
            for start in range(0, shard.rows, rows)
        ]

    def identity(self) -> list[list[Any]]:
        """What changes when a file does."""
        return [[str(s.path.resolve()), *_stamp(s.path), s.rows] for s in self.shards]


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _natural(path: Path) -> list[Any]:
    """part-2 comes before part-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


# --- .npy -----------------------------------------------------------------------------------------


def _header(path: Path) -> tuple[tuple[int, ...], str, np.dtype[Any], int]:
    """Shape, order, dtype and where the numbers begin."""
    if is_archive(path):
        raise FileFormatError(f"{path}: it is a .npz file of several arrays; save a single one")
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
            return shape, "F" if fortran else "C", dtype, file.tell()
    except DAMAGE as error:
        raise FileFormatError(f"{path}: it is damaged: {error}") from error


def _read_npy(shard: Shard, start: int, stop: int) -> Array:
    shape, order, dtype, offset = _header(shard.path)
    across = shape != (shard.rows, shard.columns)  # edges of shape [2, E]
    contiguous = (order == "C") != across
    count = stop - start
    if contiguous:
        result = _run(shard.path, dtype, offset, start * shard.columns, count * shard.columns)
        return result.reshape(count, shard.columns)
    columns = [
        _run(shard.path, dtype, offset, column * shard.rows + start, count)
        for column in range(shard.columns)
    ]
    return np.stack(columns, axis=1)


def _run(path: Path, dtype: np.dtype[Any], offset: int, first: int, count: int) -> Array:
    found = np.fromfile(path, dtype, count, offset=offset + first * dtype.itemsize)
    if len(found) != count:
        raise FileFormatError(f"{path}: it has become shorter while it was read")
    return found if dtype.isnative else found.astype(dtype.newbyteorder("="))


def read_vector(path: Path, first: int = 0, last: int | None = None) -> Iterator[tuple[int, Array]]:
    """The one-dimensional array of a ``.npy`` file, or its rows [first, last), in runs: (row,
    numbers)."""
    shape, _, dtype, offset = _header(path)
    if len(shape) != 1:
        raise FileFormatError(f"{path}: it has shape {list(shape)}; expected one dimension")
    end = shape[0] if last is None else last
    for start in range(first, end, 1 << 22):
        count = min(1 << 22, end - start)
        yield start, _run(path, dtype, offset, start, count)


def shape_of(path: Path) -> tuple[int, ...]:
    """Shape of the array of a ``.npy`` file."""
    return _header(path)[0]


# --- Parquet --------------------------------------------------------------------------------------


def _open_parquet(path: Path, edges: bool) -> Shard:
    file = _parquet(path)
    schema = file.schema_arrow
    names = [name for name in schema.names if name.lower() not in IDS or edges]
    if edges:
        if len(names) < 2:
            raise FileFormatError(f"{path}: edges need two columns, got {len(names)}")
        return Shard(path, file.metadata.num_rows, 2, "<i8")
    if not names:
        raise FileFormatError(f"{path}: it has no column of numbers")
    columns = len(names)
    if columns == 1 and "list" in str(schema.field(names[0]).type):
        first = next(file.iter_batches(1, columns=names), None)
        if first is None:
            raise FileFormatError(f"{path}: it has no rows")
        columns = len(first.column(0)[0])
    return Shard(path, file.metadata.num_rows, columns, "<f4")


def _parquet(path: Path) -> Any:
    arrow = require("pyarrow", extra="scale")
    parquet = require("pyarrow.parquet", extra="scale")
    try:
        return parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(f"{path}: it is damaged or no Parquet file: {error}") from error


def _read_parquet(shard: Shard, start: int, stop: int) -> Array:
    arrow = require("pyarrow", extra="scale")
    file = _parquet(shard.path)
    groups, first, at = [], None, 0
    for group in range(file.metadata.num_row_groups):
        size = file.metadata.row_group(group).num_rows
        if at < stop and at + size > start:
            groups.append(group)
            first = at if first is None else first
        at += size
    result: Array | None = None
    at = first or 0
    edges = shard.dtype == "<i8"
    try:
        for batch in file.iter_batches(BATCH, row_groups=groups):
            low, high = max(start, at), min(stop, at + len(batch))
            if low < high:
                part = batch.slice(low - at, high - low)
                found = _edges(shard, part) if edges else _numbers(shard, part, low)
                if result is None:
                    result = np.empty((stop - start, shard.columns), found.dtype)
                result[low - start : high - start] = found
            at += len(batch)
    except arrow.ArrowException as error:
        raise FileFormatError(f"{shard.path}: rows from {at} on cannot be read: {error}") from error
    return np.empty((0, shard.columns)) if result is None else result


def _edges(shard: Shard, batch: Any) -> Array:
    pair = [batch.column(k) for k in (0, 1)]
    for column in pair:
        if column.null_count or "int" not in str(column.type):
            raise FileFormatError(f"{shard.path}: its first two columns must be whole numbers")
    return np.stack([column.to_numpy(zero_copy_only=False) for column in pair], axis=1)


def _numbers(shard: Shard, batch: Any, row: int) -> Array:
    kept = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name.lower() in IDS:
            _check_ids(shard, name, column.to_numpy(zero_copy_only=False), row)
        else:
            kept.append(column)
    if len(kept) == 1 and "list" in str(kept[0].type):
        flat = kept[0].flatten().to_numpy(zero_copy_only=False)
        if len(flat) != len(batch) * shard.columns:
            raise FileFormatError(
                f"{shard.path}: the lists of rows {row}..{row + len(batch) - 1} do not all have "
                f"{shard.columns} numbers"
            )
        return np.asarray(flat).reshape(len(batch), shard.columns)
    return np.stack([column.to_numpy(zero_copy_only=False) for column in kept], axis=1)


def _check_ids(shard: Shard, name: str, ids: Array, row: int) -> None:
    """Rows are nodes in order; a file that numbers them otherwise would be silently wrong."""
    if ids.dtype.kind not in "iu" or not len(ids):
        return
    wrong = np.flatnonzero(np.diff(ids) != 1)
    if len(wrong):
        raise FileFormatError(
            f"{shard.path}: row {row + int(wrong[0]) + 1} is node {ids[wrong[0] + 1]} by its "
            f"column {name!r}, after {ids[wrong[0]]}: sort the rows of all shards by node"
        )
