"""Node features as the first layer multiplies them: sparse while that pays, else dense."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox.sparse import Csr, PerIndex, matmul
from simi_mailbox_bench.backbones.dropout import dropout_mask

# Above this share of non-zeros a dense product is faster on one thread. Measured with 64 hidden
# units, forward + backward: Pubmed (10 % stored) 16 ms sparse against 38 dense, Computers (35 %)
# 61 against 41.
DENSE_ABOVE = 0.25


class Features:
    """A constant feature matrix that is only ever multiplied from the right by weights.

    Parameters
    ----------
    x : SciPy sparse matrix, NumPy array or Tensor [nodes, features]
        Finite numbers. Sparse or dense does not matter here: the faster kind is chosen by density.
    row_normalise : bool
        Divide each row by its sum where that exceeds one (rows that sum to less are left alone,
        as PyG's ``NormalizeFeatures`` does).

    Examples
    --------
    >>> x = Features(np.array([[3.0, 1.0], [0.0, 0.5]]), row_normalise=True)
    >>> (x @ torch.eye(2)).tolist()
    [[0.75, 0.25], [0.0, 0.5]]
    """

    def __init__(self, x: Any, *, row_normalise: bool = False) -> None:
        matrix = _as_csr(x)
        if not np.isfinite(matrix.data).all():
            raise ValueError(
                "features hold nan or infinite values; replace or drop them before training"
            )
        self._matrix = row_normalised(matrix) if row_normalise else matrix
        self.shape: tuple[int, int] = (int(matrix.shape[0]), int(matrix.shape[1]))

    @cached_property
    def is_dense(self) -> bool:
        """Whether products run on a dense copy."""
        return bool(self._matrix.nnz > DENSE_ABOVE * max(1, self.shape[0] * self.shape[1]))

    @cached_property
    def _sparse(self) -> Csr:
        return Csr.from_scipy(self._matrix)

    @cached_property
    def _dense(self) -> Tensor:
        return torch.from_numpy(self._matrix.toarray())

    def rows(self, index: Tensor | None) -> Features:
        """The features of some nodes (``None``: of all)."""
        if index is None:
            return self
        picked = object.__new__(Features)
        picked._matrix = self._matrix[index.numpy()]
        picked.shape = (int(index.numel()), self.shape[1])
        picked.__dict__["is_dense"] = self.is_dense
        return picked

    def __matmul__(self, weight: Tensor) -> Tensor:
        if self.is_dense:
            return self._dense @ weight
        return self._sparse @ weight

    def propagated(self, matrix: Csr) -> Tensor:
        """Dense features already multiplied by a layer's matrix; computed once for each matrix.

        ``matrix (X W) = (matrix X) W``, and only W changes from epoch to epoch.
        """
        key = id(matrix)
        if key not in self._propagated:
            # The matrix is kept beside its product, so that its id cannot be given out again.
            self._propagated[key] = (matrix, torch.mm(matrix.tensor, self._dense))
        return self._propagated[key][1]

    @cached_property
    def _propagated(self) -> dict[int, tuple[Csr, Tensor]]:
        return {}

    @cached_property
    def _memory(self) -> dict[int, Tensor]:
        return {}

    def dropped(self, weight: Tensor, rate: float, generator: torch.Generator) -> Tensor:
        """Product with ``weight`` after dropout of the features.

        A stored zero stays zero under dropout, so a sparse matrix draws for stored values only.
        """
        if rate == 0:
            return self @ weight
        if self.is_dense:
            # Should a caller draw again before the backward pass, autograd notices and raises.
            mask = dropout_mask(
                self._dense.numel(), rate, generator, dtype=weight.dtype, reuse=self._memory
            )
            return mask.view_as(self._dense).mul_(self._dense) @ weight
        mask = dropout_mask(self._sparse.num_entries, rate, generator, dtype=weight.dtype)
        return matmul(self._sparse, mask.mul_(self._sparse.values), weight)


def row_normalised(x: Any) -> Any:
    """Features with each row divided by its sum where that exceeds one.

    Parameters
    ----------
    x : SciPy sparse matrix or NumPy array [nodes, features]
        Left as it is; the result is CSR if it is sparse, else dense.

    Examples
    --------
    >>> row_normalised(np.array([[3.0, 1.0], [0.0, 0.5]])).tolist()
    [[0.75, 0.25], [0.0, 0.5]]
    """
    if not sp.issparse(x):
        dense = np.asarray(x)
        return dense * _row_scale(dense)[:, None]
    matrix = sp.csr_array(x, copy=True)
    matrix.data = matrix.data * np.repeat(_row_scale(matrix), np.diff(matrix.indptr))
    return matrix


def _row_scale(x: Any) -> Any:
    sums = np.asarray(x.sum(axis=1)).reshape(-1)
    return (1.0 / np.maximum(sums, 1.0)).astype(np.result_type(x.dtype, np.float32))


def _as_csr(x: Any) -> Any:
    if isinstance(x, Tensor):
        x = from_torch(x)
    if not sp.issparse(x):
        x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"features must be a matrix [nodes, features], got shape {x.shape}")
    matrix = sp.csr_array(x, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    return matrix


def from_torch(x: Tensor) -> Any:
    """Features of a dense or sparse tensor, dense as NumPy or sparse as SciPy."""
    x = x.detach().cpu()
    if x.layout == torch.sparse_csr:
        return sp.csr_array(
            (x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()),
            shape=tuple(x.shape),
        )
    return x.to_dense().numpy()


class FrozenFeatures(Features):
    """Features that meet the same few weights again and again: each product is found once.

    Examples
    --------
    >>> x, weight = FrozenFeatures(np.eye(3)), torch.eye(3)
    >>> (x @ weight) is (x @ weight)
    True
    """

    @cached_property
    def _product(self) -> PerIndex[Tensor]:
        return PerIndex(super().__matmul__)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return self._product(weight)
