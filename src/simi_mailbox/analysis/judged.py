"""The nodes a picture is about: the confidence of each, and whether it was right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.validation import as_numpy, read_classes, read_index, read_probabilities


@dataclass(frozen=True)
class Judged:
    """Confidence, predicted class and correctness of the nodes that are judged.

    Attributes
    ----------
    nodes : int64 [m]
        Their numbers in the graph.
    confidence : float64 [m]
        Probability of the predicted class.
    predicted : int64 [m]
        Predicted class.
    correct : float64 [m]
        1 where the prediction is right, 0 where it is wrong, NaN where no label is known: every
        accuracy drawn from it is then NaN too, and what needs no label is still there.
    num_nodes : int
        All nodes of the graph, judged or not.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> judged = analysis.judge([[0.9, 0.1], [0.8, 0.2]], [0, 1])
    >>> judged.confidence.tolist(), judged.correct.tolist()
    ([0.9, 0.8], [1.0, 0.0])
    """

    nodes: Ints
    confidence: Floats
    predicted: Ints
    correct: Floats
    num_nodes: int

    def __len__(self) -> int:
        return int(self.nodes.size)


def judge(probs: Any, y: Any, nodes: Any = None) -> Judged:
    """Read off confidence and correctness of ``nodes``.

    Parameters
    ----------
    probs : array [n, K]
        Probabilities of all nodes, NumPy or torch.
    y : array [n] or [m], or None
        Labels, of all nodes or of ``nodes`` only. Labels of other nodes are not looked at.
    nodes : array, optional
        The nodes to judge: boolean [n] or indices [m]; all nodes if not given.

    Examples
    --------
    >>> judged = judge(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    >>> judged.confidence.tolist(), judged.correct.tolist()
    ([0.9, 0.6], [1.0, 0.0])
    """
    rows = judged_rows(probs, y, nodes)
    predicted = rows.probs.argmax(axis=1).astype(np.int64)
    confidence = np.take_along_axis(rows.probs, predicted[:, None], axis=1)[:, 0]
    correct = np.full(rows.nodes.size, np.nan)
    if rows.labels is not None:
        correct = (rows.labels == predicted).astype(np.float64)
    confidence = np.minimum(confidence.astype(np.float64), 1.0)
    return Judged(rows.nodes, confidence, predicted, correct, rows.num_nodes)


class Rows(NamedTuple):
    """Probabilities and labels (None if not known) of the nodes that are judged."""

    nodes: Ints
    probs: Array
    labels: Ints | None
    num_nodes: int

    @property
    def known_labels(self) -> Ints:
        """The labels, for what is not defined without them."""
        if self.labels is None:
            raise ValueError("this needs labels: pass y")
        return self.labels


def judged_rows(probs: Any, y: Any, nodes: Any) -> Rows:
    """Check what `judge` is given and cut it down to ``nodes``."""
    p = as_numpy(probs)
    n = len(p) if p.ndim else 0
    index = np.arange(n) if nodes is None else read_index(nodes, n, "nodes", empty=True)
    chosen = read_probabilities(p, index)
    labels = None if y is None else read_classes(y, index, *p.shape, only_these=True)
    return Rows(index, chosen, labels, n)


def class_labels(names: Sequence[str] | None, classes: int) -> list[str]:
    """Name of each class; its number if none are given."""
    labels = [str(k) for k in range(classes)] if names is None else list(names)
    if len(labels) != classes:
        raise ValueError(f"got {len(labels)} class names for {classes} classes")
    return labels


def per_node(values: Any, judged: Judged, name: str) -> Floats:
    """Values of the judged nodes, given for all nodes or for the judged ones only."""
    array = as_numpy(values).astype(np.float64)
    if array.ndim != 1 or array.size not in (judged.num_nodes, len(judged)):
        raise ValueError(
            f"{name} has shape {list(array.shape)}; expected one value per node "
            f"({judged.num_nodes}) or per judged node ({len(judged)})"
        )
    return array[judged.nodes] if array.size == judged.num_nodes else array


def judged_similarity(
    probs: Any, y: Any, similarity: Any, nodes: Any
) -> tuple[Judged, Floats, Bools]:
    """The judged nodes, their neighbourhood similarity, and which of them have one."""
    judged = judge(probs, y, nodes)
    s = per_node(similarity, judged, "similarity")
    outside = (s < 0) | (s > 1)
    if outside.any():
        raise ValueError(
            f"similarity must lie between 0 and 1, got {s[outside][0]:.4g}; "
            "pass the share of agreeing neighbours (neighbour_agreement)"
        )
    return judged, s, ~np.isnan(s)
