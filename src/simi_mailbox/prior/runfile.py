"""Past runs as npz files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from simi_mailbox._files import whole_file
from simi_mailbox.calibrators.inputs import read_index, read_nodes
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.prior.past import PastRun

NEEDED = ("logits", "y", "edge_index", "calibration")


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
    nodes = read_nodes(frozenset({"graph"}), "a past run", run.logits, run.graph)
    n = nodes.num_nodes
    graph = as_graph(run.graph, n)
    arrays = {
        "logits": nodes.logits.numpy(),
        "y": np.asarray(run.y),
        "edge_index": graph.edge_index().numpy(),
        "directed": np.array(graph.is_directed),
        "calibration": read_index(run.calibration, n, "calibration").numpy(),
        "graph": np.array(run.graph_name),
        "backbone": np.array(run.backbone),
        "family": np.array(run.family),
        "split": np.array(run.split),
    }
    if run.train is not None:
        arrays["train"] = read_index(run.train, n, "train").numpy()
    with whole_file(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


def read_run(path: str | os.PathLike[str]) -> PastRun:
    """Read a past run from an npz file.

    It holds ``logits``, ``y``, ``edge_index`` and ``calibration``, and may hold ``train``,
    ``split``, ``directed`` (else edges go both ways), and the words ``graph``, ``backbone`` and
    ``family``; the graph's name is by default the file's.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = [name for name in NEEDED if name not in arrays]
    if missing:
        raise ValueError(
            f"{os.fspath(path)} lacks {', '.join(missing)}; it holds {', '.join(arrays) or 'none'}"
        )
    y, edges = arrays["y"], arrays["edge_index"]
    directed = bool(arrays.get("directed", False))
    return PastRun(
        graph_name=str(arrays.get("graph", Path(path).stem)),
        backbone=str(arrays.get("backbone", "?")),
        family=str(arrays.get("family", "")),
        logits=torch.from_numpy(arrays["logits"]),
        y=y,
        graph=Graph.from_edges(edges, len(y), directed=directed) if directed else edges,
        calibration=arrays["calibration"],
        train=arrays.get("train"),
        split=int(arrays.get("split", 0)),
    )
