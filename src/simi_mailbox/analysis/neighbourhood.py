"""Features of a node in the graph: agreement with its neighbours, distance to labelled nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.mailbox import agreement
from simi_mailbox.validation import as_numpy, read_index


def neighbour_agreement(predictions: Any, graph: Any) -> Floats:
    """Share of each node's neighbours that are given the same class, s(i) of the paper.

    s(i) = (number of neighbours j of i with ŷ_j = ŷ_i) / (number of neighbours of i)

    It is NaN for a node without neighbours: such a node neither agrees nor disagrees, and the
    tables of this package keep it apart instead of calling it total disagreement.

    Parameters
    ----------
    predictions : array [n] or [n, K]
        Predicted classes, or probabilities or logits from which they are taken.
    graph
        A `Graph`, a PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].

    Examples
    --------
    >>> neighbour_agreement(np.array([0, 0, 1, 1]), np.array([[0, 1], [1, 2]])).tolist()
    [1.0, 0.5, 0.0, nan]
    """
    classes = as_numpy(predictions)
    if classes.ndim == 2:
        classes = classes.argmax(axis=1)
    g = as_graph(graph, classes.size)
    share: Floats = agreement(torch.tensor(classes), g).numpy()
    return np.where(g.degree.numpy() > 0, share, np.nan)


def distance_to(graph: Graph, nodes: Any) -> Ints:
    """Number of steps from the nearest of ``nodes`` to every node; −1 where none leads there.

    Breadth-first search from all of ``nodes`` at once. A step goes from a node to one that lists
    it as a neighbour, the way messages flow, which matters for directed graphs only.

    Parameters
    ----------
    graph : Graph
        The graph.
    nodes : array
        Where to start: boolean [n] or indices.

    Examples
    --------
    >>> path = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=5)
    >>> distance_to(path, [0]).tolist()
    [0, 1, 2, 3, -1]
    """
    n = graph.num_nodes
    start = read_index(nodes, n, "nodes", empty=True)
    reach = sp.csr_array(
        (
            np.ones(graph.num_entries, dtype=np.int32),
            graph.indices.numpy(),
            graph.indptr.numpy(),
        ),
        shape=(n, n),
    )
    distance = np.full(n, -1, dtype=np.int64)
    distance[start] = 0
    frontier = np.zeros(n, dtype=np.int32)
    frontier[start] = 1
    step = 0
    while frontier.any():
        step += 1
        reached = (reach @ frontier > 0) & (distance < 0)
        distance[reached] = step
        frontier = reached.astype(np.int32)
    return distance
