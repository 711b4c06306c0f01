"""Datasets through PyTorch Geometric's loaders, turned into the arrays of our own files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from simi_mailbox._arrays import Arrays
from simi_mailbox._extras import require
from simi_mailbox_bench.datasets.catalogue import Entry

# Their loaders keep the directions of the edges; all others deliver both directions.
_KEEP_DIRECTIONS = frozenset({"WikipediaNetwork", "Actor", "WebKB"})
# Features with fewer columns, or more values that are not zero, gain nothing from being sparse.
_SPARSE_COLUMNS, _SPARSE_SHARE = 64, 0.5


def download(entry: Entry, root: Path) -> Arrays:
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
    """Both directions of every edge, without duplicates; self-loops are kept once.

    Examples
    --------
    >>> undirected_closure(np.array([[0, 1, 2], [1, 0, 2]]), 3).tolist()
    [[0, 1, 2], [1, 0, 2]]
    """
    source, target = edges.astype(np.int64)
    keys = np.concatenate([source * num_nodes + target, target * num_nodes + source])
    return np.stack(np.divmod(np.unique(keys), num_nodes))
