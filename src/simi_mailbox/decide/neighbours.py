"""Nodes with similar features, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints

BLOCK_SIMILARITIES = 1 << 22
"""Cosines held together while similar nodes are looked for."""
TIE = 1e9
"""One over the difference of two cosines that counts as none."""
PART = 64
"""Cosines whose maximum is looked at before any of them is."""
SMALLEST = 1e-300


def similar_nodes(features: Tensor, k: int) -> Callable[[slice | Ints], Any]:
    """A function from rows to a sparse matrix [rows, n] of the ``k`` most similar other nodes.

    Entries are cosines, divided by their sum over the row; only positive ones count. Features stay
    sparse if they are, and no more than a block of cosines ever exists.
    """
    unit = _unit_rows(features)
    others = unit.T.tocsr() if sp.issparse(unit) else unit.T
    n = unit.shape[0]
    k = min(k, n - 1)

    def search(rows: slice | Ints) -> Any:
        index = np.arange(n)[rows]
        step = max(BLOCK_SIMILARITIES // n, 1)
        parts = [
            _top(unit[index[i : i + step]] @ others, index[i : i + step], k)
            for i in range(0, len(index), step)
        ]
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


def _top(product: Any, rows: Ints, k: int) -> Any:
    """The ``k`` largest positive cosines of ``rows`` with other nodes, as shares of the row."""
    cosine = product.toarray() if sp.issparse(product) else product
    cosine[np.arange(len(rows)), rows] = -1.0  # no node is its own relative
    row, column = (cosine >= _least(cosine, k)).nonzero()
    value = cosine[row, column]
    # Of nodes that are equally similar but for rounding the first is taken, whatever the layout.
    order = np.lexsort((column, -(value * TIE).round(), row))
    order = order[np.arange(len(order)) - np.searchsorted(row, row) < k]
    row, column, value = row[order], column[order], value[order]
    value /= np.bincount(row, value, minlength=len(rows))[row]
    return sp.csr_matrix((value, (row, column)), shape=cosine.shape)


def _least(cosine: Floats, k: int) -> Floats:
    """A positive number for each row, no larger than its ``k``-th largest if that is positive.

    The ``k``-th largest of the maxima of parts: one look at every number, where sorting takes many.
    """
    parts = cosine.shape[1] // PART
    if parts < k:
        return np.full((len(cosine), 1), SMALLEST)
    maxima = cosine[:, : parts * PART].reshape(len(cosine), parts, PART).max(axis=2)
    found = np.partition(maxima, parts - k, axis=1)[:, parts - k, None] - 2.0 / TIE
    return np.maximum(found, SMALLEST)
