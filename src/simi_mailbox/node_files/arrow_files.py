"""Parquet and Feather files: columns with their types."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import Columns

_READERS = {"Parquet": pyarrow.parquet.read_table, "Feather": pyarrow.feather.read_table}


def read_arrow(path: Path, kind: str, source: Any = None) -> Columns:
    """Columns of a "Parquet" or "Feather" file; ``source`` is what is read in its place."""
    try:
        table = _READERS[kind](path if source is None else source)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(f"{path}: it is damaged or no {kind} file: {error}") from error
    if not table.num_columns:
        raise FileFormatError(f"{path}: it has no columns")
    names = tuple(table.column_names)
    index = [name for name in _pandas_index(table) if name in names]
    values = tuple(_plain(column.combine_chunks()) for column in table.columns)
    return Columns(path, names, values, index=names.index(index[0]) if len(index) == 1 else None)


def _pandas_index(table: Any) -> list[Any]:
    """What pandas has written of an index: names of columns, or ranges."""
    found = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in found if isinstance(name, str)]


def _plain(column: Any) -> Any:
    """A column in one of few types: text, float64, integers, truth, lists; others as they are."""
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
