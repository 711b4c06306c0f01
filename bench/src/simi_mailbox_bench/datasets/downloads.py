"""Downloaded datasets as the arrays of our own files: PyG's loaders, and OGB's ogbn-arxiv.

Arxiv is read from OGB's text files, without the ogb package and without pickle.
"""

import shutil
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simi_mailbox._arrays import Arrays
from simi_mailbox._extras import require
from simi_mailbox_bench.datasets.catalogue import Entry

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
    """Arrays of a PyG ``Data``; the reverse edges are added where PyG keeps directions."""
    y = data.y.reshape(-1).numpy()
    edges = data.edge_index.numpy()
    arrays: Arrays = {"y": y.astype(np.int16), **feature_arrays(data.x)}
    arrays["edge_index"] = undirected_closure(edges, y.size).astype(np.int32)
    kind = entry.loader[0]
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
# OGB's archive unpacks to the first name; the ogb package renames it to the second.
_ARXIV_FOLDERS = ("arxiv", "ogbn_arxiv")
_ARXIV_SPLITS = {"train": "train", "val": "valid", "test": "test"}


def find_arxiv(folders: list[Path]) -> Path | None:
    """Unpacked folder of ogbn-arxiv in the first folder that holds one."""
    places = (folder / name for folder in folders for name in _ARXIV_FOLDERS)
    return next((place for place in places if (place / "raw" / "edge.csv.gz").is_file()), None)


def fetch_arxiv(root: Path) -> Path:
    """Download OGB's archive and unpack it into ``root``."""
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        archive, _ = urllib.request.urlretrieve(ARXIV_URL, Path(folder) / "arxiv.zip")
        shutil.unpack_archive(archive, root)
    return root / _ARXIV_FOLDERS[0]


def read_arxiv(folder: Path) -> Arrays:
    """Read OGB's files into the layout of docs/data.md."""

    def table(name: str, dtype: Any) -> Any:
        try:
            return np.loadtxt(folder / name, delimiter=",", dtype=dtype, ndmin=2)
        except (OSError, EOFError, ValueError) as error:
            raise ValueError(
                f"cannot read {name} of ogbn-arxiv in {folder}: {error}. Delete it and download "
                f"{ARXIV_URL} again."
            ) from error

    y = table("raw/node-label.csv.gz", np.int64).reshape(-1)
    edges = table("raw/edge.csv.gz", np.int64).T
    arrays: Arrays = {
        "x": table("raw/node-feat.csv.gz", np.float32),
        "y": y.astype(np.int16),
        "edge_index": undirected_closure(edges, y.size).astype(np.int32),
    }
    for part, file in _ARXIV_SPLITS.items():
        nodes = table(f"split/time/{file}.csv.gz", np.int64).reshape(-1)
        mask = np.zeros((1, y.size), dtype=np.bool_)
        mask[0, nodes] = True
        arrays[f"{part}_masks"] = mask
    return arrays
