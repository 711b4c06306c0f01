"""Sparse operations over neighbourhoods: values against dense algebra, gradients by differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from simi_mailbox.calibrators.parts.neighbours import (
    Neighbourhoods,
    PerIndex,
    attend,
    matmul,
    normalised_adjacency,
    products,
)
from simi_mailbox.graph import Graph


def random_graph(n: int = 12, edges: int = 25, seed: int = 0, *, directed: bool = False) -> Graph:
    pairs = np.random.default_rng(seed).integers(0, n - 1, size=(2, edges))  # the last is isolated
    return Graph.from_edges(pairs, n, directed=directed)


def dense(pattern: Neighbourhoods, values: Tensor) -> Tensor:
    result = torch.zeros(pattern.num_rows, pattern.num_columns, dtype=values.dtype)
    result[pattern.rows, pattern.indices] = values
    return result


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_closed_neighbourhoods_are_the_adjacency_and_the_identity_sorted() -> None:
    graph = random_graph()
    closed = Neighbourhoods.closed(graph)
    adjacency = torch.zeros(12, 12)
    adjacency[graph.rows(), graph.indices] = 1
    assert torch.equal(dense(closed, torch.ones(closed.indices.numel())), adjacency + torch.eye(12))
    keys = closed.rows * 12 + closed.indices
    assert (keys.diff() > 0).all()


@pytest.mark.parametrize("n", [1, 4])
def test_closed_neighbourhoods_without_any_edge_are_the_identity(n: int) -> None:
    closed = Neighbourhoods.closed(Graph.empty(n))
    assert torch.equal(dense(closed, torch.ones(n)), torch.eye(n))


def test_taking_rows_and_dropping_columns_gives_the_submatrix() -> None:
    closed = Neighbourhoods.closed(random_graph())
    values = normal(closed.indices.numel())
    rows = torch.tensor([7, 2, 11])
    part, entries = closed.take(rows)
    assert torch.equal(dense(part, values[entries]), dense(closed, values)[rows])
    small, columns = part.compact()
    assert torch.equal(dense(small, values[entries]), dense(closed, values)[rows][:, columns])
    assert small.num_columns == columns.numel() < 12


def test_transposed_entries_are_those_of_the_transposed_matrix() -> None:
    pattern, _ = Neighbourhoods.closed(random_graph(directed=True)).take(torch.tensor([3, 0, 5, 1]))
    values = normal(pattern.indices.numel())
    transposed, order = pattern.transposed
    assert torch.equal(dense(transposed, values[order]), dense(pattern, values).T)


def test_normalised_adjacency_is_the_gcn_matrix() -> None:
    graph = random_graph()
    pattern, values = normalised_adjacency(graph)
    with_loops = dense(Neighbourhoods.closed(graph), torch.ones(values.numel()))
    scale = with_loops.sum(1).rsqrt()
    torch.testing.assert_close(dense(pattern, values), scale[:, None] * with_loops * scale)


def test_products_are_the_entries_of_the_dense_product() -> None:
    closed = Neighbourhoods.closed(random_graph())
    a, b = normal(12, 5), normal(12, 5, seed=1)
    expected = (a @ b.T)[closed.rows, closed.indices]
    torch.testing.assert_close(products(closed, a, b), expected)


def test_attend_is_the_masked_softmax_times_the_vectors_also_for_huge_scores() -> None:
    closed = Neighbourhoods.closed(random_graph())
    scores, x = 300 * normal(closed.indices.numel()), normal(12, 3)
    masked = torch.full((12, 12), -torch.inf, dtype=torch.float64)
    masked[closed.rows, closed.indices] = scores
    torch.testing.assert_close(attend(closed, scores, x), masked.softmax(1) @ x)


def test_attend_gives_zero_where_nobody_is_looked_at() -> None:
    graph = random_graph()
    open_rows = Neighbourhoods(graph.indptr, graph.indices, 12)
    result = attend(open_rows, normal(graph.num_entries), normal(12, 2))
    assert torch.equal(result[11], torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("operation", [matmul, attend])
@pytest.mark.parametrize("directed", [False, True])
def test_gradients_agree_with_differences(operation: object, directed: bool) -> None:
    assert callable(operation)
    closed = Neighbourhoods.closed(random_graph(directed=directed))
    pattern, _ = closed.take(torch.tensor([4, 9, 0, 11, 6]))
    values = normal(pattern.indices.numel()).requires_grad_()
    x = normal(12, 3, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, u: operation(pattern, v, u), (values, x))


def test_per_index_builds_once_for_each_tensor() -> None:
    built: list[Tensor] = []

    def build(index: Tensor) -> int:
        built.append(index)
        return len(built)

    answers = PerIndex(build)
    a, b = torch.arange(3), torch.arange(3)
    assert [answers(a), answers(b), answers(a), answers(b)] == [1, 2, 1, 2]
