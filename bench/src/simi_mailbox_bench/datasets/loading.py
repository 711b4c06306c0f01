"""`load`: one function for every dataset, wherever its data are.

Files are NumPy archives (layout: docs/data.md). Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from simi_mailbox._arrays import Arrays, Bools, Ints
from simi_mailbox.demo import digits_graph
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import cache_folder, open_archive, whole_file
from simi_mailbox.graph import Graph
from simi_mailbox_bench.datasets import catalogue, downloads
from simi_mailbox_bench.datasets.catalogue import Entry
from simi_mailbox_bench.datasets.dataset import PARTS, SHIFT_PARTS, SHIFTS, NodeDataset, Split
from simi_mailbox_bench.datasets.protocols import class_members, generator

_HOMOPHILY_TOLERANCE = 0.005
_PROVIDERS = {"ogb": "OGB's archive", "pyg": "PyG's loader", "file": "no other place"}


class Found(NamedTuple):
    """A dataset file on this machine, and its checksum if that is known."""

    path: Path
    sha256: str | None
    source: str


def load(name: str, *, download: bool = True) -> NodeDataset:
    """Load a dataset by name.

    Looked for in this order: the file ``<name>.npz`` in the folder that the environment variable
    ``SIMI_MAILBOX_DATA`` names, then in the cache folder (``~/.cache/simi-mailbox/data``); then,
    if ``download`` is true, through PyG's loader, keeping a converted copy in the cache folder.
    """
    entry = catalogue.find(name)
    if entry.origin == "scikit-learn":
        return digits()
    found = locate(entry)
    if found is None:
        dataset = _obtain(entry, download=download)
    else:
        if found.sha256 is not None:
            verify(found.path, found.sha256)
        dataset = read_archive(found.path, entry, source=found.source)
        _check_homophily(dataset, entry, str(found.path))
    if entry.folds and dataset.folds is None:
        warnings.warn(
            f"this copy of {entry.name} lacks the published 3-fold splits; protocol 'folds' "
            "draws others by the same rule",
            stacklevel=2,
        )
    return _with_shifts(dataset, entry)


def _with_shifts(dataset: NodeDataset, entry: Entry) -> NodeDataset:
    """With the structural-shift splits of ``<name>-shifts.npz``, where that file is."""
    for folder in folders():
        path = folder / f"{entry.name}-shifts.npz"
        if path.is_file():
            arrays = _read_arrays(path)
            shifts = {
                shift: {part: arrays[f"{shift}_{part}"] for part in SHIFT_PARTS}
                for shift in SHIFTS
                if f"{shift}_train" in arrays
            }
            try:
                return replace(dataset, shifts=shifts)
            except ValueError as error:
                raise ValueError(f"{path} does not fit {entry.name}: {error}") from error
    return dataset


def available() -> list[str]:
    """Names of the datasets that can be loaded here without a download."""
    return [name for name, entry in catalogue.ENTRIES.items() if is_here(entry)]


def is_here(entry: Entry) -> bool:
    """Whether a dataset can be loaded without a download."""
    if entry.origin == "scikit-learn" or locate(entry) is not None:
        return True
    return entry.origin == "ogb" and downloads.find_arxiv(folders()) is not None


def folders() -> list[Path]:
    """Folders searched for dataset files, in order."""
    chosen, cache = os.environ.get("SIMI_MAILBOX_DATA"), cache_folder("data")
    return [Path(chosen), cache] if chosen else [cache]


def locate(entry: Entry) -> Found | None:
    """File of a dataset in the first folder that holds it."""
    for folder in folders():
        path = folder / entry.file_name
        if path.is_file():
            return Found(path, entry.sha256, "file")
        converted = folder / f"{entry.name}.converted.npz"
        if converted.is_file():
            return Found(converted, None, "converted")  # its bytes differ from the original's
    return None


def _obtain(entry: Entry, *, download: bool) -> NodeDataset:
    """Read the dataset from its origin, and keep it as a file in the cache folder."""
    cache = cache_folder("data")
    try:
        raw = downloads.find_arxiv(folders()) if entry.origin == "ogb" else None
        if entry.origin == "file":
            raise FileNotFoundError("it is read from its file only")
        if raw is None and not download:
            raise FileNotFoundError("downloading is switched off (download=False)")
        if entry.origin == "ogb":
            arrays = downloads.read_arxiv(raw or downloads.fetch_arxiv(cache))
        else:
            arrays = downloads.from_pyg(entry, cache / "pyg")
    except ValueError:
        raise  # a damaged local file: the message says which, and downloading would not help
    except Exception as error:  # whatever PyG, its download layer or the network throws
        raise FileNotFoundError(_what_to_do(entry, error)) from error
    origin = f"the copy of {entry.name} that {_PROVIDERS[entry.origin]} provides"
    try:
        dataset = from_arrays(arrays, entry, source=entry.origin)
    except (KeyError, ValueError) as error:
        raise ValueError(f"{origin} is not usable: {error}") from error
    _check_homophily(dataset, entry, origin)
    try:
        write_archive(cache / f"{entry.name}.converted.npz", arrays)
    except OSError as error:
        warnings.warn(f"could not keep {entry.name} in {cache}: {error}", stacklevel=3)
    return dataset


def _what_to_do(entry: Entry, error: Exception) -> str:
    looked = " and ".join(map(str, folders()))
    checksum = f" (sha256 {entry.sha256})" if entry.sha256 else ""
    archive = f", or OGB's {downloads.ARXIV_URL}, unpacked,"
    return (
        f"{entry.name} is not here: there is no {entry.file_name} in {looked}, and "
        f"{_PROVIDERS[entry.origin]} did not provide it: {error or type(error).__name__}. Either "
        f"put {entry.file_name}{checksum}{archive if entry.origin == 'ogb' else ''} into "
        f"{folders()[0]}, or set SIMI_MAILBOX_DATA to the folder that holds it, or load it once "
        "with a network connection and simi-mailbox[pyg] installed."
    )


def _check_homophily(dataset: NodeDataset, entry: Entry, what: str) -> None:
    # Catches a copy with the right counts and the wrong labels: Cornell in the repository that
    # PyG downloads from (graphdml-uiuc-jlu/geom-gcn@f1fc0d14) holds Texas's features and labels
    # beside Cornell's edges (homophily 0.256 instead of 0.123).
    measured = dataset.homophily()
    if entry.homophily and abs(measured - entry.homophily) > _HOMOPHILY_TOLERANCE:
        raise ValueError(
            f"{what} is not {entry.name} as published: {measured:.3f} of its edges join one "
            f"class, expected {entry.homophily:.3f}; labels and edges do not belong together. "
            f"Put an intact {entry.file_name} into {folders()[0]} instead (docs/data.md)."
        )


def read_archive(path: Path, entry: Entry, *, source: str = "file") -> NodeDataset:
    """Read one archive; raise ValueError saying what is wrong with it, if anything is."""
    arrays = _read_arrays(path)
    try:
        return from_arrays(arrays, entry, source=source)
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


def from_arrays(arrays: Arrays, entry: Entry, *, source: str = "memory") -> NodeDataset:
    """Build a dataset from the arrays of an archive, checked against the catalogue."""
    x, y, edges = _features(arrays), arrays["y"], arrays["edge_index"]
    for what, given, expected in (
        ("nodes", y.size, entry.nodes),
        ("entries of edge_index", edges.shape[-1], entry.entries),
        ("classes", int(y.max(initial=-1)) + 1, entry.classes),
        ("features", x.shape[1], entry.features),
    ):
        if given != expected:
            raise ValueError(f"it has {given} {what}, expected {expected}")
    public, official = _splits(arrays)
    return NodeDataset(
        name=entry.name,
        graph=Graph.from_edges(edges, y.size),
        x=_scaled(x, entry.scaling),
        y=y,
        num_classes=entry.classes,
        folds=arrays.get("gats_folds"),
        public=public,
        official=official,
        unlabelled=_unlabelled(arrays),
        source=source,
    )


def _features(arrays: Arrays) -> Any:
    if "x" in arrays:
        return arrays["x"]
    data, *index = (arrays[f"x_{part}"] for part in ("data", "indices", "indptr"))
    if bool(arrays.get("pyg_binarises_x", False)):
        # PyG sets every positive count to 1 on loading; all stored entries are positive.
        data = np.ones_like(data)
    try:
        x = sp.csr_array((data, *index), shape=tuple(arrays["x_shape"].tolist()))
        x.check_format()
        if x.nnz != data.size:
            raise ValueError(f"{data.size} values for {x.nnz} entries")
    except ValueError as error:
        raise ValueError(f"x_data, x_indices and x_indptr are no CSR matrix: {error}") from error
    return x


def _scaled(x: Any, how: str) -> Any:
    """Columns as ranks in 0..1 or with mean zero and variance one; constant ones become zero."""
    if not how:
        return x
    if how == "rank":
        x = rankdata(x, axis=0) / len(x)
    spread = x.std(axis=0)
    return ((x - x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)).astype(np.float32)


def _unlabelled(arrays: Arrays) -> Bools | None:
    if "is_user" in arrays:  # the other side of a bipartite graph has labels of no meaning
        return ~arrays["is_user"].astype(np.bool_)
    if "unlabelled" not in arrays:
        return None
    nodes = arrays["unlabelled"]
    if nodes.ndim != 1 or (nodes.size and not 0 <= nodes.min() <= nodes.max() < arrays["y"].size):
        raise ValueError("unlabelled must list node numbers")
    mask = np.zeros(arrays["y"].size, dtype=np.bool_)
    mask[nodes] = True
    return mask


def _splits(arrays: Arrays) -> tuple[Split | None, tuple[Split, ...]]:
    """The public split and the official ones."""
    public, official = None, []
    if "train_mask" in arrays:
        public = Split.from_masks(*(arrays[f"{part}_mask"] for part in PARTS))
    if "train_masks" in arrays:
        masks = [arrays[f"{part}_masks"] for part in PARTS]
        if len({mask.shape for mask in masks}) != 1 or masks[0].ndim != 2:
            shapes = [list(mask.shape) for mask in masks]
            raise ValueError(f"masks must have one shape [splits, nodes], got {shapes}")
        official = [Split.from_masks(*rows) for rows in zip(*masks, strict=True)]
    return public, tuple(official)


def verify(path: Path, expected: str) -> None:
    """Raise ValueError unless the file's sha256 is ``expected``; hashed once per file version."""
    status = path.stat()
    found = _sha256(str(path), status.st_mtime_ns, status.st_size)
    if found != expected:
        raise ValueError(
            f"{path} has the wrong checksum and is refused: sha256 {found}, expected {expected}; "
            "replace it by the original, or delete it so that the dataset is downloaded again."
        )


@lru_cache(maxsize=256)
def _sha256(path: str, mtime_ns: int, size: int) -> str:
    # mtime and size are only there to make the cache forget a file that changed.
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_archive(path: Path, arrays: Arrays) -> None:
    """Write an archive; a half-written file never has its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


PER_CLASS, CALIBRATION, SPLITS = 20, 500, 10


def digits() -> NodeDataset:
    """The digits graph with ten official splits, drawn from fixed seeds."""
    graph, x, y = digits_graph()
    official = tuple(_split(y, number) for number in range(SPLITS))
    return NodeDataset("Digits", graph, x, y, 10, official=official, source="scikit-learn")


def _split(y: Ints, number: int) -> Split:
    rng = generator("Digits", "official", number)
    train = np.concatenate([rng.permutation(nodes)[:PER_CLASS] for nodes in class_members(y)])
    rest = rng.permutation(np.setdiff1d(np.arange(y.size), train))
    return Split(train, rest[:CALIBRATION], rest[CALIBRATION:])
