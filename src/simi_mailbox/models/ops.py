"""Constant sparse matrices, their products with dense ones, and cheap dropout masks.

Everything here is a thin layer over PyTorch's CSR kernels (MKL on x86). Three habits make it fast
on one thread: indices are int32 (what MKL takes without a conversion), transposes are computed
once instead of in every backward pass, and dropout at rate one half draws one random *bit* per
value instead of one random float.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

with warnings.catch_warnings():
    # PyTorch announces once per process that CSR tensors are "in beta"; use up that one warning
    # here instead of changing the caller's filters.
    warnings.simplefilter("ignore")
    torch.eye(1).to_sparse_csr()


class Csr:
    """A constant sparse matrix in compressed sparse rows, with its transpose at hand.

    Parameters
    ----------
    indptr, indices : Tensor
        CSR arrays; kept as int32.
    values : Tensor
        One number for each stored entry.
    shape : (int, int)
        Rows and columns.
    symmetric : bool
        Promise that the matrix equals its transpose, values included, so that the backward pass
        may use the matrix itself.

    Examples
    --------
    >>> matrix = Csr(torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]), torch.tensor([1.0, 2, 3]),
    ...              (2, 2))
    >>> spmm(matrix, torch.eye(2)).tolist()
    [[0.0, 1.0], [2.0, 3.0]]
    >>> spmm(matrix.T, torch.eye(2)).tolist()
    [[0.0, 2.0], [1.0, 3.0]]
    """

    def __init__(
        self,
        indptr: Tensor,
        indices: Tensor,
        values: Tensor,
        shape: tuple[int, int],
        *,
        symmetric: bool = False,
    ) -> None:
        self.indptr = indptr.to(torch.int32)
        self.indices = indices.to(torch.int32)
        self.values = values
        self.shape = shape
        self.symmetric = symmetric

    @classmethod
    def from_scipy(cls, matrix: Any, *, symmetric: bool = False) -> Csr:
        """Take over a SciPy CSR matrix (float32 or float64 data)."""
        return cls(
            torch.from_numpy(matrix.indptr.astype(np.int32)),
            torch.from_numpy(matrix.indices.astype(np.int32)),
            torch.from_numpy(np.ascontiguousarray(matrix.data)),
            (int(matrix.shape[0]), int(matrix.shape[1])),
            symmetric=symmetric,
        )

    @property
    def num_entries(self) -> int:
        """Number of stored entries."""
        return int(self.indices.numel())

    @cached_property
    def rows(self) -> Tensor:
        """Row of every stored entry, int32."""
        counts = self.indptr.diff().long()
        return torch.repeat_interleave(
            torch.arange(self.shape[0], dtype=torch.int32), counts, output_size=self.num_entries
        )

    @cached_property
    def transposition(self) -> tuple[Tensor, Tensor, Tensor]:
        """``(indptr, indices, order)`` of the transpose; entry ``k`` there is ``order[k]`` here."""
        order = torch.argsort(self.indices, stable=True)
        counts = torch.bincount(self.indices, minlength=self.shape[1])
        indptr = torch.zeros(self.shape[1] + 1, dtype=torch.int32)
        indptr[1:] = counts.cumsum(0)
        return indptr, self.rows[order], order

    @cached_property
    def T(self) -> Csr:
        """The transpose."""
        if self.symmetric:
            return self
        indptr, indices, order = self.transposition
        return Csr(indptr, indices, self.values[order], (self.shape[1], self.shape[0]))

    @cached_property
    def tensor(self) -> Tensor:
        """The matrix as a PyTorch CSR tensor (no copy)."""
        return self.filled(self.values)

    def filled(self, values: Tensor) -> Tensor:
        """PyTorch CSR tensor of the same pattern with other values."""
        return torch.sparse_csr_tensor(
            self.indptr, self.indices, values, self.shape, check_invariants=False
        )

    def filled_transpose(self, values: Tensor) -> Tensor:
        """Transpose of :meth:`filled`, for values given in *this* matrix' entry order."""
        return self.filled_in_transpose(values.index_select(0, self.transposition[2]))

    def filled_in_transpose(self, values: Tensor) -> Tensor:
        """Transpose with values that are already in its own entry order."""
        indptr, indices, _ = self.transposition
        return torch.sparse_csr_tensor(
            indptr, indices, values, (self.shape[1], self.shape[0]), check_invariants=False
        )

    def row_sums(self, values: Tensor) -> Tensor:
        """Sum of ``values`` in every row."""
        return torch.mv(self.filled(values), values.new_ones(self.shape[1]))


