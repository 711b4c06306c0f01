"""Past runs: a trained GNN's logits on a graph whose labels are known by now, and their files."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Array, Arrays, Bools
from simi_mailbox.files import whole_file
from simi_mailbox.graph import Graph
from simi_mailbox.validation import read_index, read_labels, read_nodes, refuse_shared
from simi_mailbox_bench.prior.bundles import read_bundle

NEEDED = ("logits", "labels", "edges", "calibration")
OPTIONAL = ("train", "hidden", "split", "directed", "graph", "backbone", "family")


@dataclass(frozen=True, eq=False)
class PastRun:
    """A trained GNN's logits on a graph whose labels have become known since.

    Parameters
    ----------
    graph_name, backbone : str
        What the run is filed under.
    logits : array [n, K]
    y : array [n]
        Labels of all nodes; negative where unknown.
    graph
        As `fit` of a calibrator takes it.
    calibration : array
        The nodes whose labels a calibrator would have had: boolean or indices.
    train : array, optional
        The nodes that the GNN was trained on. They are left out, because a GNN is better on them
        than on any other node.
    family : str, optional
        Graphs of one origin leave a corpus together; by default the graph's own name.
    split : int
        Runs of one split share their test nodes, so that they are one observation, not several.
    hidden : array [n, d], optional
        What enters the GNN's last layer.
    """

    graph_name: str
    backbone: str
    logits: Any
    y: Any
    graph: Any
    calibration: Any
    train: Any = None
    family: str = ""
    split: int = 0
    hidden: Any = None


def checked(run: PastRun) -> PastRun:
    """The same run with tensors, a `Graph` and int64 arrays; what makes no sense is an error.

    Examples
    --------
    >>> run = PastRun("a", "gcn", np.zeros((3, 2)), [0, 1, 5], [[0, 1], [1, 2]], [0])
    >>> checked(run)
    Traceback (most recent call last):
    ...
    ValueError: node 2 of y has label 5, but the classes are 0..1
    """
    needed = frozenset({"graph"})
    nodes = read_nodes(needed, "a past run", run.logits, run.graph, hidden=run.hidden)
    n, k = nodes.num_nodes, nodes.num_classes
    y = np.asarray(run.y)
    if y.shape != (n,):
        raise ValueError(f"labels of all {n} nodes are needed, got shape {list(y.shape)}")
    if y.dtype.kind not in "iuf":
        raise TypeError(f"labels must be numbers, got an array of {y.dtype}")
    known = np.flatnonzero(~(y < 0))  # not a number counts as known, and is refused
    if len(known):
        read_labels(y, known, n, k, "y")
    calibration = read_labels(y, run.calibration, n, k, "calibration").index.numpy()
    train = None
    if run.train is not None and len(run.train):
        train = read_index(run.train, n, "train")
        why = "a GNN is better on nodes it was trained on than on any other"
        refuse_shared(train, calibration, ("train", "calibration"), why)
    if np.ndim(run.split) or not float(run.split).is_integer():
        raise ValueError(f"split must be a whole number, got {run.split!r}")
    return replace(
        run,
        logits=nodes.logits,
        y=y.astype(np.int64),
        graph=nodes.graph,
        calibration=calibration,
        train=train,
        split=int(run.split),
        hidden=nodes.hidden,
    )


def unseen(run: PastRun) -> Bools:
    """Labelled nodes that the GNN was neither trained nor calibrated on.

    Examples
    --------
    >>> run = PastRun("a", "gcn", None, [0, 1, 0, -1], None, calibration=[1], train=[0])
    >>> unseen(run).tolist()
    [False, False, True, False]
    """
    found: Bools = np.asarray(run.y) >= 0
    n = len(found)
    found[read_index(run.calibration, n, "calibration")] = False
    if run.train is not None and len(run.train):
        found[read_index(run.train, n, "train")] = False
    if not found.any():
        raise ValueError(
            f"{run.graph_name}: no labelled node is left beside those trained and calibrated on"
        )
    return found


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
    if run.hidden is not None:
        arrays["hidden"] = run.hidden.to_dense().numpy()
    with whole_file(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def read_run(path: str | os.PathLike[str]) -> PastRun:
    """Read a past run from an npz file.

    It holds ``logits``, ``y``, ``edge_index`` and ``calibration`` (or what else files of users
    call them), and may hold ``train``, ``hidden``, ``split``, ``directed`` (else edges go both
    ways), and the words ``graph``, ``backbone`` and ``family``; the graph's name is by default the
    file's.
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
        hidden=arrays.get("hidden"),
        split=_whole(arrays.get("split", np.array(0))),
    )


def _whole(number: Array) -> int:
    if number.shape or number.dtype.kind not in "iu":
        raise ValueError(f"split must be a whole number, got {number!r}")
    return int(number)
