"""Sparse operations over neighbourhoods, with gradients, for calibrators that learn a network.

Everything works on rows of neighbours (CSR). Nothing gathers node vectors over the edges, so memory
is that of one number per entry and a few per node: O(E + V·K), never O(E·K).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse
import torch
from torch import Tensor
from torch.autograd import Function

from simi_mailbox._sparse import silence_beta_notice
from simi_mailbox.graph import Graph

silence_beta_notice()


class Neighbourhoods:
    """Which columns (sending nodes) each row (receiving node) looks at, in CSR.

    Examples
    --------
    >>> graph = Graph.from_edges([[0, 1], [1, 2]])
    >>> closed = Neighbourhoods.closed(graph)  # every node also looks at itself
    >>> closed.indices.tolist()
    [0, 1, 0, 1, 2, 1, 2]
    >>> matmul(closed, torch.ones(7), torch.eye(3)).tolist()
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """

    def __init__(self, indptr: Tensor, indices: Tensor, num_columns: int) -> None:
        self.indptr, self.indices, self.num_columns = indptr, indices, num_columns

    @classmethod
    def closed(cls, graph: Graph) -> Neighbourhoods:
        """N(i) ∪ {i} of every node, sorted."""
        n, rows = graph.num_nodes, graph.rows()
        after = graph.indices > rows
        before = graph.degree - rows[after].bincount(minlength=n)
        nodes = torch.arange(n)
        indices = torch.empty(graph.num_entries + n, dtype=torch.int64)
        # Each row grew by one, and its later neighbours moved behind the node itself.
        indices[torch.arange(graph.num_entries) + rows + after] = graph.indices
        indices[graph.indptr[:-1] + nodes + before] = nodes
        return cls(graph.indptr + torch.arange(n + 1), indices, n)

    @property
    def num_rows(self) -> int:
        """Number of receiving nodes."""
        return int(self.indptr.numel()) - 1

    @cached_property
    def rows(self) -> Tensor:
        """Row of every entry."""
        return torch.repeat_interleave(torch.arange(self.num_rows), self.indptr.diff())

    def take(self, rows: Tensor) -> tuple[Neighbourhoods, Tensor]:
        """The same for some rows only; also the numbers of their entries, in their order."""
        counts = self.indptr.diff()[rows]
        indptr = torch.zeros(rows.numel() + 1, dtype=torch.int64)
        indptr[1:] = counts.cumsum(0)
        shift = torch.repeat_interleave(self.indptr[rows] - indptr[:-1], counts)
        entries = torch.arange(int(indptr[-1])) + shift
        return Neighbourhoods(indptr, self.indices[entries], self.num_columns), entries

    def compact(self) -> tuple[Neighbourhoods, Tensor]:
        """The same with only the columns that some row looks at; also which columns these are."""
        used = torch.zeros(self.num_columns, dtype=torch.bool)
        used[self.indices] = True
        columns = used.nonzero().flatten()
        indices = (used.cumsum(0) - 1)[self.indices]
        return Neighbourhoods(self.indptr, indices, int(columns.numel())), columns

    @cached_property
    def transposed(self) -> tuple[Neighbourhoods, Tensor]:
        """Who looks at each column, and the entry of this pattern behind each entry of that."""
        entries = np.arange(self.indices.numel())
        shape = (self.num_rows, self.num_columns)
        csc = scipy.sparse.csr_array((entries, self.indices.numpy(), self.indptr.numpy()), shape)
        csc = csc.tocsc()
        indptr, indices, order = (
            torch.from_numpy(part.astype(np.int64)) for part in (csc.indptr, csc.indices, csc.data)
        )
        return Neighbourhoods(indptr, indices, self.num_rows), order

    @cached_property
    def _short(self) -> tuple[Tensor, Tensor]:
        return self.indptr.to(torch.int32), self.indices.to(torch.int32)  # what MKL multiplies with

    def matrix(self, values: Tensor) -> Tensor:
        """Sparse matrix with these entries."""
        return torch.sparse_csr_tensor(
            *self._short, values, size=(self.num_rows, self.num_columns), check_invariants=False
        )


T = TypeVar("T")


class PerIndex(Generic[T]):
    """``build(index)``, done once for every index tensor.

    Training asks for the same few nodes in every epoch. What it takes to answer for them, such as
    their rows of a sparse matrix, is cut out at the first question.

    Examples
    --------
    >>> doubled = PerIndex(lambda index: 2 * index)
    >>> nodes = torch.tensor([1, 2])
    >>> doubled(nodes) is doubled(nodes)
    True
    """

    def __init__(self, build: Callable[[Tensor], T]) -> None:
        self._build = build
        self._known: list[tuple[Tensor, T]] = []

    def __call__(self, index: Tensor) -> T:
        """Answer for the nodes ``index``."""
        for known, answer in self._known:
            if known is index:
                return answer
        self._known.append((index, self._build(index)))
        return self._known[-1][1]


def normalised_adjacency(
    graph: Graph, dtype: torch.dtype = torch.float32
) -> tuple[Neighbourhoods, Tensor]:
    """D^-1/2 (A + I) D^-1/2 of the GCN, as a pattern and its values.

    Degrees are those of the receiving rows, which for undirected graphs is the usual definition.

    Examples
    --------
    >>> pattern, values = normalised_adjacency(Graph.from_edges([[0], [1]], num_nodes=3))
    >>> matmul(pattern, values, torch.eye(3))
    tensor([[0.5000, 0.5000, 0.0000],
            [0.5000, 0.5000, 0.0000],
            [0.0000, 0.0000, 1.0000]])
    """
    pattern = Neighbourhoods.closed(graph)
    root = pattern.indptr.diff().to(dtype).rsqrt()
    return pattern, root[pattern.rows] * root[pattern.indices]


def products(pattern: Neighbourhoods, a: Tensor, b: Tensor) -> Tensor:
    """a_i · b_j of every entry (i, j); no gradient.

    Examples
    --------
    >>> closed = Neighbourhoods.closed(Graph.from_edges([[0], [1]]))
    >>> z = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> products(closed, z, z).tolist()
    [5.0, 11.0, 11.0, 25.0]
    """
    zeros = pattern.matrix(torch.zeros(pattern.indices.numel(), dtype=a.dtype))
    result: Tensor = torch.sparse.sampled_addmm(zeros, a.detach(), b.detach().t(), beta=0.0)
    return result.values()


def matmul(pattern: Neighbourhoods, values: Tensor, x: Tensor) -> Tensor:
    """Σ_j values_ij x_j of every row, differentiable in the values and in ``x`` [n, h]."""
    result: Tensor = _MatMul.apply(values, x, pattern)  # type: ignore[no-untyped-call]
    return result


def attend(pattern: Neighbourhoods, scores: Tensor, x: Tensor) -> Tensor:
    """Σ_j α_ij x_j, where α_i is the softmax of row i's scores; differentiable in both.

    The weights are never divided by their sum: the sum is one more column of the product.

    Examples
    --------
    >>> closed = Neighbourhoods.closed(Graph.from_edges([[0], [1]]))
    >>> scores = torch.tensor([0.0, 0.0, -1e4, 1e4])
    >>> attend(closed, scores, torch.tensor([[2.0], [4.0]])).tolist()
    [[3.0], [4.0]]
    """
    result: Tensor = _Attend.apply(scores, x, pattern)  # type: ignore[no-untyped-call]
    return result


class _MatMul(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, pattern: Neighbourhoods) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.pattern = pattern
        return pattern.matrix(values) @ x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        values, x = ctx.saved_tensors
        to_values = products(ctx.pattern, gradients[0], x) if ctx.needs_input_grad[0] else None
        to_x = _backwards(ctx.pattern, values, gradients[0]) if ctx.needs_input_grad[1] else None
        return to_values, to_x, None


class _Attend(Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, x: Tensor, pattern: Neighbourhoods) -> Tensor:
        largest = torch.segment_reduce(scores, "max", offsets=pattern.indptr)
        weights = (scores - largest.index_select(0, pattern.rows)).exp_()
        padded = torch.cat([x, x.new_ones(x.shape[0], 1)], dim=1)
        sums = pattern.matrix(weights) @ padded
        total = sums[:, -1:].masked_fill(sums[:, -1:] == 0, 1.0)  # a row that looks at nobody
        result = sums[:, :-1] / total
        ctx.save_for_backward(weights, padded, total, result)
        ctx.pattern = pattern
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weights, padded, total, result = ctx.saved_tensors
        part = gradients[0] / total
        to_scores = None
        if ctx.needs_input_grad[0]:
            both = torch.cat([part, -(part * result).sum(dim=1, keepdim=True)], dim=1)
            to_scores = products(ctx.pattern, both, padded) * weights
        to_x = _backwards(ctx.pattern, weights, part) if ctx.needs_input_grad[1] else None
        return to_scores, to_x, None


def _backwards(pattern: Neighbourhoods, values: Tensor, gradient: Tensor) -> Tensor:
    """Σ_i values_ij g_i of every column."""
    transposed, order = pattern.transposed
    return transposed.matrix(values.index_select(0, order)) @ gradient
