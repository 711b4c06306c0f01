"""Thresholds that hold a guarantee for a finite number of labels, and groups that each have one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.validation import as_numpy

ROUNDING = 1e-12
LEVEL_SLACK = 1e-7
"""Taken off the level of a linear programme: of two thresholds that keep it, the smaller."""


def rank(count: int, level: float) -> int:
    """Which of ``count`` sorted scores is the threshold: ⌈(count + 1) · level⌉, exactly."""
    # 0.9 is meant as nine tenths, not as the nearest binary fraction.
    return math.ceil((count + 1) * Fraction(repr(float(level))))


def labels_needed(level: float) -> int:
    """The smallest number of labels for which a threshold at ``level`` exists."""
    exact = Fraction(repr(float(level)))
    return math.ceil(exact / (1 - exact))


def conformal_quantile(scores: Floats, level: float, weights: Floats | None = None) -> float:
    """The threshold under which a new score falls with probability ``level`` at least.

    If the new score and the given ones may have come in any order with equal probability, it is
    among the ``rank`` smallest with probability rank / (count + 1). Infinite if there are too few.
    With weights a score counts for several, and the new one for as many as they do on average.
    """
    position = rank(len(scores), level)
    if position > len(scores):
        return math.inf
    if weights is None:
        return float(np.partition(scores, position - 1)[position - 1])
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    needed = level * reached[-1] * (1 + 1 / len(scores))
    place = int(np.searchsorted(reached, needed * (1 - ROUNDING)))
    return float(scores[order[min(place, len(scores) - 1)]])


def group_quantiles(
    scores: Floats, groups: Ints, num_groups: int, level: float, weights: Floats | None = None
) -> Floats:
    """The `conformal_quantile` of every group by itself (Mondrian conformal prediction)."""
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.searchsorted(groups[order], np.arange(1, num_groups)))
    given = [None if weights is None else weights[part] for part in parts]
    pairs = zip(parts, given, strict=True)
    return np.array([conformal_quantile(scores[part], level, own) for part, own in pairs])


def overlapping_quantile(
    scores: Floats, members: Bools, member: Bools, level: float, weights: Floats | None = None
) -> float:
    """The threshold of a node in several groups at once, so that each of them is covered.

    Gibbs, Cherian and Candès (2023): the level-quantile of the scores as a linear function of the
    memberships, fitted on the labelled nodes *and* the new one with whatever score it may have. The
    threshold is the largest score at which the new node still lies below its own fit; pushing that
    score to infinity leaves one linear programme, whose dual is solved here,

        max Σ s_i η_i  subject to  Σ η_i φ_i = −level · w φ,  (level − 1) w_i ≤ η_i ≤ level · w_i,

    with φ the memberships (and 1, for all nodes together) and w the weights, of the new node their
    mean. For groups that do not overlap it is the `conformal_quantile` of the group (where weights
    differ, but for the weight of the new node). No solution means too few labels: infinite.
    """
    level = level - LEVEL_SLACK
    phi = sp.csr_matrix(np.column_stack([np.ones(len(scores)), members]).T)
    own = np.concatenate([[1.0], member.astype(np.float64)])
    w = np.ones(len(scores)) if weights is None else weights / weights.mean()
    bounds = np.column_stack([(level - 1.0) * w, level * w])
    found = linprog(-scores, A_eq=phi, b_eq=-level * own, bounds=bounds, method="highs")
    if found.status == 2:
        return math.inf
    if found.status != 0:
        raise RuntimeError(f"the linear programme of a threshold failed: {found.message}")
    return float(-own @ found.eqlin.marginals)


def quantile_edges(values: Array, groups: int) -> Floats:
    """Inner edges that cut ``values`` into about equal parts; equal values stay together."""
    ordered = np.sort(values)
    cuts = [len(ordered) * g // groups for g in range(1, groups)]
    # An edge is the first value of the upper part; one at the bottom would cut off nothing.
    return np.unique(ordered[[c for c in cuts if ordered[c] > ordered[0]]]).astype(np.float64)


def degree_groups(graph: Graph, edges: Floats) -> Ints:
    """Which part of the degrees a node's lies in."""
    return np.searchsorted(edges, graph.degree.numpy(), side="right")


def read_groups(groups: object, num_nodes: int) -> Array:
    """Check what users pass: one whole number per node, or a boolean matrix of memberships."""
    array = as_numpy(groups, "groups")
    if array.ndim not in (1, 2) or array.shape[0] != num_nodes:
        raise ValueError(
            f"groups have shape {list(array.shape)}; expected one group per node [{num_nodes}] "
            f"or memberships [{num_nodes}, groups]"
        )
    if array.ndim == 2:
        if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise ValueError("memberships must be true or false: does a node belong to a group?")
        return array.astype(np.bool_)
    if array.dtype.kind not in "iub":
        raise TypeError(f"groups must be whole numbers, one per node; got {array.dtype}")
    return array.astype(np.int64)
