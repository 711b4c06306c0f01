"""From a file of any kind to named columns or named arrays; no file ever runs code."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array
from simi_mailbox._extras import require
from simi_mailbox.bundles import NAMES
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import is_archive, open_archive, read_npy

ID_NAMES = ("id", "ids", "node", "node_id", "nodeid", "__index_level_0__")
"""Columns that name nodes; the last is what pandas calls an index without a name."""
LABEL_NAMES = (*NAMES["labels"], "label", "class", "target")
EDGE_NAMES = (
    *(("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail")),
    *(("node1", "node2"), ("id1", "id2")),
)
_CALLED = {*ID_NAMES, *chain(*EDGE_NAMES)}
_KNOWN = {*ID_NAMES, *LABEL_NAMES, *chain(*EDGE_NAMES), *chain(*NAMES.values())}
PROBABILITY_NAMES = ("probabilities", "probs", "prob")
_KNOWN |= {"predicted", "confidence", "split", "name", "adj_t", *PROBABILITY_NAMES}
_SAMPLE = 100
_CHUNK = 20_000


@dataclass(frozen=True)
class Columns:
    """A table: columns of one length, numbers as float64 or integers, everything else as text.

    Attributes
    ----------
    path : Path
    names : tuple of str
        Header, or ``""`` for every column of a file that has none.
    values : tuple of array
        Usually [rows]; [rows, width] where a column of a Parquet file holds lists.
    """

    path: Path
    names: tuple[str, ...]
    values: tuple[Array, ...]

    @property
    def rows(self) -> int:
        return len(self.values[0])

    @property
    def has_header(self) -> bool:
        return any(self.names)

    def find(self, names: Iterable[str]) -> int | None:
        """Position of the column that has one of the names; two such columns are refused."""
        wanted = {name.lower() for name in names}
        found = [k for k, name in enumerate(self.names) if name.lower() in wanted]
        if len(found) > 1:
            raise FileFormatError(
                f"{self.path}: it has both a column {self.names[found[0]]!r} and "
                f"{self.names[found[1]]!r}: keep one of them"
            )
        return found[0] if found else None

    def measures(self, position: int) -> bool:
        """Whether a column holds numbers with fractions, which no label, mask or id is."""
        column = self.values[position]
        if column.dtype.kind == "U":  # a word that also names ends of edges: see `_CALLED`
            try:
                column = np.where(column == "", "nan", column).astype(np.float64)
            except ValueError:
                return False
        return column.dtype.kind == "f" and bool((np.nan_to_num(column) % 1 != 0).any())


Contents = Columns | dict[str, Any]
IsData = Callable[[Sequence[str]], bool]


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
        contents: Contents = _read_text(path, {name.lower() for name in header}, is_data)
    else:
        contents = _READERS[ending](path)
    if isinstance(contents, Columns) and not contents.rows:
        raise FileFormatError(f"{path}: it has no rows")
    return contents


# --- text -----------------------------------------------------------------------------------------


def _read_text(path: Path, header: set[str], is_data: IsData) -> Columns:
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
    called = {*_CALLED, *header}
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
    if any(cell.lower() in _KNOWN or cell.lower() in header for cell in cells):
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


# --- everything else ------------------------------------------------------------------------------


def _read_parquet(path: Path) -> Columns:
    arrow = require("pyarrow", extra="files")
    parquet = require("pyarrow.parquet", extra="files")
    try:
        table = parquet.read_table(path)
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise FileFormatError(f"{path}: it is damaged or no Parquet file: {error}") from error
    if not table.num_columns:
        raise FileFormatError(f"{path}: it has no columns")
    values = tuple(_arrow_column(path, name, table[name]) for name in table.column_names)
    return Columns(path, tuple(table.column_names), values)


def _arrow_column(path: Path, name: str, column: Any) -> Array:
    array = column.to_numpy()
    if array.dtype != object:
        return np.asarray(array)
    cells = column.to_pylist()
    if any(isinstance(cell, list) for cell in cells):
        try:
            return np.array(cells, dtype=np.float64)
        except (TypeError, ValueError):
            raise FileFormatError(
                f"{path}: the lists of column {name!r} are not numbers of one length"
            ) from None
    if all(isinstance(cell, bool) for cell in cells):
        return np.array(cells, dtype=bool)
    return np.array(["" if cell is None else str(cell) for cell in cells], dtype=np.str_)


def _read_npy(path: Path) -> dict[str, Any]:
    return _read_npz(path) if is_archive(path) else {"": read_npy(path)}


def _read_npz(path: Path) -> dict[str, Any]:
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
        return {n: archive[n] if n in _KNOWN or len(archive) == 1 else None for n in archive}


def _read_safetensors(path: Path) -> dict[str, Any]:
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


def _read_torch(path: Path) -> dict[str, Any]:
    """Tensors, dictionaries of tensors, PyG ``Data``; other pickled objects are refused."""
    import pickle

    import torch

    try:
        with torch.serialization.safe_globals(_pyg_classes()):
            found = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
        text = str(error)
        if "GLOBAL" not in text and "weights" not in text.lower():
            raise FileFormatError(f"{path}: it is damaged or no PyTorch file") from error
        raise FileFormatError(
            f"{path}: it holds Python objects, which could run code when read; save tensors: "
            "torch.save({'logits': logits, 'edge_index': edge_index, …}, path), or data.to_dict()"
        ) from error
    if isinstance(found, tuple | list) and found and isinstance(found[0], dict):
        found = found[0]  # a processed dataset of PyG: the data, slices and a class
    if isinstance(found, torch.Tensor):
        return {"": _numpy(found)}
    if hasattr(found, "to_dict"):
        found = found.to_dict()
    if not isinstance(found, dict):
        raise FileFormatError(
            f"{path}: it holds a {type(found).__name__}; expected a tensor, a dictionary of "
            "tensors or a PyG Data"
        )
    if any(isinstance(name, tuple) for name in found):
        raise FileFormatError(
            f"{path}: it has several kinds of nodes or edges (HeteroData): save one graph, such as "
            "data.to_homogeneous(), and the logits of its nodes in that order"
        )
    return {
        str(name): _numpy(value) for name, value in found.items() if isinstance(value, torch.Tensor)
    }


def _pyg_classes() -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
    """PyG's plain containers: holding tensors is all that unpickling makes them do."""
    try:
        from torch_geometric.data import data, storage
    except ModuleNotFoundError:
        return []
    names = ("Data", "DataEdgeAttr", "DataTensorAttr")
    stores = ("BaseStorage", "GlobalStorage", "NodeStorage", "EdgeStorage")
    found = [getattr(data, name, None) for name in names]
    found += [getattr(storage, name, None) for name in stores]
    return [cls for cls in found if cls is not None]


def _numpy(tensor: Any) -> Any:
    """A NumPy array; sparse tensors become SciPy matrices."""
    import torch

    if tensor.layout is not torch.strided:
        from scipy.sparse import coo_array

        coo = tensor.to_sparse_coo().coalesce()
        return coo_array((coo.values().numpy(), coo.indices().numpy()), shape=tuple(coo.shape))
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).detach().numpy()


_TEXT = (".csv", ".tsv", ".txt")
_READERS: dict[str, Callable[[Path], Contents]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}
READS = (".npy", ".npz", *_TEXT, ".parquet", ".safetensors", ".pt", ".pth")
"""Endings of files that can be read."""
