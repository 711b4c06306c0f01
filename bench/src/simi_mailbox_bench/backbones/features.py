"""Node features as the first layer multiplies them, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox.sparse import Csr, matmul

# Above this share of non-zeros a dense product is faster on one thread: Pubmed (10 % stored) takes
# 16 ms sparse against 38 dense, Computers (35 %) 61 against 41.
DENSE_ABOVE = 0.25


class Features:
    """A constant feature matrix that is only ever multiplied from the right by weights."""

    def __init__(self, x: Any, *, row_normalise: bool = False) -> None:
        matrix = _as_csr(x)
        if not np.isfinite(matrix.data).all():
            raise ValueError("features hold nan or infinite values; replace or drop them first")
        self._propagated: dict[Csr, Tensor] = {}
        self._memory: dict[int, Tensor] = {}
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
        picked = Features(self._matrix[index.numpy()])
        picked.is_dense = self.is_dense
        return picked

    def __matmul__(self, weight: Tensor) -> Tensor:
        if self.is_dense:
            return self._dense @ weight
        return self._sparse @ weight

    def propagated(self, matrix: Csr) -> Tensor:
        """``matrix X``, found once for each matrix: (matrix X) W is matrix (X W), and W changes."""
        if matrix not in self._propagated:
            self._propagated[matrix] = torch.mm(matrix.tensor, self._dense)
        return self._propagated[matrix]

    def dropped(self, weight: Tensor, rate: float, generator: torch.Generator) -> Tensor:
        """Product with ``weight`` after dropout of the stored features: zeros stay zero."""
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
    """Features with each row divided by its sum where that exceeds one."""
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
        x = x.detach().cpu().to_dense().numpy()
    elif not sp.issparse(x):
        x = np.asarray(x)
    if x.ndim != 2:
        raise ValueError(f"features must be a matrix [nodes, features], got shape {x.shape}")
    matrix = sp.csr_array(x, dtype=np.float32, copy=True)
    matrix.sum_duplicates()
    return matrix


class FrozenFeatures(Features):
    """Features that meet the same few weights again and again: each product is found once."""

    @cached_property
    def _product(self) -> Callable[[Tensor], Tensor]:
        return cache(super().__matmul__)

    def __matmul__(self, weight: Tensor) -> Tensor:
        return self._product(weight)


_BITS = ((torch.arange(256).unsqueeze(1) >> torch.arange(8)) & 1).to(torch.float32)


def random_choice(
    size: int,
    rate: float,
    generator: torch.Generator,
    *,
    drop: float,
    keep: float,
    dtype: torch.dtype = torch.float32,
    reuse: dict[int, Tensor] | None = None,
) -> Tensor:
    """``size`` independent values, ``drop`` with probability ``rate`` and ``keep`` otherwise.

    Rate one half, which every backbone of the protocol uses, takes one bit each: a table turns
    each random byte into eight values, thirty times faster than drawing from a Bernoulli
    distribution. ``reuse`` keeps the memory of the result for the next call with it.
    """
    if rate == 0.5:
        words = torch.empty((size + 63) // 64, dtype=torch.int64)
        words.random_(-(2**63), None, generator=generator)
        table = (_BITS * (keep - drop) + drop).to(dtype)
        index = words.view(torch.uint8).int()
        buffer = None
        if reuse is not None:
            buffer = reuse.setdefault(size, table.new_empty(index.numel(), 8))
        return torch.index_select(table, 0, index, out=buffer).view(-1)[:size]
    kept = torch.rand(size, generator=generator) >= rate
    return kept.to(dtype).mul_(keep - drop).add_(drop)


def dropout_mask(
    size: int,
    rate: float,
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float32,
    reuse: dict[int, Tensor] | None = None,
) -> Tensor:
    """Values to multiply by for dropout: 0 at the given rate, ``1 / (1 - rate)`` otherwise."""
    keep = 1.0 / (1.0 - rate)
    return random_choice(size, rate, generator, drop=0.0, keep=keep, dtype=dtype, reuse=reuse)


def drop(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Dropout of ``x``; none without a generator."""
    if generator is None or rate == 0:
        return x
    return x * dropout_mask(x.numel(), rate, generator, dtype=x.dtype).view_as(x)
