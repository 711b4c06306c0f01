"""What the neighbours of a node say, and how far it is from some nodes."""

from collections import deque

import numpy as np
import pytest

from simi_mailbox.analysis import distance_to, neighbour_agreement
from simi_mailbox.graph import Graph


def test_agreement_counts_neighbours_of_the_same_predicted_class():
    edges = np.array([[0, 0, 1, 2], [1, 2, 2, 3]])
    share = neighbour_agreement(np.array([1, 1, 0, 0, 5]), edges)
    np.testing.assert_allclose(share[:4], [1 / 2, 1 / 2, 1 / 3, 1.0])
    assert np.isnan(share[4])


def brute_force_distance(neighbours, start):
    distance = {s: 0 for s in start}
    queue = deque(start)
    while queue:
        here = queue.popleft()
        for there in neighbours[here]:
            if there not in distance:
                distance[there] = distance[here] + 1
                queue.append(there)
    return [distance.get(i, -1) for i in range(len(neighbours))]


@pytest.mark.parametrize("seed", range(8))
def test_distances_against_a_queue(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    graph = Graph.from_edges(rng.integers(0, n, (2, int(rng.integers(0, 2 * n)))), n)
    start = rng.choice(n, size=int(rng.integers(1, 4)) if n > 4 else 1, replace=False).tolist()
    neighbours = [graph.neighbours(i).tolist() for i in range(n)]
    assert distance_to(graph, start).tolist() == brute_force_distance(neighbours, start)


def test_distance_follows_messages_on_directed_graphs():
    chain = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3, directed=True)
    assert distance_to(chain, [0]).tolist() == [0, 1, 2]
    assert distance_to(chain, [2]).tolist() == [-1, -1, 0]


def test_distance_from_nowhere_reaches_nobody():
    assert distance_to(Graph.empty(3), np.zeros(3, dtype=bool)).tolist() == [-1, -1, -1]
