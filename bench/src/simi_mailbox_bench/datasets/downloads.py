"""Downloaded datasets as the arrays of our own files: PyG's loaders, and OGB's ogbn-arxiv.

Arxiv is read from OGB's text files, without the ogb package and without pickle.
"""

import gzip
import io
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simi_mailbox._arrays import Arrays
from simi_mailbox._extras import require
from simi_mailbox.files import whole_file
from simi_mailbox_bench.datasets.catalogue import Entry

# Their loaders keep the directions of the edges; all others deliver both directions.
_KEEP_DIRECTIONS = frozenset({"WikipediaNetwork", "Actor", "WebKB"})
# Features with fewer columns, or more values that are not zero, gain nothing from being sparse.
_SPARSE_COLUMNS, _SPARSE_SHARE = 64, 0.5


def from_pyg(entry: Entry, root: Path) -> Arrays:
    """Let PyG download a dataset into ``root`` and return it in the layout of docs/data.md."""
    datasets = require("torch_geometric.datasets", extra="pyg")
    kind, *name = entry.loader
    # PyG's two-argument loaders make their own sub-folder; the others would share ``root``.
    folder = root if name else root / kind
    return to_arrays(getattr(datasets, kind)(str(folder), *name)[0], entry)


def to_arrays(data: Any, entry: Entry) -> Arrays:
    """Arrays of a PyG ``Data``; the reverse edges are added where PyG keeps directions.

    PyG has already made the features binary where it does so, so nothing marks that here.
    """
    y = data.y.reshape(-1).numpy()
    edges = data.edge_index.numpy()
    arrays: Arrays = {"y": y.astype(np.int16), **feature_arrays(data.x)}
    arrays["edge_index"] = undirected_closure(edges, y.size).astype(np.int32)
    kind = entry.loader[0]
    if kind in _KEEP_DIRECTIONS:
        arrays["edge_index_pyg"] = edges.astype(np.int32)
    if getattr(data, "train_mask", None) is not None:
        for part in ("train", "val", "test"):
            mask = data[f"{part}_mask"].numpy().astype(np.bool_)
            if kind == "Planetoid":
                arrays[f"{part}_mask"] = mask
            else:
                arrays[f"{part}_masks"] = np.atleast_2d(mask.T)
    if kind == "Planetoid":
        # Numbers in the test range that Planetoid's test index leaves out are nodes without
        # features or label, to which PyG gives class 0 (15 in Citeseer, none elsewhere).
        test = arrays["test_mask"]
        first = int(np.flatnonzero(test)[0])
        filler = first + np.flatnonzero(~test[first:])
        if filler.size:
            arrays["unlabelled"] = filler.astype(np.int32)
    return arrays


def feature_arrays(x: Any) -> Arrays:
    """Features as CSR parts where that pays (bags of words), else dense."""
    dense = np.asarray(x.to_dense() if hasattr(x, "to_dense") else x, dtype=np.float32)
    wide = dense.shape[1] >= _SPARSE_COLUMNS
    if not wide or np.count_nonzero(dense) >= _SPARSE_SHARE * dense.size:
        return {"x": dense}
    csr = sp.csr_array(dense)
    return {
        "x_data": csr.data,
        "x_indices": csr.indices.astype(np.int32),
        "x_indptr": csr.indptr.astype(np.int64),
        "x_shape": np.array(csr.shape, dtype=np.int64),
    }


def undirected_closure(edges: Any, num_nodes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Both directions of every edge, without duplicates; self-loops are kept once."""
    source, target = edges.astype(np.int64)
    keys = np.concatenate([source * num_nodes + target, target * num_nodes + source])
    return np.stack(np.divmod(np.unique(keys), num_nodes))


ARXIV_URL = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
ARXIV_ARCHIVE = "arxiv.zip"
# OGB's archive unpacks to the first name; the ogb package renames it to the second.
_ARXIV_FOLDERS = ("arxiv", "ogbn_arxiv")
_ARXIV_SPLITS = {"train": "train", "val": "valid", "test": "test"}


def find_arxiv(folders: list[Path]) -> Path | None:
    """Unpacked folder or archive of ogbn-arxiv in the first folder that holds one."""
    for folder in folders:
        for name in _ARXIV_FOLDERS:
            if (folder / name / "raw" / "edge.csv.gz").is_file():
                return folder / name
        if (folder / ARXIV_ARCHIVE).is_file():
            return folder / ARXIV_ARCHIVE
    return None


def fetch_arxiv(root: Path) -> Path:
    """Download OGB's archive into ``root``; a partial download is never left under its name."""
    root.mkdir(parents=True, exist_ok=True)
    with whole_file(root / ARXIV_ARCHIVE) as unfinished:
        urllib.request.urlretrieve(ARXIV_URL, unfinished)
    return root / ARXIV_ARCHIVE


def read_arxiv(path: Path) -> Arrays:
    """Read OGB's files, from an unpacked folder or the archive, into the layout of docs/data.md.

    Citations become undirected edges; ``edge_index_pyg`` keeps their direction.
    """
    if path.is_dir():
        return _arxiv_arrays(lambda name: (path / name).read_bytes(), path)
    with zipfile.ZipFile(path) as archive:
        return _arxiv_arrays(lambda name: archive.read(f"{_ARXIV_FOLDERS[0]}/{name}"), path)


def _arxiv_arrays(read: Callable[[str], bytes], path: Path) -> Arrays:
    def table(name: str, dtype: Any) -> Any:
        try:
            text = gzip.decompress(read(name))
            return np.loadtxt(io.BytesIO(text), delimiter=",", dtype=dtype, ndmin=2)
        except (KeyError, OSError, EOFError, ValueError) as error:
            raise ValueError(
                f"cannot read {name} of ogbn-arxiv in {path}: {error}. Delete it and download "
                f"{ARXIV_URL} again."
            ) from error

    y = table("raw/node-label.csv.gz", np.int64).reshape(-1)
    edges = table("raw/edge.csv.gz", np.int64).T
    arrays: Arrays = {
        "x": table("raw/node-feat.csv.gz", np.float32),
        "y": y.astype(np.int16),
        "edge_index": undirected_closure(edges, y.size).astype(np.int32),
        "edge_index_pyg": edges.astype(np.int32),
    }
    for part, file in _ARXIV_SPLITS.items():
        nodes = table(f"split/time/{file}.csv.gz", np.int64).reshape(-1)
        mask = np.zeros((1, y.size), dtype=np.bool_)
        mask[0, nodes] = True
        arrays[f"{part}_masks"] = mask
    return arrays
