"""The door of self-training: what a user passes is checked and cut down here, once."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from simi_mailbox._arrays import Ints
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.validation import NO_LABEL, read_classes, read_features
from simi_mailbox_bench.backbones.features import from_torch
from simi_mailbox_bench.datasets.split import Split, split_labels


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph whose nodes are to be labelled.

    ``y`` is -1 wherever a label may not be read, so that reading one is impossible. ``truth`` is
    for the record alone.
    """

    x: Any
    graph: Graph
    y: Ints
    split: Split
    num_classes: int
    truth: Ints | None

    @property
    def num_nodes(self) -> int:
        return int(self.y.size)


def read_problem(
    x: Any,
    graph: Any,
    y: Any,
    split: Split,
    num_classes: int | None,
    labels_per_class: int | None,
    truth: Any,
) -> Problem:
    """Check everything that describes the graph, and blank out the labels not to be read."""
    if not isinstance(split, Split):
        raise TypeError(f"split must be a datasets.Split, got {type(split).__name__}")
    features = None if x is None else _features(x)
    n = len(y) if features is None else int(features.shape[0])
    split.check(n)
    neighbourhoods = as_graph(graph, n)
    labels, classes = split_labels(y, split, n, num_classes)
    known = None if truth is None else read_classes(truth, np.arange(n), n, name="truth")
    problem = Problem(features, neighbourhoods, labels, split, classes, known)
    return problem if labels_per_class is None else _fewer(problem, labels_per_class)


def _features(x: Any) -> Any:
    """Features [n, d], dense as NumPy or sparse as SciPy."""
    given = x if sp.issparse(x) or isinstance(x, Tensor) else np.asarray(x)
    if not isinstance(given, Tensor) and given.dtype.kind not in "fiub":
        raise TypeError(f"features must be numbers, got an array of {given.dtype}")
    if given.ndim != 2:
        raise ValueError(f"features must have shape [nodes, features], got {list(given.shape)}")
    read = read_features(given, int(given.shape[0]))
    return from_torch(read) if isinstance(given, Tensor) else given


def _fewer(problem: Problem, per_class: int) -> Problem:
    """The same problem with ``per_class`` training nodes of each class; the others are free."""
    split, y = problem.split, problem.y.copy()
    chosen = first_per_class(y, split.train, per_class, problem.num_classes)
    y[np.setdiff1d(split.train, chosen)] = NO_LABEL
    return replace(problem, y=y, split=Split(chosen, split.val, split.test))


def first_per_class(y: Any, nodes: Any, per_class: int, num_classes: int | None = None) -> Ints:
    """First ``per_class`` nodes of every class among ``nodes``; too few of a class is an error.

    Parameters
    ----------
    y : array [n]
        Labels; only those of ``nodes`` are read.
    nodes : array
        Node numbers, in the order in which they are taken.
    per_class
        How many of each class.
    num_classes
        Classes are 0..num_classes-1; up to the highest that occurs, by default.

    Examples
    --------
    >>> first_per_class([0, 1, 0, 1, 0], [0, 1, 2, 3, 4], per_class=2).tolist()
    [0, 1, 2, 3]
    """
    if not isinstance(per_class, numbers.Integral):
        raise TypeError(f"labels_per_class must be a whole number, got {per_class!r}")
    if per_class < 1:
        raise ValueError(f"labels_per_class must be at least 1, got {per_class}")
    index = np.asarray(nodes, dtype=np.int64)
    labels = np.asarray(y)[index]
    chosen = []
    for label in range(int(labels.max()) + 1 if num_classes is None else num_classes):
        members = index[labels == label]
        if members.size < per_class:
            raise ValueError(
                f"labels_per_class={per_class}, but class {label} has only {members.size} labelled "
                "training nodes; ask for fewer or label more nodes"
            )
        chosen.append(members[:per_class])
    return np.sort(np.concatenate(chosen))
