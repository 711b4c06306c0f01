"""ogbn-arxiv from OGB's own text files, without the ogb package and without pickle."""

from __future__ import annotations

import gzip
import io
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Arrays
from simi_mailbox.files import whole_file
from simi_mailbox_bench.datasets.pyg import undirected_closure

URL = "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
ARCHIVE = "arxiv.zip"
# OGB's archive unpacks to the first name; the ogb package renames it to the second.
_FOLDERS = ("arxiv", "ogbn_arxiv")
_SPLITS = {"train": "train", "val": "valid", "test": "test"}


def find_raw(folders: list[Path]) -> Path | None:
    """Unpacked folder or archive of ogbn-arxiv in the first folder that holds one."""
    for folder in folders:
        for name in _FOLDERS:
            if (folder / name / "raw" / "edge.csv.gz").is_file():
                return folder / name
        if (folder / ARCHIVE).is_file():
            return folder / ARCHIVE
    return None


def download(root: Path) -> Path:
    """Download OGB's archive into ``root``; a partial download is never left under its name."""
    root.mkdir(parents=True, exist_ok=True)
    with whole_file(root / ARCHIVE) as unfinished:
        urllib.request.urlretrieve(URL, unfinished)
    return root / ARCHIVE


def read_raw(path: Path) -> Arrays:
    """Read OGB's files, from an unpacked folder or the archive, into the layout of docs/data.md.

    Citations become undirected edges; ``edge_index_pyg`` keeps their direction.
    """
    if path.is_dir():
        return _arrays(lambda name: (path / name).read_bytes(), path)
    with zipfile.ZipFile(path) as archive:
        return _arrays(lambda name: archive.read(f"{_FOLDERS[0]}/{name}"), path)


def _arrays(read: Callable[[str], bytes], path: Path) -> Arrays:
    def table(name: str, dtype: Any) -> Any:
        try:
            text = gzip.decompress(read(name))
            return np.loadtxt(io.BytesIO(text), delimiter=",", dtype=dtype, ndmin=2)
        except (KeyError, OSError, EOFError, ValueError) as error:
            raise ValueError(
                f"cannot read {name} of ogbn-arxiv in {path}: {error}. Delete it and download "
                f"{URL} again."
            ) from error

    y = table("raw/node-label.csv.gz", np.int64).reshape(-1)
    edges = table("raw/edge.csv.gz", np.int64).T
    arrays: Arrays = {
        "x": table("raw/node-feat.csv.gz", np.float32),
        "y": y.astype(np.int16),
        "edge_index": undirected_closure(edges, y.size).astype(np.int32),
        "edge_index_pyg": edges.astype(np.int32),
    }
    for part, file in _SPLITS.items():
        nodes = table(f"split/time/{file}.csv.gz", np.int64).reshape(-1)
        mask = np.zeros((1, y.size), dtype=np.bool_)
        mask[0, nodes] = True
        arrays[f"{part}_masks"] = mask
    return arrays
