"""CSV and its kin: which mark separates cells, whether there is a header, what is a number."""

import codecs
import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import CALLED, ID_NAMES, KNOWN, Columns, is_number

_SAMPLE = 100
"""Rows that show what a file is like."""
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
    mark = _delimiter(path, lines[:_SAMPLE])
    try:
        sample = [row for row in csv.reader(lines[: _SAMPLE + 1], delimiter=mark) if row]
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
