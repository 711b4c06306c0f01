"""Past runs: a trained GNN's logits on a graph whose labels are known by now, and their files."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox._arrays import Arrays, Bools
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.files import open_archive, whole_file
from simi_mailbox.graph import Graph
from simi_mailbox.node_files.columns import NAMES
from simi_mailbox.validation import read_index, read_labels, read_nodes, refuse_shared

NEEDED = ("logits", "labels", "edges", "calibration")
OPTIONAL = ("train", "hidden", "split", "directed", "graph", "backbone", "family")


@dataclass(frozen=True, eq=False)
class PastRun:
    """A trained GNN's logits [n, K] on a graph whose labels have become known since.

    ``y`` is negative where a label is unknown. A calibrator would have had the labels of the nodes
    ``calibration`` (boolean or indices). The nodes ``train`` that the GNN was trained on are left
    out. Graphs of one ``family`` (default: the graph's own name) leave a corpus together. Runs of
    one ``split`` share their test nodes. ``hidden`` [n, d] is what enters the last layer.
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
    """The same run with tensors, a `Graph` and int64 arrays; what makes no sense is an error."""
    given = run.logits, run.graph
    nodes = read_nodes(frozenset({"graph"}), "a past run", *given, hidden=run.hidden)
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
    """Labelled nodes that the GNN was neither trained nor calibrated on."""
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
    """Write a past run as an npz file; it appears whole or not at all."""
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
    ways), and the words ``graph`` (default: the file's name), ``backbone`` and ``family``.
    """
    with open_archive(path) as archive:
        names = {part: NAMES.get(part, (part,)) for part in (*NEEDED, *OPTIONAL)}
        found = {part: [name for name in names[part] if name in archive] for part in names}
        lacking = [" or ".join(map(repr, names[part])) for part in NEEDED if not found[part]]
        if lacking:
            there = ", ".join(archive) or "nothing"
            raise FileFormatError(
                f"{path}: it has no array {', no '.join(lacking)}; it has: {there}"
            )
        for twice in (x for x in found.values() if len(x) > 1):
            raise FileFormatError(
                f"{path}: it holds both {twice[0]!r} and {twice[1]!r}: keep one of them"
            )
        arrays = {part: archive[x[0]] for part, x in found.items() if x}
    try:
        return checked(_run(arrays, Path(path).stem))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from error


def _run(arrays: Arrays, name: str) -> PastRun:
    n, edges = len(arrays["logits"]), arrays["edges"]
    directed, split = (arrays.get(part, np.array(0)) for part in ("directed", "split"))
    if directed.shape:
        raise ValueError("directed must be one truth value")
    if split.shape or split.dtype.kind not in "iu":
        raise ValueError(f"split must be a whole number, got {split!r}")
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
        split=int(split),
    )
