"""Shards as users have them: ``.npy`` or Parquet files, rows in order of the file names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import DAMAGE, NPY_HEADERS, is_archive
from simi_mailbox.node_files.columns import (
    Columns,
    as_text,
    edge_columns,
    id_column,
    is_list,
    is_numeric,
    matrix,
    refuse_others,
    score_columns,
)

Part = Literal["logits", "edges", "hidden"]
BATCH = 1 << 16


@dataclass(frozen=True)
class Shard:
    """One file: [rows, columns] numbers, of which any run of rows can be read."""

    path: Path
    rows: int
    columns: int
    dtype: str
    stamp: tuple[int, int, int]  # what changes when the file does
    first: int = 0  # number of its first row among those of all shards
    turned: bool = False  # a .npy file holds [columns, rows]
    chosen: tuple[str, ...] = ()  # columns of a Parquet file that are read
    ids: str | None = None  # its column that must count the rows

    @classmethod
    def open(cls, path: Path, part: Part) -> Shard:
        """What a file holds, without reading it; damage shows here if it is in the frame."""
        stamp = _stamp(path)
        if path.suffix == ".parquet":
            return _open_parquet(path, part, stamp)
        shape, _, dtype, start = _header(path)
        edges = part == "edges"
        fine = len(shape) == 2 and dtype.kind in ("iu" if edges else "fiu")
        if not fine or (edges and 2 not in shape):
            expected = "integers [2, E] or [E, 2]" if edges else "numbers [nodes, columns]"
            raise FileFormatError(f"{path}: it holds {dtype} {list(shape)}; expected {expected}")
        missing = start + int(np.prod(shape)) * dtype.itemsize - path.stat().st_size
        if missing > 0:
            raise FileFormatError(f"{path}: it is cut off: {missing:,} bytes are missing")
        turned = edges and shape[0] == 2  # [2, 2] too, as in memory
        rows, columns = shape[::-1] if turned else shape
        return cls(path, rows, columns, dtype.str, stamp, turned=turned)

    def read(self, start: int, stop: int) -> Array:
        self.check_unchanged()
        read = _read_parquet if self.path.suffix == ".parquet" else _read_npy
        try:
            found = read(self, start, stop)
        except (MemoryError, FileFormatError):
            raise
        except DAMAGE as error:
            raise FileFormatError(
                f"{self.path}: rows {start}..{stop - 1} cannot be read: {error}"
            ) from error
        self.check_unchanged()
        return found

    def identity(self) -> list[Any]:
        return [str(self.path.resolve()), *self.stamp, self.rows]

    def check_unchanged(self) -> None:
        if _stamp(self.path) != self.stamp:
            raise FileFormatError(
                f"{self.path}: it was changed during the run: start again when it is finished"
            )


@dataclass(frozen=True)
class Shards:
    """The files of a folder as one array."""

    shards: tuple[Shard, ...]

    @classmethod
    def open(cls, folder: Path, part: Part = "logits") -> Shards:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder} of shards (.npy or .parquet)")
        files = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
        if not files:
            raise FileNotFoundError(f"{folder} holds no shard (.npy or .parquet)")
        shards, first = [], 0
        for path in sorted(files, key=_natural):
            if path.suffix not in (".npy", ".parquet"):
                raise FileFormatError(f"{path}: shards are .npy or .parquet files; move it away")
            shard = Shard.open(path, part)
            shards.append(replace(shard, first=first))
            first += shard.rows
            if shard.columns != shards[0].columns:
                raise FileFormatError(
                    f"{path}: it has {shard.columns} columns, "
                    f"but {shards[0].path} has {shards[0].columns}"
                )
        return cls(tuple(shards))

    @property
    def rows(self) -> int:
        return self.shards[-1].first + self.shards[-1].rows

    @property
    def columns(self) -> int:
        return self.shards[0].columns

    def where(self, row: int) -> str:
        """File and row in it, as a message tells them."""
        shard = next(shard for shard in self.shards if row < shard.first + shard.rows)
        return f"{shard.path}, row {row - shard.first}"

    def read(self, start: int, stop: int) -> Array:
        parts = [
            shard.read(max(start - shard.first, 0), min(stop - shard.first, shard.rows))
            for shard in self.shards
            if max(start, shard.first) < min(stop, shard.first + shard.rows)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def chunks(self, rows: int) -> list[tuple[Shard, int, int]]:
        return [
            (shard, start, min(shard.rows, start + rows))
            for shard in self.shards
            for start in range(0, shard.rows, rows)
        ]


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _natural(path: Path) -> list[Any]:
    """part-2 comes before part-10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def _header(path: Path) -> tuple[tuple[int, ...], str, np.dtype[Any], int]:
    """Shape, order, dtype and where the numbers begin."""
    if is_archive(path):
        raise FileFormatError(f"{path}: it is a .npz file of several arrays; save a single one")
    try:
        with path.open("rb") as file:
            version, _ = np.lib.format.read_magic(file)
            read = getattr(np.lib.format, f"read_array_header_{version}_0")
            with NPY_HEADERS:
                shape, fortran, dtype = read(file)
            return shape, "F" if fortran else "C", dtype, file.tell()
    except DAMAGE as error:
        raise FileFormatError(f"{path}: it is damaged: {error}") from error


