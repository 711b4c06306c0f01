"""What a report is made from, checked at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from simi_mailbox.analysis.judged import IntArray, as_numpy, read_labels, read_nodes
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.inputs import read_logits


@dataclass(frozen=True)
class ReportInputs:
    """Checked input; what was not given is None.

    Attributes
    ----------
    logits : Tensor [n, K]
    graph : Graph or None
    calibration, test, train : int64 arrays or None
        Node numbers.
    calibration_labels, test_labels : int64 arrays or None
        Labels of just those nodes; no other label is kept.
    labels : int64 [n] or None
        Labels that methods may be fitted with: of calibration and training nodes, −1 elsewhere.
    class_names : tuple of str
    """

    logits: Tensor
    graph: Graph | None
    calibration: IntArray | None
    calibration_labels: IntArray | None
    test: IntArray | None
    test_labels: IntArray | None
    train: IntArray | None
    labels: IntArray | None
    class_names: tuple[str, ...]

    @property
    def num_nodes(self) -> int:
        return int(self.logits.shape[0])

    @property
    def num_classes(self) -> int:
        return int(self.logits.shape[1])

    @property
    def shown(self) -> IntArray:
        """Nodes that the pictures are about: those judged on, or all if none were named."""
        return np.arange(self.num_nodes, dtype=np.int64) if self.test is None else self.test


def read_inputs(
    logits: Any,
    graph: Any = None,
    y: Any = None,
    calibration: Any = None,
    test: Any = None,
    train: Any = None,
    class_names: Sequence[str] | None = None,
) -> ReportInputs:
    """Check what a report is made from.

    Raises
    ------
    ValueError, TypeError
        If something has the wrong shape, or if a node is both calibrated and judged on.
    """
    z = read_logits(logits)
    n, k = int(z.shape[0]), int(z.shape[1])
    nodes = {
        "calibration": _nodes(calibration, n, "calibration"),
        "test": _nodes(test, n, "test"),
        "train": _nodes(train, n, "train"),
    }
    for name in ("calibration", "train"):
        both = _overlap(nodes[name], nodes["test"])
        if both.size:
            raise ValueError(
                f"{both.size} nodes are both in {name} and in test (node {both[0]} is the first); "
                "a model looks better than it is on nodes it was fitted to: take them out of one "
                "of the two"
            )
    labels = _labels(y, nodes, n, k)
    names = _class_names(class_names, k)
    return ReportInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, n),
        calibration=nodes["calibration"],
        calibration_labels=_cut(labels, nodes["calibration"]),
        test=nodes["test"],
        test_labels=_cut(labels, nodes["test"]),
        train=nodes["train"],
        labels=_hide(labels, nodes["test"]),
        class_names=names,
    )


def _nodes(given: Any, n: int, name: str) -> IntArray | None:
    if given is None:
        return None
    try:
        index = read_nodes(given, n)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name}: {error}") from error
    if index.size == 0:
        raise ValueError(f"{name} names no node; leave it out if there is none")
    return index


def _overlap(first: IntArray | None, second: IntArray | None) -> IntArray:
    if first is None or second is None:
        return np.empty(0, dtype=np.int64)
    return np.intersect1d(first, second)


def _labels(y: Any, nodes: dict[str, IntArray | None], n: int, k: int) -> IntArray | None:
    if y is None:
        return None
    given = as_numpy(y)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (n,):
        raise ValueError(
            f"labels have shape {list(given.shape)}; expected one per node, [{n}] (labels of "
            "nodes that are neither calibrated nor judged on may hold anything)"
        )
    if given.dtype.kind == "f":
        whole = np.concatenate([given[index] for index in nodes.values() if index is not None])
        if not np.array_equal(whole, np.rint(whole)):
            raise ValueError("labels must be whole numbers: class indices 0..K-1")
    elif given.dtype.kind not in "iu":
        raise TypeError(f"labels must be whole numbers, got an array of {given.dtype}")
    kept = np.full(n, -1, dtype=np.int64)
    for name, index in nodes.items():
        if index is not None:
            try:
                kept[index] = read_labels(given, index, n, k)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
    return kept


def _hide(labels: IntArray | None, index: IntArray | None) -> IntArray | None:
    if labels is None or index is None:
        return labels
    hidden = labels.copy()
    hidden[index] = -1
    return hidden


def _cut(labels: IntArray | None, index: IntArray | None) -> IntArray | None:
    return None if labels is None or index is None else labels[index]


def _class_names(given: Sequence[str] | None, k: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(c) for c in range(k))
    if isinstance(given, str) or len(given) != k:
        raise ValueError(f"class_names must hold {k} names, got {given!r:.80}")
    return tuple(str(name) for name in given)
