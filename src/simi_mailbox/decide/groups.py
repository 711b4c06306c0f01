"""Groups of nodes, each with its target coverage: by degree, by neighbourhood, or given."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
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
