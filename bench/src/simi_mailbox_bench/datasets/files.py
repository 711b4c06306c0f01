"""Reading and writing datasets as NumPy archives (layout: docs/data.md). Nothing is pickled."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simi_mailbox._arrays import Arrays, Bools
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import open_archive, whole_file
from simi_mailbox.graph import Graph
from simi_mailbox_bench.datasets.catalogue import Entry
from simi_mailbox_bench.datasets.dataset import NodeDataset
from simi_mailbox_bench.datasets.split import Split


def read(path: Path, entry: Entry, *, directed: bool = False, source: str = "file") -> NodeDataset:
    """Read one archive; raise ValueError saying what is wrong with it, if anything is."""
    arrays = _read_arrays(path)
    try:
        return from_arrays(arrays, entry, directed=directed, source=source)
    except (KeyError, ValueError, TypeError) as error:
        detail = f"key {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"{path} is not a {entry.name} dataset: {detail}. "
            "The expected layout is in docs/data.md; replace or delete the file."
        ) from error


def _read_arrays(path: Path) -> Arrays:
    try:
        with open_archive(path) as archive:
            return dict(archive)
    except (FileFormatError, OSError) as error:
        raise ValueError(
            f"cannot read {error}. Replace the file by an intact copy, or delete it."
        ) from error


def from_arrays(
    arrays: Arrays, entry: Entry, *, directed: bool = False, source: str = "memory"
) -> NodeDataset:
    """Build a dataset from the arrays of an archive, checked against the catalogue."""
    y = arrays["y"]
    edges = arrays["edge_index"]
    counts = {
        "nodes": (y.size, entry.nodes),
        "entries of edge_index": (edges.shape[-1], entry.entries),
        "classes": (int(y.max(initial=-1)) + 1, entry.classes),
    }
    x = _features(arrays)
    counts["features"] = (x.shape[1], entry.features)
    for what, (given, expected) in counts.items():
        if given != expected:
            raise ValueError(f"it has {given} {what}, expected {expected}")
    keeps_directions = directed and "edge_index_pyg" in arrays
    graph = Graph.from_edges(
        arrays["edge_index_pyg"] if keeps_directions else edges, y.size, directed=keeps_directions
    )
    return NodeDataset(
        name=entry.name,
        graph=graph,
        x=x,
        y=y,
        num_classes=entry.classes,
        folds=arrays.get("gats_folds"),
        public=_public(arrays),
        official=_official(arrays),
        unlabelled=_unlabelled(arrays),
        source=source,
    )


def _features(arrays: Arrays) -> Any:
    if "x" in arrays:
        return arrays["x"]
    data, indices, indptr = (arrays[f"x_{part}"] for part in ("data", "indices", "indptr"))
    rows, columns = (int(size) for size in arrays["x_shape"])
    if bool(arrays.get("pyg_binarises_x", False)):
        # PyG sets every positive count to 1 on loading; all stored entries are positive.
        data = np.ones_like(data)
    if indptr.shape != (rows + 1,) or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise ValueError("x_indptr is not a valid CSR index")
    if indptr[-1] != data.size or indices.size != data.size:
        raise ValueError("x_data, x_indices and x_indptr do not belong together")
    if indices.size and (indices.min() < 0 or indices.max() >= columns):
        raise ValueError(f"x_indices leave the {columns} feature columns")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _unlabelled(arrays: Arrays) -> Bools | None:
    if "unlabelled" not in arrays:
        return None
    nodes = arrays["unlabelled"]
    if nodes.ndim != 1 or (nodes.size and not 0 <= nodes.min() <= nodes.max() < arrays["y"].size):
        raise ValueError("unlabelled must list node numbers")
    mask = np.zeros(arrays["y"].size, dtype=np.bool_)
    mask[nodes] = True
    return mask


def _public(arrays: Arrays) -> Split | None:
    if "train_mask" not in arrays:
        return None
    return Split.from_masks(*(arrays[f"{part}_mask"] for part in ("train", "val", "test")))


def _official(arrays: Arrays) -> tuple[Split, ...]:
    if "train_masks" not in arrays:
        return ()
    masks = [arrays[f"{part}_masks"] for part in ("train", "val", "test")]
    if len({mask.shape for mask in masks}) != 1 or masks[0].ndim != 2:
        raise ValueError(
            "train_masks, val_masks and test_masks must have one shape [splits, nodes], "
            f"got {[list(mask.shape) for mask in masks]}"
        )
    return tuple(Split.from_masks(*rows) for rows in zip(*masks, strict=True))


def verify(path: Path, expected: str) -> None:
    """Raise ValueError unless the file's sha256 is ``expected``; hashed once per file version."""
    status = path.stat()
    found = _sha256(str(path), status.st_mtime_ns, status.st_size)
    if found != expected:
        raise ValueError(
            f"{path} has the wrong checksum and is refused.\n"
            f"  sha256 found:    {found}\n  sha256 expected: {expected}\n"
            "The file is damaged or another version: replace it by the original, or delete it "
            "so that the dataset is downloaded again."
        )


@lru_cache(maxsize=256)
def _sha256(path: str, mtime_ns: int, size: int) -> str:
    # mtime and size are only there to make the cache forget a file that changed.
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write(path: Path, arrays: Arrays) -> None:
    """Write an archive and, beside it, its sha256. A half-written file never has its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished:
        with unfinished.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
        with unfinished.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        # The sum goes first: a crash in between leaves a mismatch, which is refused, and never
        # an unchecked file.
        _checksum_path(path).write_text(f"{digest}  {path.name}\n")


def read_checksum(path: Path) -> str | None:
    """Checksum noted beside a file by `write` (in the format of ``sha256sum``), if any."""
    note = _checksum_path(path)
    if not note.is_file():
        return None
    words = note.read_text().split()
    if not words or len(words[0]) != 64:
        raise ValueError(f"{note} does not hold a sha256; delete it and {path.name}")
    return words[0]


def _checksum_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
