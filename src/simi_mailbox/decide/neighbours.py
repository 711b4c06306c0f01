"""Means over neighbours, and nodes with similar features, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.sparse import Csr

BLOCK_SIMILARITIES = 1 << 22
"""Cosines held together while similar nodes are looked for."""
TIE = 1e9
"""One over the difference of two cosines that counts as none."""


def neighbour_means(graph: Graph, values: npt.NDArray[Any]) -> Callable[[slice | Ints], Floats]:
    """A function from rows to the means of their neighbours' values; alone, a node's own.

    Examples
    --------
    >>> graph = Graph.from_edges([[0, 0], [1, 2]], num_nodes=4)
    >>> neighbour_means(graph, np.array([[1.0], [2.0], [4.0], [7.0]]))(slice(0, 4)).tolist()
    [[3.0], [1.0], [1.0], [7.0]]
    """
    degree = graph.degree.numpy()
    pattern, dense = Csr.of(graph), torch.from_numpy(values)

    def means(rows: slice | Ints) -> Floats:
        part, entries = pattern.take(torch.arange(len(degree))[rows])
        ones = torch.ones(len(entries), dtype=dense.dtype)
        result: Floats = (part.with_values(ones) @ dense).double().numpy()
        few = degree[rows]
        result /= np.maximum(few, 1)[:, None]
        alone = np.flatnonzero(few == 0)
        result[alone] = values[rows][alone]
        return result

    return means


def similar_nodes(features: Tensor, k: int) -> Callable[[slice | Ints], Any]:
    """A function from rows to a sparse matrix [rows, n] of the ``k`` most similar other nodes.

    Entries are cosines, divided by their sum over the row; only positive ones count. Features stay
    sparse if they are, and no more than a block of cosines ever exists.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    >>> similar_nodes(x, k=1)(slice(0, 4)).toarray().round(3).tolist()[:2]
    [[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]
    """
    unit = _unit_rows(features)
    n = unit.shape[0]
    k = min(k, n - 1)

    def search(rows: slice | Ints) -> Any:
        index = np.arange(n)[rows]
        step = max(BLOCK_SIMILARITIES // n, 1)
        parts = [_top(unit, index[i : i + step], k) for i in range(0, len(index), step)]
        return sp.vstack(parts, format="csr") if parts else sp.csr_matrix((0, n))

    return search


def _unit_rows(features: Tensor) -> Any:
    """Rows of length one, dense or sparse as given; a row of noughts stays one."""
    if features.layout is torch.strided:
        x = features.double().numpy()
        length = np.sqrt(np.einsum("nd,nd->n", x, x))
        return x / np.where(length > 0, length, 1.0)[:, None]
    parts = (features.values(), features.col_indices(), features.crow_indices())
    csr = sp.csr_matrix(tuple(part.numpy() for part in parts), shape=tuple(features.shape))
    csr = csr.astype(np.float64)
    length = np.sqrt(np.asarray(csr.multiply(csr).sum(axis=1)).ravel())
    return sp.diags(1.0 / np.where(length > 0, length, 1.0)) @ csr


def _top(unit: Any, rows: Ints, k: int) -> Any:
    """The ``k`` largest positive cosines of each row with other nodes, as shares of the row."""
    product = unit[rows] @ unit.T
    cosine = torch.from_numpy(np.asarray(product.todense() if sp.issparse(product) else product))
    cosine[torch.arange(len(rows)), torch.from_numpy(rows)] = -1.0  # no node is its own relative
    # Of nodes that are equally similar but for rounding the first is taken, whatever the layout.
    ranking = cosine.mul(TIE).round_().sub_(torch.arange(cosine.shape[1]) / (2 * cosine.shape[1]))
    columns = torch.topk(ranking, k, dim=1).indices
    values = cosine.gather(1, columns).clamp_(min=0.0)
    values /= values.sum(dim=1, keepdim=True).clamp_(min=1e-300)
    offsets = np.arange(0, (len(rows) + 1) * k, k)
    matrix = sp.csr_matrix(
        (values.numpy().ravel(), columns.numpy().ravel(), offsets), shape=cosine.shape
    )
    matrix.eliminate_zeros()
    return matrix