def _read_npy(shard: Shard, start: int, stop: int) -> Array:
    _, order, dtype, offset = _header(shard.path)

    def run(first: int, count: int) -> Array:
        found = np.fromfile(shard.path, dtype, count, offset=offset + first * dtype.itemsize)
        return found if dtype.isnative else found.astype(dtype.newbyteorder("="))

    count, columns = stop - start, shard.columns
    if (order == "C") != shard.turned:
        return run(start * columns, count * columns).reshape(count, columns)
    return np.stack([run(k * shard.rows + start, count) for k in range(columns)], axis=1)


def _open_parquet(path: Path, part: Part, stamp: tuple[int, int, int]) -> Shard:
    file = _parquet(path)
    names, rows = file.schema_arrow.names, file.metadata.num_rows
    if part == "edges":
        pair = edge_columns(names)
        if pair is None:
            raise FileFormatError(
                f"{path}: an edge is two nodes: call their columns 'src' and 'dst'; it has "
                f"{', '.join(names)}"
            )
        return Shard(path, rows, 2, "<i8", stamp, chosen=tuple(names[k] for k in pair))
    position = id_column(names, path)
    first = next(file.iter_batches(10_000), None)
    if first is None:
        raise FileFormatError(f"{path}: it has no rows")
    guessed, width = False, 0
    found = [k for k, column in enumerate(first.columns) if is_list(column.type)]
    if len(found) == 1:
        width = len(first.column(found[0])[0])
    elif part == "hidden":
        found = [k for k in range(len(names)) if k != position]
    else:
        table = Columns(path, tuple(names), tuple(first.columns))
        beside, found = score_columns(names, position, table.measures)
        guessed, found = not found, found or beside
    words = [names[k] for k in found if not width and not is_numeric(first.column(k).type)]
    if words or not found:
        raise FileFormatError(f"{path}: {', '.join(words or names)}: no column of numbers")
    ids, chosen = None if position is None else names[position], tuple(names[k] for k in found)
    shard = Shard(path, rows, width or len(found), "<f4", stamp, chosen=chosen, ids=ids)
    if guessed:
        refuse_others(chosen, _numbers(shard, first.select(chosen), 0), path)
    return shard


def _parquet(path: Path) -> Any:
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(f"{path}: it is damaged or no Parquet file: {error}") from error


def _read_parquet(shard: Shard, start: int, stop: int) -> Array:
    file, parts = _parquet(shard.path), []
    sizes = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
    begins = [0, *accumulate(sizes)]
    groups = [k for k in range(len(sizes)) if begins[k] < stop and begins[k + 1] > start]
    at = begins[groups[0]] if groups else 0
    columns = [*shard.chosen, *([shard.ids] if shard.ids else [])]
    for batch in file.iter_batches(BATCH, row_groups=groups, columns=columns):
        low, high = max(start, at), min(stop, at + len(batch))
        if low < high:
            parts.append(_numbers(shard, batch.slice(low - at, high - low), low))
        at += len(batch)
    return np.concatenate(parts) if parts else np.empty((0, shard.columns))


def _numbers(shard: Shard, batch: Any, row: int) -> Array:
    """Rows of a batch, whose first is that number within the file."""
    if shard.ids is not None and shard.ids in batch.schema.names:
        _check_ids(shard, batch.column(shard.ids), row)
    kept = [batch.column(name) for name in shard.chosen]
    if shard.dtype == "<i8" and any(c.null_count or "int" not in str(c.type) for c in kept):
        raise FileFormatError(f"{shard.path}: {' and '.join(shard.chosen)} must be whole numbers")
    if not is_list(kept[0].type):
        return np.stack([column.to_numpy(zero_copy_only=False) for column in kept], axis=1)
    found = matrix(kept[0], f"{shard.path}, rows {row}..{row + len(batch) - 1}")
    if found.shape[1] != shard.columns:
        raise FileFormatError(f"{shard.path}, row {row}: a list has not {shard.columns} numbers")
    return found


def _check_ids(shard: Shard, column: Any, row: int) -> None:
    """Rows of all shards are the nodes 0, 1, 2, …: in another order all would be wrong."""
    expected = np.arange(shard.first + row, shard.first + row + len(column))
    found = as_text(column)
    wrong = np.flatnonzero(found.to_numpy(zero_copy_only=False) != expected.astype(np.str_))
    if len(wrong):
        at = int(wrong[0])
        raise FileFormatError(
            f"{shard.path}: row {row + at} is node {found[at].as_py()!r} by its column "
            f"{shard.ids!r}, but row {expected[at]} of all shards, which is node {expected[at]}: "
            "sort the rows of all shards by node, or take the column out"
        )
