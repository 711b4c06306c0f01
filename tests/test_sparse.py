"""The sparse kernel: values against dense algebra, gradients by differences."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simi_mailbox.graph import Graph
from simi_mailbox.sparse import Csr, attend, matmul, neighbour_sums, products


def random_graph(n=12, edges=25, seed=0, *, directed=False):
    pairs = np.random.default_rng(seed).integers(0, n - 1, size=(2, edges))  # the last is isolated
    return Graph.from_edges(pairs, n, directed=directed)


def dense(pattern, values):
    result = torch.zeros(pattern.shape, dtype=values.dtype)
    result[pattern.rows, pattern.indices] = values
    return result


def random_matrix(rows, columns, seed=0):
    matrix = sp.random_array((rows, columns), density=0.4, rng=seed, format="csr")
    matrix = sp.csr_array(matrix + sp.eye_array(rows, columns))  # no empty row
    return Csr.from_scipy(matrix)


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("graph", [random_graph(), random_graph(directed=True), Graph.empty(1)])
def test_closed_neighbourhoods_are_the_adjacency_and_the_identity_sorted(graph):
    closed, n = Csr.closed(graph), graph.num_nodes
    adjacency = torch.zeros(n, n)
    adjacency[graph.rows(), graph.indices] = 1
    assert torch.equal(dense(closed, torch.ones(closed.num_entries)), adjacency + torch.eye(n))
    keys = closed.rows * n + closed.indices
    assert (keys.diff() > 0).all()


def test_taking_rows_and_dropping_columns_gives_the_submatrix():
    closed = Csr.closed(random_graph())
    values = normal(closed.indices.numel())
    rows = torch.tensor([7, 2, 11])
    part, entries = closed.take(rows)
    assert torch.equal(dense(part, values[entries]), dense(closed, values)[rows])
    small, columns = part.compact()
    assert torch.equal(dense(small, values[entries]), dense(closed, values)[rows][:, columns])
    assert small.shape == (3, columns.numel())
    assert columns.numel() < 12
    kept, columns = part.compact(keep=torch.arange(12))
    assert torch.equal(dense(kept, values[entries]), dense(closed, values)[rows])


def test_products_are_the_entries_of_the_dense_product():
    closed = Csr.closed(random_graph())
    a, b = normal(12, 5), normal(12, 5, seed=1)
    expected = (a @ b.T)[closed.rows, closed.indices]
    torch.testing.assert_close(products(closed, a, b), expected)


def test_attend_is_the_masked_softmax_times_the_vectors_also_for_huge_scores():
    closed = Csr.closed(random_graph())
    scores, x = 300 * normal(closed.indices.numel()), normal(12, 3)
    masked = torch.full((12, 12), -torch.inf, dtype=torch.float64)
    masked[closed.rows, closed.indices] = scores
    torch.testing.assert_close(attend(closed, scores, x), masked.softmax(1) @ x)
    open_rows = Csr.of(random_graph())  # node 11 looks at nobody
    assert attend(open_rows, normal(open_rows.num_entries), x)[11].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("operation", [matmul, attend])
@pytest.mark.parametrize("directed", [False, True])
def test_gradients_agree_with_differences(operation, directed):
    assert callable(operation)
    closed = Csr.closed(random_graph(directed=directed))
    pattern, _ = closed.take(torch.tensor([4, 9, 0, 11, 6]))
    values = normal(pattern.indices.numel()).requires_grad_()
    x = normal(12, 3, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda v, u: operation(pattern, v, u), (values, x))


def test_products_of_rectangular_and_symmetric_matrices_have_the_gradients_of_differences():
    matrix = random_matrix(5, 7)
    torch.testing.assert_close(matrix.T.tensor.to_dense(), matrix.tensor.to_dense().T)
    assert torch.autograd.gradcheck(lambda d: matrix @ d, (normal(7, 3).requires_grad_(),))
    square = random_matrix(6, 6).tensor.to_dense().numpy()
    made = Csr.from_scipy(sp.csr_array(square + square.T))
    symmetric = made.with_values(made.values, symmetric=True)
    assert symmetric.T is symmetric
    assert torch.autograd.gradcheck(lambda d: symmetric @ d, (normal(6, 2).requires_grad_(),))
    # A pattern without values is a matrix of ones.
    graph = random_graph(directed=True)
    adjacency = torch.zeros(12, 12)
    adjacency[graph.rows(), graph.indices] = 1
    assert torch.equal(Csr.of(graph) @ torch.eye(12), adjacency)
    assert torch.equal(Csr.of(graph).T @ torch.eye(12), adjacency.T)


def test_the_notice_that_sparse_tensors_are_new_reaches_nobody():
    code = (
        "import torch, simi_mailbox.sparse as s\n"
        "s.csr_tensor([0, 1], [0], [1.0], size=(1, 1)); torch.eye(2).to_sparse_csr()\n"
        "torch.sparse_coo_tensor([[0], [0]], [1.0], (1, 1)).to_sparse_csr()"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@given(seed=st.integers(0, 10_000), start=st.integers(0, 89), length=st.integers(1, 90))
@settings(max_examples=25, deadline=None)
def test_neighbour_sums_are_products_with_the_pattern(seed, start, length):
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((90, 200), density=0.1, rng=rng, dtype=np.float64).tocsr()
    matrix.data[:] = 1.0
    pattern = Csr.from_scipy(matrix)
    right, weights = torch.from_numpy(rng.normal(size=(200, 7))), torch.from_numpy(rng.random(200))
    found = neighbour_sums(pattern, right, weights)
    expected = matrix @ (right * weights[:, None]).numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)
    rows = slice(start, min(90, start + length))
    some = neighbour_sums(pattern.run(rows), right)
    np.testing.assert_allclose(some.numpy(), (matrix @ right.numpy())[rows], rtol=0, atol=1e-12)
    # Only columns that have a number: the others count as zero.
    number = torch.full((200,), -1)
    kept = torch.from_numpy(rng.permutation(200)[: seed % 50])
    number[kept] = torch.arange(len(kept))
    only = neighbour_sums(pattern.renumbered(number, len(kept)), right[kept])
    expected = matrix[:, kept.numpy()] @ right[kept].numpy()
    np.testing.assert_allclose(only.numpy(), expected, rtol=0, atol=1e-12)
