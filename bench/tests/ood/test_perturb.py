"""Perturbations: what is drawn, and what is kept."""

import numpy as np
import pytest
import scipy.sparse as sp

from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood
from simi_mailbox_bench.datasets import Split
from simi_mailbox_bench.ood import _unrank


def sparse_graph(n: int = 900, edges: int = 9000, seed: int = 0) -> Graph:
    return Graph.from_edges(np.random.default_rng(seed).integers(0, n, (2, edges)), n)


def test_every_pair_has_its_number() -> None:
    lower, upper = _unrank(np.arange(45))
    assert sorted(zip(lower, upper, strict=True)) == sorted(
        (i, j) for j in range(10) for i in range(j)
    )


def test_pairs_of_a_large_block_are_unranked_exactly() -> None:
    last = 200_000 * 199_999 // 2
    numbers = last - 1 - np.arange(3)
    lower, upper = _unrank(numbers)
    assert (lower < upper).all()
    assert (upper * (upper - 1) // 2 + lower == numbers).all()
    assert upper.max() == 199_999


def test_block_densities_are_as_asked() -> None:
    graph = sparse_graph()
    made = ood.random_blocks(graph, 3, seed=1)
    density = graph.num_entries / (900 * 899)
    block = np.arange(900) // 300
    source, target = made.edge_index().numpy()
    within = (block[source] == block[target]).sum() / (3 * 300 * 299)
    between = (block[source] != block[target]).sum() / (900 * 600)
    assert within == pytest.approx(1.5 * density, rel=0.05)
    assert between == pytest.approx(0.5 * density, rel=0.05)


def test_last_block_takes_the_rest_and_no_edge_repeats() -> None:
    made = ood.random_blocks(sparse_graph(11, 20), 3, seed=0)
    source, target = made.edge_index().numpy()
    assert made.num_nodes == 11
    assert len(set(zip(source.tolist(), target.tolist(), strict=True))) == source.size
    assert (source != target).all()


def test_same_seed_same_graph_other_seed_other_graph() -> None:
    graph = sparse_graph()
    first = ood.random_blocks(graph, 3, seed=5)
    assert first == ood.random_blocks(graph, 3, seed=5)
    assert first != ood.random_blocks(graph, 3, seed=6)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_features_are_mixtures_of_two_nodes(kind: str) -> None:
    x = np.eye(40, dtype=np.float32)
    given = {"dense": x, "sparse": sp.csr_array(x)}[kind]
    made = ood.interpolated_features(given, seed=3)
    assert type(made) is type(given)
    dense = made.toarray() if kind == "sparse" else np.asarray(made)
    assert dense.dtype == np.float32
    np.testing.assert_allclose(dense.sum(axis=1), 1.0, rtol=1e-6)
    assert ((dense > 0).sum(axis=1) <= 2).all()
    assert (dense.max(axis=1) < 1).mean() > 0.8


def test_features_depend_on_the_seed_alone() -> None:
    x = np.random.default_rng(0).random((20, 5), dtype=np.float32)
    first = ood.interpolated_features(x, seed=1)
    np.testing.assert_array_equal(first, ood.interpolated_features(x, seed=1))
    assert not np.array_equal(first, ood.interpolated_features(x, seed=2))


def test_left_out_classes_leave_training_and_labels() -> None:
    y = np.tile(np.arange(5), 12)
    split = Split(np.arange(20), np.arange(20, 40), np.arange(40, 60))
    left = ood.leave_out_classes(y, split, unknown=[0, 1], drop=[2])
    assert left.classes == (3, 4)
    assert set(y[left.unknown]) == {0, 1}
    for part in (left.split.train, left.split.val, left.split.test):
        assert set(y[part]) == {3, 4}
        assert set(left.y[part]) == {0, 1}
    assert (left.y[np.isin(y, [0, 1, 2])] == -1).all()


@pytest.mark.parametrize("unknown", [[], [9], [0, 1]])
def test_leaving_out_refuses_what_leaves_nothing(unknown: list[int]) -> None:
    y = np.array([0, 1, 2, 0, 1, 2])
    with pytest.raises(ValueError, match="leave out classes that some node has"):
        ood.leave_out_classes(y, Split([0, 1], [2, 3], [4, 5]), unknown=unknown)
