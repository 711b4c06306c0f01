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

    Self-loops are dropped and duplicate edges merged; neighbours are sorted. Build one with
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

    __slots__ = ("__dict__", "indices", "indptr", "is_directed")

    indptr: Tensor
    indices: Tensor
    is_directed: bool

    def __init__(self, indptr: Tensor, indices: Tensor, *, is_directed: bool = False) -> None:
        object.__setattr__(self, "indptr", indptr)
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "is_directed", is_directed)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Graph is immutable; cannot set {name!r}")

    # --- building -----------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls, edge_index: Any, num_nodes: int | None = None, *, directed: bool = False
    ) -> Graph:
        """Build from an edge list of shape [2, E] (NumPy, torch or nested lists).

        Each column ``(j, i)`` says that ``j`` is a neighbour of ``i`` (PyG's source → target).
        Unless ``directed`` is true, the reverse of each edge is added.
        """
        edges = _edge_array(edge_index)
        count = _node_count(edges, num_nodes)
        _check_range(edges, count)
        if count >= 1 << 31:
            raise ValueError(f"a graph in memory has at most 2³¹ nodes, got {count}")
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
        rows, columns = matrix.shape
        if rows != columns:
            raise ValueError(
                f"an adjacency matrix must be square, got {rows} × {columns}; "
                "pass an edge_index of shape [2, E] instead if that is what it is"
            )
        coo = matrix.tocoo()
        stored = np.asarray(coo.data) != 0
        edges = np.stack([np.asarray(coo.col)[stored], np.asarray(coo.row)[stored]])
        return cls.from_edges(edges, rows, directed=directed)

    @classmethod
    def empty(cls, num_nodes: int) -> Graph:
        """Build a graph of ``num_nodes`` nodes and no edge."""
        return cls.from_edges(np.empty((2, 0), dtype=np.int64), num_nodes)

    # --- reading ------------------------------------------------------------------------------

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

    def permute(self, order: Any) -> Graph:
        """Rename the nodes: node ``order[k]`` of this graph becomes node ``k`` of the result."""
        order = torch.as_tensor(order, dtype=torch.int64)
        position = torch.empty_like(order)
        position[order] = torch.arange(order.numel())
        return Graph.from_edges(
            position[self.edge_index()], self.num_nodes, directed=self.is_directed
        )

    def fingerprint(self) -> str:
        """Sixteen hex digits that tell two different graphs apart."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for part in (self.indptr, self.indices):
            digest.update(part.contiguous().numpy().data)
        return digest.hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return torch.equal(self.indptr, other.indptr) and torch.equal(self.indices, other.indices)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        directed = ", is_directed=True" if self.is_directed else ""
        return f"Graph(num_nodes={self.num_nodes}, num_entries={self.num_entries}{directed})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (self.indptr, self.indices, self.is_directed))


def _pattern(rows: Ints, columns: Ints, count: int) -> Any:
    """A SciPy matrix of these entries, each once."""
    entries = np.ones(len(rows), dtype=np.bool_)
    return scipy.sparse.coo_array((entries, (rows, columns)), shape=(count, count)).tocsr()


def _rebuild(indptr: Tensor, indices: Tensor, is_directed: bool) -> Graph:
    return Graph(indptr, indices, is_directed=is_directed)


def as_graph(graph: Any, num_nodes: int, *, directed: bool = False) -> Graph:
    """Turn what users have into a `Graph` of exactly ``num_nodes`` nodes.

    Parameters
    ----------
    graph
        A `Graph`, a PyG ``Data`` (anything with ``edge_index`` or ``adj_t``), a DGL graph
        (anything with ``edges()``), a NetworkX graph (nodes 0..n-1, or else in the order of
        ``graph.nodes``), a SciPy or torch sparse matrix, or an edge index of shape [2, E].
    num_nodes
        Number of nodes that the logits have; a graph of another size is refused.
    """
    result: Graph
    if isinstance(graph, Graph):
        result = graph
    elif isinstance(graph, Tensor) and graph.layout is not torch.strided:
        result = _from_sparse_tensor(graph, directed)
    elif hasattr(graph, "tocoo") and hasattr(graph, "shape"):
        result = Graph.from_scipy(graph, directed=directed)
    elif hasattr(graph, "edge_index_dict") or len(getattr(graph, "canonical_etypes", ())) > 1:
        raise TypeError(
            f"this {type(graph).__name__} has several kinds of nodes or edges: pass one graph, "
            "such as data.to_homogeneous() or dgl.to_homogeneous(graph), and the logits of its "
            "nodes in that order"
        )
    elif getattr(graph, "edge_index", None) is not None:
        _check_declared(graph, num_nodes)
        result = Graph.from_edges(graph.edge_index, num_nodes, directed=directed)
    elif getattr(graph, "adj_t", None) is not None:
        result = _from_adj_t(graph.adj_t, num_nodes, directed)
    elif hasattr(graph, "adjacency") and hasattr(graph, "nodes"):
        result = _from_networkx(graph, num_nodes, directed)
    elif callable(getattr(graph, "edges", None)):
        source, target = graph.edges()
        edges = np.stack([np.asarray(source), np.asarray(target)])
        _check_declared(graph, num_nodes)
        result = Graph.from_edges(edges, num_nodes, directed=directed)
    else:
        result = Graph.from_edges(graph, num_nodes, directed=directed)
    if result.num_nodes != num_nodes:
        raise ValueError(
            f"the graph has {result.num_nodes} nodes but the logits have {num_nodes} rows; "
            "they must describe the same nodes in the same order (outputs per edge or per graph "
            "need a method without graph, such as TemperatureScaling)"
        )
    return result


def _from_sparse_tensor(matrix: Tensor, directed: bool) -> Graph:
    """Entry (i, j) makes ``j`` a neighbour of ``i``, as in SciPy's matrices."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"an adjacency matrix must be square, got {list(matrix.shape)}")
    coo: Tensor = matrix.detach().cpu().to_sparse_coo().coalesce()  # type: ignore[no-untyped-call]
    rows, columns = coo.indices()[:, coo.values() != 0]
    return Graph.from_edges(torch.stack([columns, rows]), matrix.shape[0], directed=directed)


