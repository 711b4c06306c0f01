"""CSV and its kin: which mark separates cells, whether there is a header, what is a number."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import CALLED, ID_NAMES, KNOWN, Columns

_SAMPLE = 100
_CHUNK = 20_000

IsData = Callable[[Sequence[str]], bool]
"""Whether the cells of a first row are known to be no header."""


def read_text(path: Path, header: set[str], is_data: IsData) -> Columns:
    """Columns of a table in UTF-8; ``header`` are names that make the first row a header."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _parse(path, file, header, is_data)
    except UnicodeDecodeError as error:
        raise FileFormatError(
            f"{path}: it is not UTF-8 text (byte {error.start} is {error.object[error.start]:#x}); "
            "save it as UTF-8"
        ) from error
    except csv.Error as error:
        raise FileFormatError(f"{path}: it cannot be read as a table: {error}") from error


def _parse(path: Path, file: Iterable[str], header: set[str], is_data: IsData) -> Columns:
    lines = iter(file)
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        raise FileFormatError(f"{path}: it is empty")
    mark = _delimiter(path, first)
    if mark == " ":
        rows: Iterator[list[str]] = (line.split() for line in chain([first], lines))
    else:
        rows = csv.reader(chain([first], lines), delimiter=mark, skipinitialspace=True)
    rows = (row for row in rows if row)
    sample = list(islice(rows, _SAMPLE))
    names = [""] * len(sample[0])
    number = 1
    if _is_header(sample, header) and not is_data([cell.strip() for cell in sample[0]]):
        names = [cell.strip() for cell in sample.pop(0)]
        number = 2
        names[0] = names[0] or ID_NAMES[0]  # how pandas writes an index without a name
        _check_header(path, names)
    called = {*CALLED, *header}
    numeric = [
        _holds_fractions([row[k] for row in sample if k < len(row)], name.lower() in called)
        for k, name in enumerate(names)
    ]
    chunks: list[list[Array]] = [[] for _ in names]
    rest = chain(sample, rows)
    while chunk := list(islice(rest, _CHUNK)):
        for offset, row in enumerate(chunk):
            if len(row) != len(names):
                raise FileFormatError(
                    f"{path}: row {number + offset} has {len(row)} cells, the first has "
                    f"{len(names)}"
                )
        for k, column in enumerate(zip(*chunk, strict=True)):
            text = np.char.strip(np.array(column, dtype=np.str_))
            chunks[k].append(
                _numbers(path, text, names[k] or k + 1, number) if numeric[k] else text
            )
        number += len(chunk)
    values = tuple(np.concatenate(parts) if parts else np.empty(0, np.str_) for parts in chunks)
    return Columns(path, tuple(names), values)


def _delimiter(path: Path, line: str) -> str:
    if path.suffix.lower() == ".tsv" or "\t" in line:
        return "\t"
    if "," in line:
        return ","
    if ";" in line:
        return ";"
    return " " if path.suffix.lower() == ".txt" and " " in line.strip() else ","


def _is_header(sample: list[list[str]], header: set[str]) -> bool:
    cells = [cell.strip() for cell in sample[0]]
    if any(_is_number(cell) and "." in cell for cell in cells):
        return False
    if any(cell.lower() in KNOWN or cell.lower() in header for cell in cells):
        return True
    if len(sample) < 2:
        return False
    named = cells[not _is_number(cells[0]) :]
    if len(named) > 1 and len(set(named)) == len(named) and all(map(_is_whole, named)):
        # Columns called 0, 1, 2, … or 2019, 2020, … over numbers that all have fractions.
        below = [cell for row in sample[1:] for cell in row[-len(named) :]]
        return all(_is_number(cell) and not _is_whole(cell) for cell in below)
    # A word over a column of numbers; a column of words says nothing about its first one.
    columns = zip(*sample[1:], strict=False)
    return any(
        cell and not _is_number(cell) and all(_is_number(value) for value in column)
        for cell, column in zip(cells, columns, strict=False)
    )


def _check_header(path: Path, names: list[str]) -> None:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise FileFormatError(f"{path}: two columns are called {min(twice)!r}")


def _holds_fractions(cells: list[str], called: bool) -> bool:
    """Whether a column is of measured numbers: ids, labels and masks stay text until asked.

    Without a point nothing is measured: ``12e5`` may be an id. Where the header says that nodes are
    ``called`` so, only whole numbers that lost their type (``12.0``) are numbers.
    """
    kept = [cell.strip() for cell in cells if cell.strip()]
    if called:
        return all(cell.endswith(".0") and _is_whole(cell[:-2]) for cell in kept)
    return all(_is_number(cell) for cell in kept) and any("." in cell for cell in kept)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_whole(cell: str) -> bool:
    return cell.strip().lstrip("+-").isdigit()


def _numbers(path: Path, text: Array, name: object, first: int) -> Array:
    text = np.where(text == "", "nan", text)
    try:
        return text.astype(np.float64)
    except ValueError:
        wrong = next(k for k, cell in enumerate(text) if not _is_number(cell))
        raise FileFormatError(
            f"{path}: row {first + wrong}, column {name}: {str(text[wrong])!r} is not a number"
        ) from None
