"""From a file of any kind to named columns or named arrays, by its ending; none ever runs code."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.feather
import pyarrow.parquet

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import is_archive, open_archive, read_npy
from simi_mailbox.node_files.columns import KNOWN, Columns, Contents
from simi_mailbox.node_files.text_tables import IsData, read_text

STANDARD = Path("-")
"""Standard input, or standard output."""


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
    """Columns of a table (CSV, TSV, Parquet, Feather) or arrays by name; a lone array is ``""``.

    The ending says what a file is; ``-`` is a text table from standard input. ``header`` are names
    that make the first row of a text file a header, besides those known here, and ``is_data`` says
    of its cells that they are none: a node may be called ``u``. ``encoding`` is that of text
    without a byte order mark, by default UTF-8.
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
