"""One type of the nodes of a ``HeteroData``: its attributes, and the edges among its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from simi_mailbox.graph import Graph

MetaPath: TypeAlias = Sequence[tuple[str, ...]]


def is_hetero(data: Any) -> bool:
    """Whether this is a ``HeteroData``."""
    return hasattr(data, "edge_index_dict")


def part_of(
    data: Any, node_type: str | None, metapath: MetaPath | None, num_nodes: int | None = None
) -> Any:
    """What a calibrator sees of a ``HeteroData`` or its ``edge_index_dict``; others as they are."""
    if isinstance(data, Mapping) and node_type is not None and num_nodes is not None:
        return graph_among(data, node_type, num_nodes, metapath)
    if not is_hetero(data):
        return data
    if node_type is None or node_type not in data.node_types:
        raise ValueError(
            f"this {type(data).__name__} has several types of nodes: say which one is classified, "
            f"node_type=…, one of {', '.join(data.node_types)}; got {node_type!r}"
        )
    store = data[node_type]
    graph = graph_among(data.edge_index_dict, node_type, int(store.num_nodes), metapath)
    own = {**dict(store.items()), "edge_index": graph.edge_index(), "num_nodes": store.num_nodes}
    return SimpleNamespace(**own)


def graph_among(
    edges: Mapping[Any, Any], node_type: str, num_nodes: int, metapath: MetaPath | None
) -> Graph:
    """The edges among the nodes of one type: all that there are, or those along a metapath.

    ``edges`` map (source type, relation, target type) to an edge index [2, E]; steps of the path,
    as of PyG's ``AddMetaPaths``, are such keys or (source type, target type).
    """
    if metapath is None:
        own = _between(edges, (node_type, node_type))
        if own is None:
            others = {kind[0] for kind in edges if kind[-1] == node_type}
            other = min(others & {kind[-1] for kind in edges if kind[0] == node_type} or {"other"})
            raise TypeError(
                f"no edges join nodes of type {node_type!r}: say along which types they are "
                f"neighbours, metapath=[({node_type!r}, {other!r}), ({other!r}, {node_type!r})]"
            )
        return Graph.from_edges(own, num_nodes)
    if not metapath or metapath[0][0] != node_type or metapath[-1][-1] != node_type:
        raise ValueError(f"metapath must begin and end with {node_type!r}, got {metapath}")
    # Large enough for the nodes of every type.
    size = max([num_nodes, *(int(i.max()) + 1 for i in edges.values() if i.numel())])
    reached = scipy.sparse.identity(size, format="csr", dtype=bool)
    for step in metapath:
        found = _between(edges, tuple(step))
        if found is None:
            known = ", ".join(map(str, edges))
            raise ValueError(f"metapath names edges {tuple(step)}, but there are only {known}")
        one = np.ones(found.shape[1], dtype=bool)
        reached = reached @ scipy.sparse.csr_array((one, tuple(found)), shape=(size, size))
    return Graph.from_scipy(reached[:num_nodes, :num_nodes].T)


def _between(edges: Mapping[Any, Any], step: tuple[str, ...]) -> Any:
    """Edges of one type, or of all between two types of nodes; None if there are none."""
    found = [
        np.asarray(index.cpu())
        for kind, index in edges.items()
        if step in (tuple(kind), (kind[0], kind[-1]))
    ]
    return np.concatenate(found, axis=1) if found else None