class _ConstantProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Csr, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return torch.mm(matrix.tensor, dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, torch.mm(ctx.matrix.T.tensor, grad.contiguous())


class _WeightedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, dense)
        return torch.mm(pattern.filled(values), dense)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        values, dense = ctx.saved_tensors
        pattern: Csr = ctx.pattern
        grad = grad.contiguous()
        grad_values = grad_dense = None
        if ctx.needs_input_grad[1]:
            empty = pattern.filled(torch.zeros_like(values))
            grad_values = torch.sparse.sampled_addmm(empty, grad, dense.T, beta=0.0).values()
        if ctx.needs_input_grad[2]:
            grad_dense = torch.mm(pattern.filled_transpose(values), grad)
        return None, grad_values, grad_dense


def spmm(matrix: Csr, dense: Tensor) -> Tensor:
    """Product of a constant sparse matrix with a dense one, differentiable in the dense one.

    Examples
    --------
    >>> path = Csr(torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.ones(2), (2, 2),
    ...            symmetric=True)
    >>> spmm(path, torch.tensor([[1.0], [5.0]])).tolist()
    [[5.0], [1.0]]
    """
    product: Tensor = _ConstantProduct.apply(matrix, dense)  # type: ignore[no-untyped-call]
    return product


def weighted_spmm(pattern: Csr, values: Tensor, dense: Tensor) -> Tensor:
    """Product of a sparse matrix with a dense one, differentiable in the stored values too.

    The gradient of the values is a sampled dense product: nothing of size entries × columns is
    built.

    Examples
    --------
    >>> pattern = Csr(torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2), (1, 2))
    >>> values = torch.tensor([2.0, 3.0], requires_grad=True)
    >>> weighted_spmm(pattern, values, torch.tensor([[1.0], [10.0]])).sum().backward()
    >>> values.grad.tolist()
    [1.0, 10.0]
    """
    product: Tensor = _WeightedProduct.apply(  # type: ignore[no-untyped-call]
        pattern, values, dense
    )
    return product


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

    Rate one half, which every backbone of the protocol uses, takes one bit each: random 64-bit
    words are cut into bytes and a table turns each byte into eight values. That is about thirty
    times faster than drawing from a Bernoulli distribution. ``reuse`` keeps the memory of the
    result for the next call with it: fresh pages for megabytes cost more than filling them.

    Examples
    --------
    >>> values = random_choice(1000, 0.5, torch.Generator().manual_seed(0), drop=-1.0, keep=1.0)
    >>> sorted(set(values.tolist())), abs(float(values.mean())) < 0.2
    ([-1.0, 1.0], True)
    """
    if rate == 0.5:
        words = torch.empty((size + 63) // 64, dtype=torch.int64)
        words.random_(-(2**63), None, generator=generator)
        table = (_BITS * (keep - drop) + drop).to(dtype)
        index = words.view(torch.uint8).int()
        room = None if reuse is None else reuse.setdefault(size, table.new_empty(index.numel(), 8))
        return torch.index_select(table, 0, index, out=room).view(-1)[:size]
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
    """Values to multiply by for dropout: 0 at the given rate, ``1 / (1 - rate)`` otherwise.

    Examples
    --------
    >>> mask = dropout_mask(1000, 0.5, torch.Generator().manual_seed(0))
    >>> sorted(set(mask.tolist())), 400 < int((mask > 0).sum()) < 600
    ([0.0, 2.0], True)
    """
    keep = 1.0 / (1.0 - rate)
    return random_choice(size, rate, generator, drop=0.0, keep=keep, dtype=dtype, reuse=reuse)
