"""Sparse matrices in compressed rows (CSR): products and attention with their gradients.

Nothing gathers node vectors over the entries: memory is O(E + V·K), never O(E·K). Indices are
int32, what MKL takes without a conversion; a transpose is found once for all backward passes.
"""

from __future__ import annotations

import warnings
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.autograd import Function

from simi_mailbox.graph import Graph

csr_tensor = partial(torch.sparse_csr_tensor, check_invariants=False)
"""PyTorch's CSR tensor, without checks of what was built here and without the notices below."""


# PyTorch announces once per process that CSR tensors are "in beta": here nobody has to read it.
with warnings.catch_warnings(action="ignore"):
    torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1))


class Csr:
    """Where the entries of a sparse matrix lie, row by row, and what they are."""

    def __init__(
        self,
        indptr: Tensor,
        indices: Tensor,
        shape: tuple[int, int],
        values: Tensor | None = None,
        *,
        symmetric: bool = False,
    ) -> None:
        self.indptr, self.indices = indptr.to(torch.int32), indices.to(torch.int32)
        self.shape, self.symmetric, self._given = shape, symmetric, values
        self._alike: Csr | None = None

    @classmethod
    def of(cls, graph: Graph) -> Csr:
        """The adjacency of a graph, row = receiving node."""
        shape = (graph.num_nodes, graph.num_nodes)
        return cls(graph.indptr, graph.indices, shape, symmetric=not graph.is_directed)

    @classmethod
    def closed(cls, graph: Graph) -> Csr:
        """A + I: the neighbours of every node and the node itself, sorted."""
        n, entries = graph.num_nodes, np.ones(graph.num_entries, dtype=np.bool_)
        parts = (entries, graph.indices.numpy(), graph.indptr.numpy())
        closed = scipy.sparse.csr_array(parts, shape=(n, n))
        closed = closed + scipy.sparse.eye_array(n, dtype=np.bool_, format="csr")
        indptr, indices = torch.from_numpy(closed.indptr), torch.from_numpy(closed.indices)
        return cls(indptr, indices, (n, n), symmetric=not graph.is_directed)

    @classmethod
    def from_scipy(cls, matrix: Any) -> Csr:
        """Take over a SciPy CSR matrix."""
        return cls(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            (int(matrix.shape[0]), int(matrix.shape[1])),
            torch.from_numpy(np.ascontiguousarray(matrix.data)),
        )

    @property
    def num_entries(self) -> int:
        return int(self.indices.numel())

    @cached_property
    def values(self) -> Tensor:
        """Value of every entry."""
        return torch.ones(self.num_entries) if self._given is None else self._given

    @cached_property
    def rows(self) -> Tensor:
        """Row of every entry."""
        if self._alike is not None:
            return self._alike.rows
        rows = torch.arange(self.shape[0], dtype=torch.int32)
        return rows.repeat_interleave(self.indptr.diff(), output_size=self.num_entries)

    def filled(self, values: Tensor) -> Tensor:
        """PyTorch's CSR tensor with these entries."""
        return csr_tensor(self.indptr, self.indices, values, self.shape)

    @cached_property
    def tensor(self) -> Tensor:
        """PyTorch's CSR tensor of the matrix (no copy)."""
        return self.filled(self.values)

    def with_values(self, values: Tensor, *, symmetric: bool = False) -> Csr:
        """The same entries with other values; what is found out about their order is shared."""
        other = Csr(self.indptr, self.indices, self.shape, values, symmetric=symmetric)
        other._alike = self if self._alike is None else self._alike
        return other

    @cached_property
    def transposed(self) -> tuple[Csr, Tensor]:
        """Pattern of the transpose, and the entry of this matrix behind each entry of that."""
        if self._alike is not None:
            return self._alike.transposed
        entries = np.arange(self.num_entries, dtype=np.int32)
        parts = (entries, self.indices.numpy(), self.indptr.numpy())
        csc = scipy.sparse.csr_array(parts, self.shape).tocsc()
        indptr, indices = torch.from_numpy(csc.indptr), torch.from_numpy(csc.indices)
        return Csr(indptr, indices, self.shape[::-1]), torch.from_numpy(csc.data)

    @cached_property
    def T(self) -> Csr:
        if self.symmetric:
            return self
        pattern, order = self.transposed
        return pattern.with_values(self.values[order])

    def take(self, rows: Tensor) -> tuple[Csr, Tensor]:
        """Some rows, in the order given; also the numbers of their entries, in their order."""
        counts = self.indptr.diff()[rows]
        indptr = torch.zeros(rows.numel() + 1, dtype=torch.int32)
        indptr[1:] = counts.cumsum(0)
        shift = torch.repeat_interleave(self.indptr[rows] - indptr[:-1], counts)
        entries = shift.add_(torch.arange(shift.numel(), dtype=torch.int32))
        values = None if self._given is None else self._given.index_select(0, entries)
        shape = (int(rows.numel()), self.shape[1])
        return Csr(indptr, self.indices.index_select(0, entries), shape, values), entries

    def run(self, rows: slice) -> Csr:
        """Rows that follow each other (no copy)."""
        ends = self.indptr[rows.start : rows.stop + 1]
        entries = slice(int(ends[0]), int(ends[-1]))
        values = None if self._given is None else self._given[entries]
        shape = (rows.stop - rows.start, self.shape[1])
        return Csr(ends - ends[0], self.indices[entries], shape, values)

    def compact(self, keep: Tensor | None = None) -> tuple[Csr, Tensor]:
        """Only the columns with an entry, and those in ``keep``; also which columns these are."""
        used = torch.zeros(self.shape[1], dtype=torch.bool)
        used[self.indices] = True
        if keep is not None:
            used[keep] = True
        columns = used.nonzero().flatten()
        indices = (used.cumsum(0) - 1)[self.indices]
        return Csr(self.indptr, indices, (self.shape[0], columns.numel()), self._given), columns

    def renumbered(self, number: Tensor, columns: int) -> Csr:
        """Only the entries whose column has a new number that is not negative, with that one."""
        given = number[self.indices]
        kept = given >= 0
        before = torch.zeros(self.num_entries + 1, dtype=self.indptr.dtype)
        torch.cumsum(kept, 0, dtype=self.indptr.dtype, out=before[1:])
        shape = (self.shape[0], columns)
        values = None if self._given is None else self._given[kept]
        return Csr(before[self.indptr], given[kept].to(self.indices.dtype), shape, values)

    def row_sums(self, values: Tensor) -> Tensor:
        """Sum of ``values``, one for each entry, in every row."""
        return torch.mv(self.filled(values), values.new_ones(self.shape[1]))

    def __matmul__(self, x: Tensor) -> Tensor:
        """Product with a dense matrix, differentiable in it and in the values."""
        return matmul(self, self.values, x)


