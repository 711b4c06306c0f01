"""Past runs as npz files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from simi_mailbox._arrays import Array, Arrays
from simi_mailbox.bundles import read_bundle
from simi_mailbox.files import whole_file
from simi_mailbox.graph import Graph
from simi_mailbox.prior.past import PastRun, checked

NEEDED = ("logits", "labels", "edges", "calibration")
OPTIONAL = ("train", "split", "directed", "graph", "backbone", "family")


def write_run(run: PastRun, path: str | os.PathLike[str]) -> None:
    """Write a past run as an npz file; it appears whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> run = PastRun("a", "gcn", np.zeros((3, 2)), [0, 1, 1], [[0, 1], [1, 2]], [0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_run(run, f"{folder}/a.npz")
    ...     read_run(f"{folder}/a.npz").graph_name
    'a'
    """
    run = checked(run)
    arrays = {
        "logits": run.logits.numpy(),
        "y": run.y,
        "edge_index": run.graph.edge_index().numpy(),
        "directed": np.array(run.graph.is_directed),
        "calibration": run.calibration,
        "graph": np.array(run.graph_name),
        "backbone": np.array(run.backbone),
        "family": np.array(run.family),
        "split": np.array(run.split),
    }
    if run.train is not None:
        arrays["train"] = run.train
    with whole_file(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def read_run(path: str | os.PathLike[str]) -> PastRun:
    """Read a past run from an npz file.

    It holds ``logits``, ``y``, ``edge_index`` and ``calibration`` (or what else `bundles.NAMES`
    calls them), and may hold ``train``,
    ``split``, ``directed`` (else edges go both ways), and the words ``graph``, ``backbone`` and
    ``family``; the graph's name is by default the file's.
    """
    arrays = read_bundle(path, NEEDED, OPTIONAL)
    try:
        return checked(_run(arrays, Path(path).stem))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _run(arrays: Arrays, name: str) -> PastRun:
    n, edges = len(arrays["logits"]), arrays["edges"]
    if arrays.get("directed", np.array(False)).shape:
        raise ValueError("directed must be one truth value")
    directed = bool(arrays.get("directed", False))
    return PastRun(
        graph_name=str(arrays.get("graph", name)),
        backbone=str(arrays.get("backbone", "?")),
        family=str(arrays.get("family", "")),
        logits=arrays["logits"],
        y=arrays["labels"],
        graph=Graph.from_edges(edges, n, directed=True) if directed else edges,
        calibration=arrays["calibration"],
        train=arrays.get("train"),
        split=_whole(arrays.get("split", np.array(0))),
    )


def _whole(number: Array) -> int:
    if number.shape or number.dtype.kind not in "iu":
        raise ValueError(f"split must be a whole number, got {number!r}")
    return int(number)
