"""From a file of any kind to named columns or named arrays, by its ending."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.array_files import (
    read_numpy,
    read_parquet,
    read_safetensors,
    read_torch,
)
from simi_mailbox.node_files.columns import Columns, Contents
from simi_mailbox.node_files.text_tables import IsData, read_text

_TEXT = (".csv", ".tsv", ".txt")
_READERS: dict[str, Callable[[Path], Contents]] = {
    ".npy": read_numpy,
    ".npz": read_numpy,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
    ".pt": read_torch,
    ".pth": read_torch,
}
READS = (".npy", ".npz", *_TEXT, ".parquet", ".safetensors", ".pt", ".pth")
"""Endings of files that can be read."""


def read_file(
    path: Path,
    *,
    header: Iterable[str] = (),
    is_data: IsData = lambda cells: False,
) -> Contents:
    """Columns of a table (CSV, TSV, Parquet) or arrays by name; a lone array is called ``""``.

    Parameters
    ----------
    path : Path
        The file; its ending says what it is.
    header : iterable of str
        Names that make the first row of a CSV file a header, besides those known here.
    is_data : callable
        Whether the cells of a first row are known to be no header: a node may be called ``u``.

    Raises
    ------
    FileFormatError
        If the file is damaged, of another kind than its ending says, or holds Python objects.
    FileNotFoundError
        If it is not there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "labels.csv")
    ...     _ = file.write_text("id,label\\na,cat\\nb,dog\\n")
    ...     table = read_file(file)
    >>> table.names, [column.tolist() for column in table.values]
    (('id', 'label'), [['a', 'b'], ['cat', 'dog']])
    """
    if path.is_dir():
        raise FileFormatError(f"{path}: it is a folder; name a file")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    ending = path.suffix.lower()
    if ending not in READS:
        raise FileFormatError(
            f"{path}: files that end in {path.suffix or 'nothing'!r} cannot be read; "
            f"use one of {', '.join(READS)}"
        )
    if ending in _TEXT:
        contents: Contents = read_text(path, {name.lower() for name in header}, is_data)
    else:
        contents = _READERS[ending](path)
    if isinstance(contents, Columns) and not contents.rows:
        raise FileFormatError(f"{path}: it has no rows")
    return contents
