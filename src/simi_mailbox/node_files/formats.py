"""From a file of any kind to named columns or named arrays, by its ending; none ever runs code."""

import codecs
import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import is_archive, open_archive, read_npy
from simi_mailbox.node_files.columns import CALLED, ID_NAMES, KNOWN, Columns, Contents, is_number

STANDARD = Path("-")  # input, or output


def read_numpy(path: Path) -> dict[str, Any]:
    """The one array of a ``.npy`` file, or those of a ``.npz``; which it is, its content says."""
    if not is_archive(path):
        return {"": read_npy(path)}
    with open_archive(path) as archive:
        if {"format", "shape", "data"} <= set(archive):
            from scipy.sparse import load_npz

            try:
                return {"": load_npz(path)}
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise FileFormatError(f"{path}: it is no sparse matrix: {error}") from error
        # Others are left alone: they may be anything, and large.
        return {n: archive[n] if n in KNOWN or len(archive) == 1 else None for n in archive}


def read_safetensors(path: Path) -> dict[str, Any]:
    """Arrays by name; a fitted calibrator is told apart."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            if "simi_mailbox" in (file.metadata() or {}):
                raise FileFormatError(
                    f"{path}: it is a fitted calibrator, not arrays; pass it to simi-mailbox apply"
                )
            return {name: _numpy(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, EOFError) as error:
        raise FileFormatError(f"{path}: it is damaged or no safetensors file: {error}") from error


def read_torch(path: Path) -> dict[str, Any]:
    """Tensors, dictionaries of tensors, PyG ``Data``; other pickled objects are refused."""
    import pickle

    import torch

    try:
        with torch.serialization.safe_globals(_pyg_classes()):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{path}: it is damaged, no PyTorch file, or holds Python objects, which could run "
            "code when read; save tensors: torch.save({'logits': logits, …}, path), or "
            "data.to_dict()"
        ) from error
    if isinstance(found, tuple | list) and found and isinstance(found[0], dict):
        found = found[0]  # a processed dataset of PyG: the data, slices and a class
    if isinstance(found, torch.Tensor):
        found = {"": found}
    elif hasattr(found, "to_dict"):
        found = found.to_dict()
    if not isinstance(found, dict) or any(isinstance(name, tuple) for name in found):
        raise FileFormatError(
            f"{path}: it holds a {type(found).__name__}; expected a tensor, a dictionary of "
            "tensors or a PyG Data of one kind of nodes and edges (data.to_homogeneous())"
        )
    return {str(name): _numpy(value) for name, value in found.items() if torch.is_tensor(value)}


def _pyg_classes() -> list[Any]:
    """PyG's plain containers: holding tensors is all that unpickling makes them do."""
    try:
        from torch_geometric.data import data, storage
    except ModuleNotFoundError:
        return []
    names = ("Data", "DataEdgeAttr", "DataTensorAttr", "BaseStorage", "GlobalStorage")
    found = [getattr(data, name, None) or getattr(storage, name, None) for name in names]
    return [*filter(None, found), storage.NodeStorage, storage.EdgeStorage]


def _numpy(tensor: Any) -> Any:
    """A NumPy array; sparse tensors become SciPy matrices."""
    import torch

    if tensor.layout is not torch.strided:
        from scipy.sparse import coo_array

        coo = tensor.to_sparse_coo().coalesce()
        return coo_array((coo.values().numpy(), coo.indices().numpy()), shape=tuple(coo.shape))
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).detach().numpy()


def read_arrow(path: Path, kind: str) -> Columns:
    """Columns of a "Parquet" or "Feather" file."""
    reader = pyarrow.parquet if kind == "Parquet" else pyarrow.feather
    try:
        table = reader.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(f"{path}: it is damaged or no {kind} file: {error}") from error
    if not table.num_columns:
        raise FileFormatError(f"{path}: it has no columns")
    values = tuple(_plain(column.combine_chunks()) for column in table.columns)
    return Columns(path, tuple(table.column_names), values)