def normalised_adjacency(graph: Graph, dtype: torch.dtype = torch.float32) -> Csr:
    """D^-1/2 (A + I) D^-1/2 of the GCN, D counting the self-loop; degrees of receiving rows."""
    closed = Csr.closed(graph)
    root = closed.indptr.diff().to(dtype).rsqrt()
    values = root[closed.rows] * root[closed.indices]
    return closed.with_values(values, symmetric=closed.symmetric)


def products(pattern: Csr, a: Tensor, b: Tensor) -> Tensor:
    """a_i · b_j of every entry (i, j); no gradient."""
    zeros = pattern.filled(torch.zeros(pattern.num_entries, dtype=a.dtype))
    result: Tensor = torch.sparse.sampled_addmm(zeros, a.detach(), b.detach().t(), beta=0.0)
    return result.values()


def matmul(pattern: Csr, values: Tensor, x: Tensor) -> Tensor:
    """Σ_j values_ij x_j of every row, differentiable in the values and in ``x`` [n, h]."""
    result: Tensor = _Product.apply(pattern, values, x)  # type: ignore[no-untyped-call]
    return result


def attend(pattern: Csr, scores: Tensor, x: Tensor) -> Tensor:
    """Σ_j α_ij x_j, where α_i is the softmax of row i's scores; differentiable in both."""
    result: Tensor = _Attention.apply(pattern, scores, x)  # type: ignore[no-untyped-call]
    return result


class _Product(Function):
    @staticmethod
    def forward(ctx: Any, pattern: Csr, values: Tensor, x: Tensor) -> Tensor:
        ctx.pattern, ctx.own = pattern, values is pattern.values
        ctx.save_for_backward(values, x if ctx.needs_input_grad[1] else None)
        return torch.mm(pattern.tensor if ctx.own else pattern.filled(values), x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        values, x = ctx.saved_tensors
        pattern, gradient = ctx.pattern, gradients[0].contiguous()
        to_values = to_x = None
        if ctx.needs_input_grad[1]:
            to_values = products(pattern, gradient, x)
        if ctx.needs_input_grad[2]:
            back = pattern.T.tensor if ctx.own else _transpose(pattern, values)
            to_x = torch.mm(back, gradient)
        return None, to_values, to_x


class _Attention(Function):
    @staticmethod
    def forward(ctx: Any, pattern: Csr, scores: Tensor, x: Tensor) -> Tensor:
        weights = shifted(pattern, scores).exp_()
        result, total, padded = weighted_mean(pattern, weights, x)
        ctx.save_for_backward(weights, padded, total, result)
        ctx.pattern = pattern
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        weights, padded, total, result = ctx.saved_tensors
        part = gradients[0] / total
        to_scores = to_x = None
        if ctx.needs_input_grad[1]:
            both = torch.cat([part, -(part * result).sum(dim=1, keepdim=True)], dim=1)
            to_scores = products(ctx.pattern, both, padded) * weights
        if ctx.needs_input_grad[2]:
            to_x = torch.mm(_transpose(ctx.pattern, weights), part)
        return None, to_scores, to_x


def _transpose(pattern: Csr, values: Tensor) -> Tensor:
    back, order = pattern.transposed
    return back.filled(values.index_select(0, order))


def shifted(pattern: Csr, scores: Tensor) -> Tensor:
    """Scores minus the largest of their row."""
    largest = torch.segment_reduce(
        scores, "max", offsets=pattern.indptr, unsafe=True, initial=float("-inf")
    )
    return scores - largest.index_select(0, pattern.rows)


def weighted_mean(pattern: Csr, weights: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Σ w x / Σ w of every row, Σ w, and x with the column of ones that makes it one product."""
    padded = torch.cat([x, x.new_ones(x.shape[0], 1)], dim=1)
    sums = torch.mm(pattern.filled(weights), padded)
    total = sums[:, -1:].masked_fill(sums[:, -1:] == 0, 1.0)  # a row that looks at nobody
    return sums[:, :-1] / total, total, padded


def neighbour_sums(pattern: Csr, matrix: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ of matrix_j, times weights_j, over the entries j of every row."""
    result = matrix.new_zeros(pattern.shape[0], matrix.shape[1])
    if not pattern.num_entries:
        return result
    values = matrix.new_ones(pattern.num_entries)
    if weights is not None:
        values = weights.index_select(0, pattern.indices)
    # In place: `mm` would fill a matrix with zeros and copy it, half as dear as the product.
    return result.addmm_(pattern.filled(values), matrix)
