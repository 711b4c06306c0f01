"""From a file of any kind to named columns or named arrays, by its ending."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.binary_files import (
    read_arrow,
    read_numpy,
    read_safetensors,
    read_torch,
)
from simi_mailbox.node_files.columns import Columns, Contents
from simi_mailbox.node_files.text_tables import IsData, read_text

STANDARD = Path("-")
"""Standard input, or standard output."""
_TEXT = (".csv", ".tsv", ".txt")
_LARGE = 1 << 20
"""Bytes of a text file from which on it is not read twice."""
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
    *,
    header: Iterable[str] = (),
    is_data: IsData = lambda cells: False,
    encoding: str | None = None,
) -> Contents:
    """Columns of a table (CSV, TSV, Parquet, Feather) or arrays by name; a lone array is ``""``.

    The ending says what a file is; ``-`` is a table from standard input. ``header`` are names that
    make the first row of a text file a header, besides those known here, and ``is_data`` says of
    its cells that they are none: a node may be called ``u``. ``encoding`` is that of text without a
    byte order mark, by default UTF-8. What is damaged, of another kind or holds Python objects
    raises `FileFormatError`.
    """
    names = {name.lower() for name in header}
    if path == STANDARD:
        contents = _read_standard(names, is_data, encoding)
    elif path.is_dir():
        raise FileFormatError(f"{path}: it is a folder; name a file")
    elif not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    else:
        check_ending(path, READS, "read")
        ending = ending_of(path)
        if ending in _READERS:
            contents = _READERS[ending](path)
        else:
            large = not ending.endswith(".gz") and path.stat().st_size > _LARGE
            with path.open("rb") as file:
                raw = file.read(_LARGE if large else -1)
            raw = _unpacked(path, raw, ending.endswith(".gz"))
            contents = read_text(path, raw, names, is_data, encoding, beginning=large)
    if isinstance(contents, Columns) and not contents.rows:
        raise FileFormatError(f"{path}: it has no rows")
    return contents


def _read_standard(header: set[str], is_data: IsData, encoding: str | None) -> Contents:
    raw, name = sys.stdin.buffer.read(), Path("standard input")
    for start, kind in ((b"PAR1", "Parquet"), (b"ARROW1", "Feather")):
        if raw.startswith(start):
            return read_arrow(name, kind, pa.BufferReader(raw))
    raw = _unpacked(name, raw, raw.startswith(b"\x1f\x8b"))
    return read_text(name, raw, header, is_data, encoding)


def _unpacked(path: Path, raw: bytes, packed: bool) -> bytes:
    if not packed:
        return raw
    try:
        return bytes(pa.CompressedInputStream(pa.BufferReader(raw), "gzip").read())
    except (OSError, pa.ArrowException) as error:
        raise FileFormatError(f"{path}: it is damaged or no gzip file: {error}") from error
