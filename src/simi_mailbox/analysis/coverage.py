"""Conditional coverage of prediction sets: by degree, mailbox, class and size of the set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox._arrays import Bools, Ints
from simi_mailbox.analysis.breakdown import degree_slices
from simi_mailbox.analysis.judged import class_labels
from simi_mailbox.graph import as_graph
from simi_mailbox.mailbox import mailbox
from simi_mailbox.metrics import GroupCoverage, coverage_by_group
from simi_mailbox.metrics.sets import check_sets
from simi_mailbox.validation import read_classes, read_index, read_probabilities

MAILBOX_GROUPS = ("low / low", "low / high", "high / low", "high / high")
"""Confidence / neighbour agreement."""


@dataclass(frozen=True)
class CoverageBreakdown:
    """Coverage in slices of the judged nodes.

    Attributes
    ----------
    by : str
        What the slices are made by.
    labels : tuple of str
        Name of each slice that has nodes.
    found : GroupCoverage
        Their counts and coverages with exact intervals; the worst, and what chance would make it.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> covered_by_size(sets, [0, 1, 1]).worst
    '1'
    """

    by: str
    labels: tuple[str, ...]
    found: GroupCoverage

    @property
    def worst(self) -> str:
        """Name of the slice that is covered least."""
        return self.labels[int(self.found.coverage.argmin())]

    @property
    def significant(self) -> bool:
        """Whether some slice is covered less than chance makes the worst of so many."""
        return self.found.worst_p_value < 1.0 - self.found.level


def covered_by_degree(sets: Any, y: Any, graph: Any, *, nodes: Any = None) -> CoverageBreakdown:
    """Slices of equal number of neighbours: 0, 1, 2, 3–4, 5–8, …

    Parameters
    ----------
    sets : array of bool [n, K]
        Prediction sets of all nodes.
    y : array [n] or [m]
        Labels, of all nodes or of ``nodes`` only. Labels of other nodes are not looked at.
    graph
        A `Graph` or anything that `as_graph` reads.
    nodes : array, optional
        The nodes to judge: boolean [n] or indices [m]; all nodes if not given.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [False, True]])
    >>> table = covered_by_degree(sets, [0, 1, 1], np.array([[0, 1], [1, 2]]))
    >>> table.labels, table.found.coverage.tolist()
    (('1', '2'), [1.0, 0.0])
    """
    judged = _Judged.of(sets, y, nodes)
    labels, slices = degree_slices(as_graph(graph, len(judged.all)), judged.nodes)
    return judged.table("degree", labels, slices)


def covered_by_class(
    sets: Any, y: Any, *, nodes: Any = None, class_names: Sequence[str] | None = None
) -> CoverageBreakdown:
    """Slices of equal true class.

    Parameters
    ----------
    sets, y, nodes
        As in `covered_by_degree`.
    class_names : sequence of str, optional
        Name of each class; its number if not given.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [False, True]])
    >>> covered_by_class(sets, [0, 1, 1], class_names=["cat", "dog"]).found.coverage.tolist()
    [1.0, 0.5]
    """
    judged = _Judged.of(sets, y, nodes)
    return judged.table("class", class_labels(class_names, judged.all.shape[1]), judged.y)


def covered_by_size(sets: Any, y: Any, *, nodes: Any = None) -> CoverageBreakdown:
    """Slices of equal size of the set: large sets should cover no more often than small ones.

    Parameters: sets, y, nodes as in `covered_by_degree`.

    Examples
    --------
    >>> sets = np.array([[True, False], [True, False], [True, True]])
    >>> table = covered_by_size(sets, [0, 1, 1])
    >>> table.labels, table.found.coverage.tolist()
    (('1', '2'), [0.5, 1.0])
    """
    judged = _Judged.of(sets, y, nodes)
    sizes = judged.all[judged.nodes].sum(axis=1)
    return judged.table("size", [str(s) for s in range(judged.all.shape[1] + 1)], sizes)


def covered_by_mailbox(
    sets: Any, y: Any, probs: Any, graph: Any, *, nodes: Any = None
) -> CoverageBreakdown:
    """Slices of low and high confidence, each with low and high neighbour agreement.

    Halves by confidence, and each of them by the probability that a neighbour is of one class with
    the node, as ``PredictionSets(condition_on="mailbox")`` makes them.

    Parameters
    ----------
    sets, y, graph, nodes
        As in `covered_by_degree`.
    probs : array [n, K]
        Probabilities of all nodes.

    Examples
    --------
    >>> p = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    >>> sets = p > 0.3
    >>> table = covered_by_mailbox(sets, [0, 0, 0, 1], p, np.array([[0, 1, 2], [1, 0, 3]]))
    >>> table.labels[0], table.found.coverage.tolist()
    ('low / high', [0.5, 1.0])
    """
    judged = _Judged.of(sets, y, nodes)
    p = read_probabilities(probs)
    confidence = p.max(axis=1)
    links = as_graph(graph, len(p))
    alike = mailbox(torch.from_numpy(np.asarray(p, dtype=np.float64)), links).numpy().copy()
    alike[links.degree.numpy() == 0] = 0.0
    above = confidence >= np.median(confidence)
    medians = [np.median(alike[part]) if part.any() else 0.0 for part in (~above, above)]
    place = 2 * above + (alike >= np.array(medians)[above.astype(int)])
    return judged.table("mailbox", MAILBOX_GROUPS, place[judged.nodes])


@dataclass(frozen=True)
class _Judged:
    all: Bools
    nodes: Ints
    y: Ints

    @classmethod
    def of(cls, sets: Any, y: Any, nodes: Any) -> _Judged:
        array = check_sets(sets)
        n, k = array.shape
        index = np.arange(n) if nodes is None else read_index(nodes, n, "nodes")
        return cls(array, index, read_classes(y, index, n, k, of="nodes", only_these=True))

    def table(self, by: str, labels: Sequence[str], slices: Ints) -> CoverageBreakdown:
        found = coverage_by_group(self.all[self.nodes], self.y, slices)
        return CoverageBreakdown(by, tuple(labels[int(g)] for g in found.groups), found)