def _from_adj_t(adjacency: Any, num_nodes: int, directed: bool) -> Graph:
    """PyG's transposed adjacency: a sparse tensor of torch, or of torch_sparse."""
    if isinstance(adjacency, Tensor):
        return _from_sparse_tensor(adjacency, directed)
    target, source, _ = adjacency.coo()
    size = max(adjacency.sparse_sizes())
    if size != num_nodes:
        raise ValueError(f"adj_t has {size} nodes but the logits have {num_nodes} rows")
    return Graph.from_edges(torch.stack([source, target]).cpu(), num_nodes, directed=directed)


def _from_networkx(graph: Any, num_nodes: int, directed: bool) -> Graph:
    """Nodes called 0..n-1 are rows; other names count in the order of ``graph.nodes``."""
    names = list(graph.nodes)
    place = {name: row for row, name in enumerate(names)}
    if place.keys() == set(range(len(names))):
        place = {name: name for name in names}
    pairs = [(place[source], place[target]) for source, target in graph.edges()]
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    if len(names) != num_nodes:
        raise ValueError(f"the graph has {len(names)} nodes but the logits have {num_nodes} rows")
    return Graph.from_edges(edges, num_nodes, directed=directed)


def _check_declared(graph: Any, num_nodes: int) -> None:
    declared = graph.num_nodes() if callable(graph.num_nodes) else graph.num_nodes
    if declared is not None and int(declared) != num_nodes:
        raise ValueError(
            f"the graph says it has {int(declared)} nodes but the logits have {num_nodes} rows"
        )


def _edge_array(edge_index: Any) -> Ints:
    if isinstance(edge_index, Tensor):
        edge_index = edge_index.detach().cpu().numpy()
    try:
        edges = np.asarray(edge_index)
    except ValueError as error:
        raise TypeError(f"cannot read {type(edge_index).__name__} as an edge index") from error
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


def _node_count(edges: Ints, num_nodes: int | None) -> int:
    if num_nodes is None:
        return int(edges.max()) + 1 if edges.size else 0
    if num_nodes < 0:
        raise ValueError(f"num_nodes must not be negative, got {num_nodes}")
    return int(num_nodes)


def _check_range(edges: Ints, n: int) -> None:
    if not edges.size or (edges.min() >= 0 and edges.max() < n):
        return
    column = int(np.flatnonzero(((edges < 0) | (edges >= n)).any(axis=0))[0])
    raise ValueError(
        f"edge {column} joins nodes {edges[0, column]} and {edges[1, column]}, "
        f"but nodes are numbered 0..{n - 1}"
    )
