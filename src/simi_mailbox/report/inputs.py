"""What a report is made from, checked at the door."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.graph import as_graph
from simi_mailbox.inputs import NO_LABEL, NodeInputs, read_classes, read_index, read_logits


@dataclass(frozen=True, kw_only=True)
class ReportInputs(NodeInputs):
    """Checked input: logits and graph of all nodes, and what follows; None if it was not given.

    Attributes
    ----------
    calibration, test, train : int64 arrays or None
        Node numbers.
    calibration_labels, test_labels : int64 arrays or None
        Labels of just those nodes; no other label is kept.
    labels : int64 [n] or None
        Labels that methods may be fitted with: of calibration and training nodes, −1 elsewhere.
    class_names : tuple of str
    """

    calibration: Ints | None
    calibration_labels: Ints | None
    test: Ints | None
    test_labels: Ints | None
    train: Ints | None
    labels: Ints | None
    class_names: tuple[str, ...]

    @property
    def shown(self) -> Ints:
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
    given = {"calibration": calibration, "test": test, "train": train}
    nodes = {
        name: None if index is None else read_index(index, n, name) for name, index in given.items()
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


def _overlap(first: Ints | None, second: Ints | None) -> Ints:
    if first is None or second is None:
        return np.empty(0, dtype=np.int64)
    return np.intersect1d(first, second)


def _labels(y: Any, nodes: dict[str, Ints | None], n: int, k: int) -> Ints | None:
    if y is None:
        return None
    kept = np.full(n, NO_LABEL, dtype=np.int64)
    nobody = np.empty(0, dtype=np.int64)  # the shape of labels is checked even if none is read
    for name, index in nodes.items():
        read = nobody if index is None else index
        kept[read] = read_classes(y, read, n, k, of=name)
    return kept


def _hide(labels: Ints | None, index: Ints | None) -> Ints | None:
    if labels is None or index is None:
        return labels
    hidden = labels.copy()
    hidden[index] = NO_LABEL
    return hidden


def _cut(labels: Ints | None, index: Ints | None) -> Ints | None:
    return None if labels is None or index is None else labels[index]


def _class_names(given: Sequence[str] | None, k: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(c) for c in range(k))
    if isinstance(given, str) or len(given) != k:
        raise ValueError(f"class_names must hold {k} names, got {given!r:.80}")
    return tuple(str(name) for name in given)
