"""From past graphs, whose labels are all known, to the settings of a corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.grouping import find_groups
from simi_mailbox.inputs import (
    CalibrationData,
    Labelled,
    read_index,
    read_labels,
    read_nodes,
)
from simi_mailbox.mailbox import mailbox
from simi_mailbox.prior.baseline import Baseline, degree_terms, error_rate, fit_baseline
from simi_mailbox.prior.between import between_groups
from simi_mailbox.prior.corpus import NUMBERS, VAGUE, Setting
from simi_mailbox.softmax import confidence
from simi_mailbox.temperature import global_temperature

GROUPS = 20
"""As many as `SimiMailbox` makes by default."""
VARIANCE_FLOOR = 0.005
"""Added to c(1 − c) where nodes are weighted by their precision: none counts for a thousand."""


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


@dataclass(frozen=True, eq=False)
class Looked:
    """What went wrong on the nodes of a past run that were neither trained nor calibrated on.

    Attributes
    ----------
    confidence, residual : arrays
        Of these nodes, after the baseline that the calibration nodes gave: confidence and
        correct − confidence.
    group : array
        Group as `SimiMailbox` makes them.
    plain_confidence, plain_residual : arrays
        The same after temperature scaling.
    similarity, degree : arrays
        Mailbox and number of neighbours.
    labels : int
        Number of calibration nodes.
    error : float
        Their error rate, as expected after temperature scaling.
    many, few, blind : float
        Of the baseline that fits these nodes themselves.
    """

    confidence: Floats
    residual: Floats
    group: npt.NDArray[np.int64]
    plain_confidence: Floats
    plain_residual: Floats
    similarity: Floats
    degree: npt.NDArray[np.int64]
    labels: int
    error: float
    many: float
    few: float
    blind: float

    def luck(self) -> tuple[float, float]:
        """Weighted means of residual × e c / n and of (e c / n)²; a sure node weighs more."""
        term = self.error * self.confidence / self.labels
        weight = 1.0 / (self.confidence * (1.0 - self.confidence) + VARIANCE_FLOOR)
        weight /= weight.sum()
        return float(weight @ (term * self.residual)), float(weight @ term**2)

    def between(self) -> tuple[float, float]:
        """Variance between groups, and of one node's residual."""
        c = self.confidence
        variance = c * (1.0 - c)
        count, total, spread = (
            np.bincount(self.group, values, minlength=GROUPS).astype(np.float64)
            for values in (np.ones(len(c)), self.residual, variance)
        )
        return between_groups(total, spread, count)[0], float(variance.mean())


def look_at(run: PastRun) -> Looked:
    """What one run teaches.

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> p = calibration_problem(500, 3, seed=0)
    >>> len(look_at(PastRun("a", "gcn", p.logits, p.y, p.graph, range(100))).residual)
    400
    """
    # Imported here: the calibrators import the prior.
    run = checked(run)
    y, z = run.y, run.logits
    index = torch.from_numpy(run.calibration)
    labelled = Labelled(index, torch.from_numpy(y)[index])
    data = CalibrationData(z, run.graph, calibration=labelled)
    judged = unseen(run)
    graph = data.neighbourhoods
    temperature = global_temperature(data.calibration_logits, labelled.y)[0]
    terms = degree_terms(graph)
    means = terms.mean(dim=0)
    centred = terms - means

    def fitted(index: Tensor, labels: Tensor) -> tuple[Baseline, float]:
        return fit_baseline(z[index], labels, centred[index], temperature, VAGUE)

    theirs, _ = fitted(labelled.index, labelled.y)
    others = torch.from_numpy(np.flatnonzero(judged))
    own, blind = fitted(others, torch.from_numpy(y[judged].astype(np.int64)))
    baseline = replace(theirs, mean_many=float(means[0]), mean_few=float(means[1]))
    c = baseline.confidence(z, graph).numpy()
    plain = confidence(z, temperature).numpy()
    right = z.argmax(dim=1).numpy() == y
    points = np.stack([c, mailbox(z, graph).double().numpy()], axis=1)
    group = find_groups(points, min(GROUPS, len(y))).assign(points)
    return Looked(
        confidence=c[judged],
        residual=(right - c)[judged],
        group=group[judged],
        plain_confidence=plain[judged],
        plain_residual=(right - plain)[judged],
        similarity=points[judged, 1],
        degree=graph.degree.numpy()[judged],
        labels=len(labelled),
        error=error_rate(torch.from_numpy(plain[labelled.index.numpy()])),
        many=own.many,
        few=own.few,
        blind=blind,
    )


def checked(run: PastRun) -> PastRun:
    """The same run with tensors, a `Graph` and int64 arrays; what makes no sense is an error.

    Examples
    --------
    >>> run = PastRun("a", "gcn", np.zeros((3, 2)), [0, 1, 5], [[0, 1], [1, 2]], [0])
    >>> checked(run)
    Traceback (most recent call last):
    ...
    ValueError: node 2 of y has label 5, but the logits have classes 0..1
    """
    nodes = read_nodes(frozenset({"graph"}), "a past run", run.logits, run.graph)
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
        train = read_index(run.train, n, "train").numpy()
        both = np.intersect1d(train, calibration)
        if len(both):
            raise ValueError(
                f"{len(both)} nodes, the first is {both[0]}, are in both train and calibration: "
                "a GNN is better on nodes it was trained on than on any other"
            )
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
    )


def unseen(run: PastRun) -> npt.NDArray[np.bool_]:
    """Labelled nodes that the GNN was neither trained nor calibrated on.

    Examples
    --------
    >>> run = PastRun("a", "gcn", None, [0, 1, 0, -1], None, calibration=[1], train=[0])
    >>> unseen(run).tolist()
    [False, False, True, False]
    """
    found: npt.NDArray[np.bool_] = np.asarray(run.y) >= 0
    n = len(found)
    found[read_index(run.calibration, n, "calibration").numpy()] = False
    if run.train is not None and len(run.train):
        found[read_index(run.train, n, "train").numpy()] = False
    if not found.any():
        raise ValueError(
            f"{run.graph_name}: no labelled node is left beside those trained and calibrated on"
        )
    return found


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
    found: dict[tuple[str, str, str], list[tuple[float, ...]]] = defaultdict(list)
    for run in runs:
        seen = look_at(run)
        key = (run.graph_name, run.family or run.graph_name, run.backbone)
        found[key].append(
            (seen.labels, seen.many, seen.few, seen.blind, *seen.luck(), *seen.between())
        )
    for key, parts in found.items():
        labels = int(min(part[0] for part in parts))
        numbers = dict(zip(NUMBERS, np.mean(parts, axis=0)[1:].tolist(), strict=True))
        yield Setting(*key, len(parts), labels, **numbers, facts=facts or {})
