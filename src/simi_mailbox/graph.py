"""`Graph`: validated, immutable neighbourhoods in compressed sparse rows (CSR)."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from simi_mailbox._arrays import Ints


class Graph:
    """Neighbourhoods of ``num_nodes`` nodes: row ``i`` lists the neighbours of node ``i``.

    Self-loops are dropped, duplicate edges merged, neighbours sorted. Build one with
    :meth:`from_edges`, :meth:`from_scipy` or :func:`as_graph`; the constructor trusts its input.

    Attributes
    ----------
    indptr, indices : Tensor of int64
        The CSR arrays. They are shared, not copied: treat them as read-only.
    is_directed : bool
        Whether the edges were kept as given instead of being made symmetric.

    Examples
    --------
    >>> graph = Graph.from_edges([[0, 1, 1], [1, 2, 2]], num_nodes=4)
    >>> graph
    Graph(num_nodes=4, num_entries=4)
    >>> graph.neighbours(1).tolist(), graph.degree.tolist()
    ([0, 2], [1, 2, 1, 0])
    """

    indptr: Tensor
    indices: Tensor
    is_directed: bool

    def __init__(self, indptr: Tensor, indices: Tensor, *, is_directed: bool = False) -> None:
        vars(self).update(indptr=indptr, indices=indices, is_directed=is_directed)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Graph is immutable; cannot set {name!r}")

    @classmethod
    def from_edges(
        cls, edge_index: Any, num_nodes: int | None = None, *, directed: bool = False
    ) -> Graph:
        """Build from an edge list of shape [2, E] (NumPy, torch or nested lists).

        Each column ``(j, i)`` says that ``j`` is a neighbour of ``i`` (PyG's source → target).
        Unless ``directed`` is true, the reverse of each edge is added.
        """
        edges = _edge_array(edge_index)
        if num_nodes is None:
            num_nodes = int(edges.max()) + 1 if edges.size else 0
        if not 0 <= num_nodes < 1 << 31:
            raise ValueError(f"a graph in memory has 0 to 2³¹ nodes, got {num_nodes}")
        count, strange = int(num_nodes), ((edges < 0) | (edges >= num_nodes)).any(axis=0)
        if strange.any():
            column = int(strange.argmax())
            raise ValueError(
                f"edge {column} joins nodes {edges[0, column]} and {edges[1, column]}, "
                f"but nodes are numbered 0..{count - 1}"
            )
        source, target = edges[:, edges[0] != edges[1]].astype(np.int32)
        if directed:
            matrix = _pattern(source, target, count).T.tocsr()  # transposing sorts
        else:  # each pair once: half as much to sort
            half = _pattern(np.minimum(source, target), np.maximum(source, target), count)
            matrix = half + half.T.tocsr()
        parts = (torch.from_numpy(part).to(torch.int64) for part in (matrix.indptr, matrix.indices))
        return cls(*parts, is_directed=directed)

    @classmethod
    def from_scipy(cls, matrix: Any, *, directed: bool = False) -> Graph:
        """Build from a square SciPy sparse matrix; entry (i, j) makes ``j`` a neighbour of ``i``.

        Stored zeros are not edges; values are otherwise ignored.
        """
        shape = tuple(matrix.shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(
                f"an adjacency matrix must be square, got {' × '.join(map(str, shape))}; "
                "pass an edge_index of shape [2, E] instead if that is what it is"
            )
        coo = matrix.tocoo()
        stored = np.asarray(coo.data) != 0
        edges = np.stack([np.asarray(coo.col)[stored], np.asarray(coo.row)[stored]])
        return cls.from_edges(edges, shape[0], directed=directed)

    @classmethod
    def empty(cls, num_nodes: int) -> Graph:
        """Build a graph of ``num_nodes`` nodes and no edge."""
        return cls.from_edges(np.empty((2, 0), dtype=np.int64), num_nodes)

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return int(self.indptr.numel()) - 1

    @property
    def num_entries(self) -> int:
        """Number of stored neighbours: twice the number of undirected edges."""
        return int(self.indices.numel())

    @cached_property
    def degree(self) -> Tensor:
        """Number of neighbours of every node."""
        return self.indptr.diff()

    def neighbours(self, node: int) -> Tensor:
        """Neighbours of one node, sorted."""
        return self.indices[int(self.indptr[node]) : int(self.indptr[node + 1])]

    def rows(self) -> Tensor:
        """Row (receiving node) of every stored entry."""
        return torch.repeat_interleave(torch.arange(self.num_nodes), self.degree)

    def edge_index(self) -> Tensor:
        """All entries as a [2, E] edge list, source first; rows are in CSR order."""
        return torch.stack([self.indices, self.rows()])

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for part in (self.indptr, self.indices):
            digest.update(part.contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def fingerprint(self) -> str:
        """Sixteen hex digits that tell two different graphs apart."""
        return self._fingerprint

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return torch.equal(self.indptr, other.indptr) and torch.equal(self.indices, other.indices)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        directed = ", is_directed=True" if self.is_directed else ""
        return f"Graph(num_nodes={self.num_nodes}, num_entries={self.num_entries}{directed})"


def _pattern(rows: Ints, columns: Ints, count: int) -> Any:
    """A SciPy matrix of these entries, each once."""
    entries = np.ones(len(rows), dtype=np.bool_)
    return scipy.sparse.coo_array((entries, (rows, columns)), shape=(count, count)).tocsr()


def as_graph(graph: Any, num_nodes: int) -> Graph:
    """Turn what users have into a `Graph` of exactly ``num_nodes`` nodes.

    ``graph`` is a `Graph`, a PyG ``Data`` (anything with ``edge_index`` or ``adj_t``), a DGL graph
    (anything with ``edges()``), a NetworkX graph (nodes 0..n-1, or else in the order of
    ``graph.nodes``), a SciPy or torch sparse matrix, or an edge index of shape [2, E].
    """
    if isinstance(graph, Graph):
        result = graph
    elif isinstance(graph, Tensor) and graph.layout is not torch.strided:
        result = _from_adjacency(graph)
    elif hasattr(graph, "tocoo") and hasattr(graph, "shape"):
        result = Graph.from_scipy(graph)
    elif hasattr(graph, "edge_index_dict") or len(getattr(graph, "canonical_etypes", ())) > 1:
        raise TypeError(
            f"this {type(graph).__name__} has several kinds of nodes or edges: pass one graph, "
            "such as data.to_homogeneous() or dgl.to_homogeneous(graph), and the logits of its "
            "nodes in that order"
        )
    elif getattr(graph, "edge_index", None) is not None:
        result = Graph.from_edges(graph.edge_index, _size(graph, num_nodes))
    elif getattr(graph, "adj_t", None) is not None:
        result = _from_adjacency(graph.adj_t)
    elif hasattr(graph, "adjacency") and hasattr(graph, "nodes"):
        result = _from_networkx(graph)
    elif callable(getattr(graph, "edges", None)):
        edges = np.stack([np.asarray(ends) for ends in graph.edges()])
        result = Graph.from_edges(edges, _size(graph, num_nodes))
    else:
        result = Graph.from_edges(graph, num_nodes)
    if result.num_nodes != num_nodes:
        raise ValueError(
            f"the graph has {result.num_nodes} nodes but the logits have {num_nodes} rows; "
            "they must describe the same nodes in the same order (outputs per edge or per graph "
            "need a method without graph, such as TemperatureScaling)"
        )
    return result


def _from_adjacency(adjacency: Any) -> Graph:
    """A sparse tensor of torch, or of torch_sparse: entry (i, j) makes j a neighbour of i."""
    if isinstance(adjacency, Tensor):
        coo: Any = adjacency.detach().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
        (rows, columns), values, shape = coo.indices(), coo.values(), coo.shape
    else:
        (rows, columns, values), shape = adjacency.coo(), adjacency.sparse_sizes()
    values = torch.ones(len(rows)) if values is None else values != 0
    entries = (values.cpu().numpy(), (rows.cpu().numpy(), columns.cpu().numpy()))
    return Graph.from_scipy(scipy.sparse.coo_array(entries, shape=shape))


def _from_networkx(graph: Any) -> Graph:
    """Nodes called 0..n-1 are rows; other names count in the order of ``graph.nodes``."""
    names = list(graph.nodes)
    place = {name: row for row, name in enumerate(names)}
    if place.keys() == set(range(len(names))):
        place = {name: name for name in names}
    pairs = [(place[source], place[target]) for source, target in graph.edges()]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Graph.from_edges(edges, len(names))


def _size(graph: Any, otherwise: int) -> int:
    """Number of nodes that a graph of PyG or DGL declares."""
    declared = graph.num_nodes() if callable(graph.num_nodes) else graph.num_nodes
    return otherwise if declared is None else int(declared)


def _edge_array(edge_index: Any) -> Ints:
    if isinstance(edge_index, Tensor):
        edge_index = edge_index.detach().cpu().numpy()
    try:
        edges = np.asarray(edge_index)
    except ValueError:  # lists of different lengths
        edges = np.empty(0, dtype=object)
    if edges.dtype.kind in "OUS":
        raise TypeError(
            f"cannot read {type(edge_index).__name__} as a graph; pass a Graph, a PyG Data, "
            "a DGL or NetworkX graph, a sparse matrix or an edge index of shape [2, E]"
        )
    if edges.ndim != 2 or edges.shape[0] != 2:
        hint = "; transpose it" if edges.ndim == 2 and edges.shape[1] == 2 else ""
        if edges.ndim == 2 and edges.shape[0] == edges.shape[1]:
            hint = "; of a matrix of edges make a sparse one, scipy.sparse.csr_array(matrix)"
        raise ValueError(f"an edge index has shape [2, E], got {list(edges.shape)}{hint}")
    if edges.size == 0:
        return np.empty((2, 0), dtype=np.int64)
    if not np.issubdtype(edges.dtype, np.integer):
        raise TypeError(f"an edge index holds integers, got {edges.dtype}")
    return edges.astype(np.int64, copy=False)
