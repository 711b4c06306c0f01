"""One type of the nodes of a ``HeteroData``: its attributes, and the edges among its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from simi_mailbox.graph import Graph

EdgeType: TypeAlias = tuple[str, ...]
MetaPath: TypeAlias = Sequence[EdgeType]


def is_hetero(data: Any) -> bool:
    """Whether this is a ``HeteroData``."""
    return hasattr(data, "edge_index_dict")


def part_of(data: Any, node_type: str | None, metapath: MetaPath | None) -> Any:
    """What a calibrator sees of a ``HeteroData``; a ``Data`` as it is."""
    if not is_hetero(data):
        return data
    if node_type is None:
        raise TypeError(
            f"this {type(data).__name__} has several types of nodes: say which one is classified, "
            f"node_type=…, one of {', '.join(data.node_types)}"
        )
    if node_type not in data.node_types:
        known = ", ".join(data.node_types)
        raise ValueError(f"no nodes are of type {node_type!r}; node_type is one of {known}")
    store = data[node_type]
    graph = graph_among(data.edge_index_dict, node_type, int(store.num_nodes), metapath)
    return SimpleNamespace(
        **dict(store.items()), edge_index=graph.edge_index(), num_nodes=store.num_nodes
    )


def graph_among(
    edges: Mapping[Any, Any], node_type: str, num_nodes: int, metapath: MetaPath | None
) -> Graph:
    """The edges among the nodes of one type: all that there are, or those along a path of types.

    Parameters
    ----------
    edges : mapping
        From (source type, relation, target type) to an edge index [2, E].
    metapath : sequence of (source type, target type) or edge types, optional
        As of PyG's ``AddMetaPaths``.
    """
    if metapath is not None:
        return _along(edges, node_type, num_nodes, metapath)
    own = [index for (source, *_, target), index in edges.items() if source == target == node_type]
    if not own:
        between = {
            kind[0] for kind in edges if kind[-1] == node_type
        } & {kind[-1] for kind in edges if kind[0] == node_type}  # fmt: skip
        example = sorted(between)[0] if between else "other"
        raise TypeError(
            f"no edges join nodes of type {node_type!r}: say along which types they are "
            f"neighbours, metapath=[({node_type!r}, {example!r}), ({example!r}, {node_type!r})]"
        )
    return Graph.from_edges(np.concatenate([np.asarray(i.cpu()) for i in own], 1), num_nodes)


def _along(edges: Mapping[Any, Any], node_type: str, num_nodes: int, metapath: MetaPath) -> Graph:
    if not metapath or metapath[0][0] != node_type or metapath[-1][-1] != node_type:
        raise ValueError(f"metapath must begin and end with {node_type!r}, got {metapath}")
    sizes: dict[str, int] = {}
    for kind, index in edges.items():
        for side, name in ((0, kind[0]), (1, kind[-1])):
            highest = int(index[side].max()) + 1 if index.numel() else 0
            sizes[name] = max(sizes.get(name, 0), highest)
    sizes[node_type] = num_nodes
    reached = scipy.sparse.identity(num_nodes, format="csr", dtype=bool)
    for step in metapath:
        found = [
            np.asarray(index.cpu())
            for kind, index in edges.items()
            if tuple(kind) == tuple(step) or (len(step) == 2 and (kind[0], kind[-1]) == tuple(step))
        ]
        if not found:
            known = ", ".join(map(str, edges))
            raise ValueError(f"metapath names edges {tuple(step)}, but there are only {known}")
        source, target = np.concatenate(found, axis=1)
        shape = (sizes[step[0]], sizes[step[-1]])
        one = np.ones(len(source), dtype=bool)
        reached = reached @ scipy.sparse.csr_array((one, (source, target)), shape=shape)
    return Graph.from_scipy(reached.T)
