import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import Graph
from simi_mailbox.mailbox import agreement, mailbox
from tests.strategies import make_problem


def brute_mailbox(logits: np.ndarray, graph: Graph) -> np.ndarray:
    result = np.zeros(len(logits))
    for i in range(len(logits)):
        values = [1 / (1 + np.exp(-logits[i] @ logits[int(j)])) for j in graph.neighbours(i)]
        result[i] = np.mean(values) if values else 0.0
    return result


@given(st.integers(0, 1000), st.integers(1, 400))
def test_mailbox_is_the_mean_sigmoid_of_neighbour_products_for_any_block(seed, block):
    problem = make_problem(seed, n=40, edges=60, sharpness=1)
    found = mailbox(torch.from_numpy(problem.logits), problem.graph, block_entries=block)
    np.testing.assert_allclose(found, brute_mailbox(problem.logits, problem.graph), atol=1e-12)


def test_block_size_and_threads_do_not_change_a_bit():
    problem = make_problem(0, n=2000, edges=20_000)
    logits = torch.from_numpy(problem.logits).float()
    whole = mailbox(logits, problem.graph, block_entries=1 << 30)
    before = torch.get_num_threads()
    try:
        for block, threads in ((1, 1), (77, 2), (4096, 1), (1 << 18, 2)):
            torch.set_num_threads(threads)
            assert torch.equal(mailbox(logits, problem.graph, block_entries=block), whole)
    finally:
        torch.set_num_threads(before)


def test_isolated_nodes_get_zero_and_huge_logits_saturate():
    graph = Graph.from_edges([[0], [1]], num_nodes=3)
    logits = torch.tensor([[1e4, -1e4], [1e4, -1e4], [1.0, 1.0]])
    assert mailbox(logits, graph).tolist() == [1.0, 1.0, 0.0]
    assert mailbox(logits, Graph.empty(3)).tolist() == [0.0, 0.0, 0.0]


def test_agreement_is_the_share_of_neighbours_with_the_same_class():
    problem = make_problem(3, n=30, edges=50)
    predictions = problem.logits.argmax(1)
    found = agreement(torch.from_numpy(predictions), problem.graph).numpy()
    for i in range(30):
        neighbours = problem.graph.neighbours(i).numpy()
        expected = np.mean(predictions[neighbours] == predictions[i]) if len(neighbours) else 0
        assert found[i] == pytest.approx(expected)
