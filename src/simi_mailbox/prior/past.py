"""From past graphs, whose labels are all known, to the settings of a corpus."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simi_mailbox.calibrators.inputs import CalibrationData, read_index, read_labels, read_nodes
from simi_mailbox.grouping import find_groups
from simi_mailbox.prior.between import between_groups
from simi_mailbox.prior.corpus import Equations, Setting
from simi_mailbox.prior.terms import Floats, precision, terms
from simi_mailbox.softmax import confidence

GROUPS = 20
"""As many as `SimiMailbox` makes by default."""


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
    """

    graph_name: str
    backbone: str
    logits: Any
    y: Any
    graph: Any
    calibration: Any
    train: Any = None
    family: str = ""


@dataclass(frozen=True, eq=False)
class Residuals:
    """What went wrong on the nodes of a past run that were neither trained nor calibrated on.

    Attributes
    ----------
    confidence, similarity, residual, group : arrays
        Of these nodes: confidence after temperature scaling on the calibration nodes, mailbox,
        correct − confidence, and group as `SimiMailbox` makes them.
    mean : float
        Mean confidence of all nodes.
    labels : int
        Number of calibration nodes.
    """

    confidence: Floats
    similarity: Floats
    residual: Floats
    group: npt.NDArray[np.int64]
    mean: float
    labels: int

    def equations(self) -> Equations:
        """The normal equations of the prior's regression."""
        c = self.confidence
        return Equations.of(terms(c, self.mean, self.labels), self.residual, precision(c))

    def between(self) -> float:
        """Variance between groups, about the run's own slope."""
        c = self.confidence
        count, total, spread, place = (
            np.bincount(self.group, values, minlength=GROUPS).astype(np.float64)
            for values in (np.ones(len(c)), self.residual, c * (1.0 - c), c)
        )
        return between_groups(total, spread, count, place / np.maximum(count, 1.0))[0]


def look_at(run: PastRun) -> Residuals:
    """The residuals of one run.

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> seen = look_at(PastRun("a", "gcn", p.logits, p.y, p.graph, range(100)))
    >>> len(seen.residual), seen.equations().matrix.shape
    (400, (2, 2))
    """
    # Imported here: the calibrators import the prior.
    from simi_mailbox.calibrators.grouped import node_points
    from simi_mailbox.calibrators.temperature import global_temperature

    nodes = read_nodes(frozenset({"graph"}), "a past run", run.logits, run.graph)
    n, k = nodes.num_nodes, nodes.num_classes
    y = np.asarray(run.y)
    if y.shape != (n,):
        raise ValueError(f"labels of all {n} nodes are needed, got shape {list(y.shape)}")
    labelled = read_labels(run.y, run.calibration, n, k, "calibration")
    data = CalibrationData(**vars(nodes), calibration=labelled)
    judged = y >= 0
    judged[labelled.index.numpy()] = False
    if run.train is not None and len(run.train):
        judged[read_index(run.train, n, "train").numpy()] = False
    if not judged.any():
        raise ValueError(f"{run.graph_name}: no labelled node is left to learn from")
    temperature = float(global_temperature(data).temperatures[0])
    c = confidence(nodes.logits, temperature).numpy()
    right = nodes.logits.argmax(dim=1).numpy() == y
    points = node_points(data)
    group = find_groups(points, min(GROUPS, n)).assign(points)
    return Residuals(
        confidence=c[judged],
        similarity=points[judged, 1],
        residual=(right - c)[judged],
        group=group[judged],
        mean=float(c.mean()),
        labels=len(labelled),
    )


def gather(runs: Iterable[PastRun], facts: dict[str, Any] | None = None) -> Iterator[Setting]:
    """Settings of a corpus: runs of the same graph and backbone are averaged.

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> run = PastRun("a", "gcn", p.logits, p.y, p.graph, range(100))
    >>> [(s.graph, s.runs) for s in gather([run, run])]
    [('a', 2)]
    """
    found: dict[tuple[str, str, str], list[tuple[Equations, float, int]]] = defaultdict(list)
    for run in runs:
        key = (run.graph_name, run.family or run.graph_name, run.backbone)
        looked = look_at(run)
        found[key].append((looked.equations(), looked.between(), looked.labels))
    for (graph, family, backbone), parts in found.items():
        equations = Equations.mean(part[0] for part in parts)
        between = float(np.mean([part[1] for part in parts]))
        labels = min(part[2] for part in parts)
        yield Setting(graph, family, backbone, len(parts), labels, equations, between, facts or {})


def read_run(path: str | os.PathLike[str]) -> PastRun:
    """Read a past run from an npz file.

    It holds ``logits``, ``y``, ``edge_index`` and ``calibration``, and may hold ``train``, and the
    words ``graph``, ``backbone`` and ``family``; the graph's name is by default the file's.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = [n for n in ("logits", "y", "edge_index", "calibration") if n not in arrays]
    if missing:
        raise ValueError(
            f"{os.fspath(path)} lacks {', '.join(missing)}; it holds {', '.join(arrays) or 'none'}"
        )
    name = os.path.splitext(os.path.basename(path))[0]
    return PastRun(
        graph_name=str(arrays.get("graph", name)),
        backbone=str(arrays.get("backbone", "?")),
        family=str(arrays.get("family", "")),
        logits=torch.from_numpy(arrays["logits"]),
        y=arrays["y"],
        graph=arrays["edge_index"],
        calibration=arrays["calibration"],
        train=arrays.get("train"),
    )
