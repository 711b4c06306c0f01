"""Groups of nodes, each with its target coverage: by degree, by neighbourhood, or given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.decide.neighbours import neighbour_means
from simi_mailbox.decide.scores import ScoredNodes
from simi_mailbox.graph import Graph


def quantile_edges(values: npt.NDArray[Any], groups: int) -> Floats:
    """Inner edges that cut ``values`` into about equal parts; equal values stay together."""
    ordered = np.sort(values)
    cuts = [len(ordered) * g // groups for g in range(1, groups)]
    # An edge is the first value of the upper part; one at the bottom would cut off nothing.
    return np.unique(ordered[[c for c in cuts if ordered[c] > ordered[0]]]).astype(np.float64)


def degree_groups(graph: Graph, edges: Floats) -> Ints:
    """Which part of the degrees a node's lies in."""
    return np.searchsorted(edges, graph.degree.numpy(), side="right")


def mailbox_coordinates(nodes: ScoredNodes) -> tuple[Floats, Floats]:
    """Confidence of every node, and the agreement to be expected with its neighbours.

    The agreement is the mean over neighbours j of Σ_k p_ik p_jk, the probability that two nodes
    drawn from their probabilities are of one class: the mailbox of probabilities, which needs no
    logits and does not feel their arbitrary offset. A node without neighbours has none, 0.
    """
    assert nodes.graph is not None
    n = len(nodes.probs)
    means = neighbour_means(nodes.graph, nodes.probs)
    confidence, alike = np.empty(n), np.empty(n)
    for rows in nodes.row_blocks():
        p = nodes.probs[rows].astype(np.float64)
        confidence[rows] = p.max(axis=1)
        alike[rows] = np.einsum("nk,nk->n", p, means(rows))
    alike[nodes.graph.degree.numpy() == 0] = 0.0
    return confidence, alike


def mailbox_edges(nodes: ScoredNodes) -> Floats:
    """Median confidence, and the median agreement of the nodes below and above it."""
    confidence, alike = mailbox_coordinates(nodes)
    median = np.median(confidence)
    above = confidence >= median
    halves = [np.median(alike[part]) if part.any() else 0.0 for part in (~above, above)]
    return np.array([median, *halves])


def mailbox_groups(nodes: ScoredNodes, edges: Floats) -> Ints:
    """0, 1: unconfident nodes with low, high neighbour agreement; 2, 3: confident ones."""
    confidence, alike = mailbox_coordinates(nodes)
    above = (confidence >= edges[0]).astype(np.int64)
    return np.asarray(2 * above + (alike >= edges[1:][above]))


def read_groups(groups: Any, num_nodes: int) -> npt.NDArray[Any]:
    """Check what users pass: one whole number per node, or a boolean matrix of memberships."""
    array = groups.detach().cpu().numpy() if isinstance(groups, Tensor) else np.asarray(groups)
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