def _plain(column: Any) -> Any:
    """A column in one of few types: text, floats, integers, truth, lists; others as they are."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return pc.fill_null(column.cast(pa.string()), "")  # as an empty cell of a text file
    if pa.types.is_decimal(kind):
        return column.cast(pa.float64())
    if pa.types.is_float16(kind):  # which Arrow casts to nothing
        return pa.array(column.to_numpy(zero_copy_only=False).astype(np.float32))
    return column


# --- text -----------------------------------------------------------------------------------------

_ROWS = 100  # that show what a file is like
_BYTES, _BLOCK = 1 << 16, 1 << 22
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(e[+-]?\d+)?", re.IGNORECASE)
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

IsData = Callable[[Sequence[str]], bool]
"""Whether the cells of a first row are known to be no header."""


def read_text(
    path: Path, raw: bytes, header: set[str], is_data: IsData, encoding: str | None
) -> Columns:
    """Columns of a table; ``header`` are names that make the first row a header."""
    raw = _utf8(path, raw, encoding).lstrip(b"\r\n")
    head = raw[:_BYTES].decode("utf-8", errors="replace").splitlines(keepends=True)
    lines = [line for line in (head[:-1] if len(raw) > _BYTES else head) if line.strip()]
    if not lines:
        raise FileFormatError(f"{path}: it is empty")
    mark = _delimiter(path, lines[:_ROWS])
    try:
        sample = [row for row in csv.reader(lines[: _ROWS + 1], delimiter=mark) if row]
    except csv.Error as error:
        raise FileFormatError(f"{path}: it cannot be read as a table: {error}") from error
    sample = [[cell.strip() for cell in row] for row in sample]
    names = [""] * len(sample[0])
    if _is_header(sample, header) and not is_data(sample[0]):
        names = sample.pop(0)
        names[0] = names[0] or ID_NAMES[0]  # how pandas writes an index without a name
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise FileFormatError(f"{path}: two columns are called {min(twice)!r}")
    commas = mark != "," and any(_DECIMAL_COMMA.fullmatch(c) for row in sample for c in row)
    decimal = "," if commas else "."
    measured = [
        name.lower() not in CALLED | header
        and _holds_fractions([row[k] for row in sample if k < len(row)], decimal)
        for k, name in enumerate(names)
    ]
    skipped = int(any(names))
    options = pyarrow.csv.ParseOptions(delimiter=mark, newlines_in_values=b'"' in raw)
    values = _parsed(path, raw, options, decimal, measured, skipped)
    return Columns(path, tuple(names), tuple(values), decimal, 1 + skipped)


def _utf8(path: Path, raw: bytes, encoding: str | None) -> bytes:
    """The text in UTF-8 without a mark at its beginning, which says how it is encoded."""
    found = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), None)
    name = found or encoding or "utf-8"
    try:
        text = raw.decode(name)
    except LookupError:
        raise ValueError(f"there is no encoding {name!r}: try latin-1, cp1252 or utf-16") from None
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path}: it is not {name.upper()} text (byte {error.start} is "
            f"{raw[error.start]:#x}); say which encoding it has, such as --encoding latin-1, or "
            "save it as UTF-8"
        ) from error
    is_utf8 = codecs.lookup(name).name == "utf-8"
    return raw.removeprefix(codecs.BOM_UTF8) if is_utf8 else text.encode()


def _delimiter(path: Path, lines: list[str]) -> str:
    first = lines[0]
    if ".tsv" in path.suffixes or "\t" in first:
        return "\t"
    if ";" in first:
        rows = [line.strip().split(";") for line in lines]
        cells = [cell.strip(' "') for row in rows[1:] or rows for cell in row if "," in cell]
        alike = all(len(row) == len(rows[0]) for row in rows)
        if "," not in first or (alike and all(map(_DECIMAL_COMMA.fullmatch, cells))):
            return ";"
    return " " if "," not in first and ".txt" in path.suffixes and " " in first.strip() else ","


def _parsed(
    path: Path, raw: bytes, options: Any, decimal: str, measured: list[bool], skipped: int
) -> list[Any]:
    """The columns; those that are ``measured`` are numbers, unless a cell of them is none."""
    ragged: list[Any] = []

    def skip(row: Any) -> str:
        ragged.append(row)
        return "skip"

    options.invalid_row_handler = skip
    types = [pa.float64() if number else pa.string() for number in measured]
    names = [str(k) for k in range(len(types))]
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(raw),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names,
                skip_rows_after_names=skipped,
                block_size=_BLOCK,
                use_threads=False,  # which counts the rows, and is as fast at this size
            ),
            parse_options=options,
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict(zip(names, types, strict=True)),
                null_values=[""],
                strings_can_be_null=False,
                decimal_point=decimal,
                check_utf8=False,  # it is
            ),
        )
    except pa.ArrowInvalid as error:
        if any(measured):
            return _parsed(path, raw, options, decimal, [False] * len(measured), skipped)
        raise FileFormatError(f"{path}: it cannot be read as a table: {error}") from error
    if ragged:
        told = f"row {ragged[0].number} has {ragged[0].actual_columns} cells"
        told += f" (and {len(ragged) - 1:,} more are unlike the first)" if ragged[1:] else ""
        raise FileFormatError(f"{path}: {told}, the first has {len(types)}")
    return [
        column if number else pc.utf8_trim_whitespace(column.combine_chunks())
        for column, number in zip(table.columns, measured, strict=True)
    ]


def _is_header(sample: list[list[str]], header: set[str]) -> bool:
    cells = sample[0]
    if any((is_number(c) and "." in c) or _DECIMAL_COMMA.fullmatch(c) for c in cells):
        return False
    if any(cell.lower() in KNOWN | header for cell in cells):
        return True
    if len(sample) < 2:
        return False
    named = cells[not is_number(cells[0]) :]
    if len(named) > 1 and len(set(named)) == len(named) and all(map(_is_whole, named)):
        # Columns called 0, 1, 2, … or 2019, 2020, … over numbers that all have fractions.
        below = [cell for row in sample[1:] for cell in row[-len(named) :]]
        return all(_is_numeric(cell) and not _is_whole(cell) for cell in below)
    # A word over a column of numbers; a column of words says nothing about its first one.
    return any(
        cell and not is_number(cell) and all(map(_is_numeric, column))
        for cell, column in zip(cells, zip(*sample[1:], strict=False), strict=False)
    )


def _holds_fractions(cells: list[str], decimal: str) -> bool:
    """Whether a column is of measured numbers: without a point ``12e5`` may be an id."""
    kept = [cell.replace(decimal, ".") for cell in cells if cell]
    return all(map(is_number, kept)) and any("." in cell for cell in kept)


def _is_numeric(cell: str) -> bool:
    return is_number(cell) or _DECIMAL_COMMA.fullmatch(cell) is not None


def _is_whole(cell: str) -> bool:
    return cell.lstrip("+-").isdigit()


# --- by their endings -----------------------------------------------------------------------------

_TEXT = (".csv", ".tsv", ".txt")
_READERS: dict[str, Callable[[Path], Contents]] = {
    ".parquet": lambda path: read_arrow(path, "Parquet"),
    ".feather": lambda path: read_arrow(path, "Feather"),
    ".npy": read_numpy,
    ".npz": read_numpy,
    ".safetensors": read_safetensors,
    ".pt": read_torch,
    ".pth": read_torch,
}
READS = (*_TEXT, *(f"{ending}.gz" for ending in _TEXT), *_READERS)
"""Endings of files that can be read."""


def ending_of(path: Path) -> str:
    """Ending of a file in small letters; what was compressed has two."""
    last = path.suffix.lower()
    return path.with_suffix("").suffix.lower() + last if last == ".gz" else last


def check_ending(path: Path, endings: Iterable[str], what: str) -> None:
    """Refuse a file whose ending says no format that can be ``what``."""
    ending = ending_of(path)
    if ending not in endings:
        said = f"files that end in {ending!r}" if ending else "files without an ending"
        raise FileFormatError(f"{path}: {said} cannot be {what}; use one of {', '.join(endings)}")


def read_file(
    path: Path,
    header: Iterable[str] = (),
    is_data: IsData = lambda cells: False,
    encoding: str | None = None,
) -> Contents:
    """Columns of a table or arrays by name; a lone array is ``""``, and ``-`` standard input.

    Names of ``header``, besides those known here, make the first row of a text file a header, if
    ``is_data`` does not say of its cells that they are none: a node may be called ``u``.
    """
    ending = ending_of(path)
    if path == STANDARD:
        path, raw = Path("standard input"), sys.stdin.buffer.read()
    elif path.is_dir():
        raise FileFormatError(f"{path}: it is a folder; name a file")
    elif not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    else:
        check_ending(path, READS, "read")
        raw = b"" if ending in _READERS else path.read_bytes()
    if ending in _READERS:
        contents = _READERS[ending](path)
    else:
        if ending.endswith(".gz") or raw.startswith(b"\x1f\x8b"):
            try:
                raw = bytes(pa.CompressedInputStream(pa.BufferReader(raw), "gzip").read())
            except (OSError, pa.ArrowException) as error:
                raise FileFormatError(f"{path}: it is damaged or no gzip file: {error}") from error
        contents = read_text(path, raw, {name.lower() for name in header}, is_data, encoding)
    if isinstance(contents, Columns) and not contents.rows:
        raise FileFormatError(f"{path}: it has no rows")
    return contents
