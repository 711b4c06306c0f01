"""The nodes that are judged, their neighbours, and the tables of confidence against accuracy."""

from collections import deque

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.analysis import (
    distance_to,
    judge,
    neighbour_agreement,
    reliability_curve,
    similarity_confidence,
)
from simi_mailbox.graph import Graph

FOUR = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [2.0, 2.0]])


def test_confidence_and_correctness_of_the_chosen_nodes_alone():
    judged = judge(FOUR, [0, 0, np.nan, np.nan], nodes=[1, 0])
    assert judged.nodes.tolist() == [1, 0]
    assert judged.confidence.tolist() == [0.6, 0.9]
    assert judged.predicted.tolist() == [1, 0]
    assert judged.correct.tolist() == [0.0, 1.0]
    assert (len(judged), judged.num_nodes) == (2, 4)
    assert np.isnan(judge(FOUR, None, nodes=[0]).correct).all()
    assert len(judge(FOUR, [0, 1, 0, 1], nodes=[])) == 0


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


def test_distance_follows_messages_on_directed_graphs_and_starts_somewhere():
    chain = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3, directed=True)
    assert distance_to(chain, [0]).tolist() == [0, 1, 2]
    assert distance_to(chain, [2]).tolist() == [-1, -1, 0]
    assert distance_to(chain, np.zeros(3, dtype=bool)).tolist() == [-1, -1, -1]


def test_band_agrees_with_resampling_the_nodes_themselves(rng):
    probs = rng.dirichlet([3.0, 1.0], size=500)
    y = (rng.random(500) > 0.8).astype(int)
    curve = reliability_curve(probs, y, bins=5, draws=4000, seed=1)
    resampled = []
    for _ in range(1500):
        chosen = rng.integers(0, 500, 500)
        resampled.append(metrics.reliability(probs[chosen], y[chosen], bins=5).accuracy)
    full = curve.counts > 20
    assert full.sum() == 3
    low, high = np.quantile(np.array(resampled)[:, full], [0.025, 0.975], axis=0)
    np.testing.assert_allclose(curve.low[full], low, atol=0.02)
    np.testing.assert_allclose(curve.high[full], high, atol=0.02)
    sure = reliability_curve(np.tile([0.95, 0.05], (3, 1)), np.zeros(3, dtype=int), bins=10)
    assert sure.accuracy[9] == 1.0
    assert sure.low[9] < 0.5  # of three nodes that are all right


def test_curve_is_that_of_the_chosen_nodes(rng):
    probs = rng.dirichlet([3.0, 1.0], size=100)
    y = np.zeros(100, dtype=int)
    curve = reliability_curve(probs, y, nodes=np.arange(40))
    expected = metrics.reliability(probs[:40], y[:40])
    np.testing.assert_array_equal(curve.accuracy, expected.accuracy)
    assert curve.ece == expected.ece
    same = reliability_curve(probs, y[:40], nodes=np.arange(40))
    np.testing.assert_array_equal(same.low, curve.low)
    with pytest.raises(ValueError, match="needs labels: pass y"):
        reliability_curve(probs, None)
    with pytest.raises(ValueError, match="no node"):
        reliability_curve(probs, y, nodes=[])


# Two confidence intervals, [0, .5) and [.5, 1], of three nodes each; three classes so that a
# confidence below one half can exist.
PROBS = np.array(
    [
        [0.40, 0.30, 0.30],  # low confidence, similarity low, right
        [0.44, 0.28, 0.28],  # low confidence, similarity high, wrong
        [0.48, 0.26, 0.26],  # low confidence, similarity high, right
        [0.60, 0.20, 0.20],  # high confidence, similarity low, wrong
        [0.80, 0.10, 0.10],  # high confidence, similarity low, wrong
        [0.90, 0.05, 0.05],  # high confidence, similarity high, right
    ]
)
Y = np.array([0, 1, 0, 2, 1, 0])
SIMILARITY = np.array([0.0, 0.5, 1.0, 0.25, 0.4, 0.75])


def test_golden_case_of_both_kinds_of_cells():
    paper = similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="paper")
    own = similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="own")
    assert paper.counts.tolist() == own.counts.tolist() == [[1, 2], [2, 1]]
    np.testing.assert_allclose(paper.confidence, [[0.40, 0.46], [0.70, 0.90]])
    # acc(B_1) = 2/3 and acc(B_2) = 1/3, whatever the similarity.
    np.testing.assert_allclose(paper.accuracy, [[2 / 3, 2 / 3], [1 / 3, 1 / 3]])
    np.testing.assert_allclose(paper.gap, paper.accuracy - paper.confidence)
    np.testing.assert_allclose(own.accuracy, [[1.0, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(own.gap, [[0.60, 0.04], [-0.70, 0.10]])


def test_nodes_without_neighbours_are_in_no_cell_but_in_the_intervals_accuracy():
    similarity = SIMILARITY.copy()
    similarity[3] = np.nan
    table = similarity_confidence(PROBS, Y, similarity, bins=2)
    assert table.without_neighbours == 1
    assert table.counts.sum() == 5
    np.testing.assert_allclose(table.accuracy[1], [1 / 3, 1 / 3])


def test_labels_of_other_nodes_are_not_read_and_without_any_counts_stay():
    y = Y.copy()
    y[[0, 1]] = -100
    chosen = similarity_confidence(PROBS, y, SIMILARITY, nodes=[2, 3, 4, 5], bins=2, cell="own")
    cut = similarity_confidence(PROBS[2:], Y[2:], SIMILARITY[2:], bins=2, cell="own")
    np.testing.assert_array_equal(chosen.gap, cut.gap)
    table = similarity_confidence(PROBS, None, SIMILARITY, bins=2)
    assert table.counts.tolist() == [[1, 2], [2, 1]]
    assert np.isnan(table.gap).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell": "mine"}, r"cell is 'mine'; expected one of \['paper', 'own'\]"),
        ({"closed": "left"}, r"closed is 'left'; expected one of \['below', 'above'\]"),
        ({"similarity": np.array([0, 0, 0, 0, 0, 1.5])}, "between 0 and 1"),
        ({"similarity": np.zeros(4)}, "one value per node"),
        ({"y": np.array([0, 1, 0, 2, 1, 3])}, "node 5 has label 3"),
        ({"y": np.zeros((6, 2))}, r"labels of shape \[6, 2\]; expected one per node, \[6\]"),
        ({"probs": PROBS * 9}, r"probs\[0, \d\] is .* within \[0, 1\]\. If these are logits"),
        ({"bins": 0}, "positive integer"),
        ({"nodes": [7]}, "nodes names node 7, but nodes are"),
        ({"nodes": [1, 1]}, "twice"),
        ({"nodes": np.array([True])}, "1 entries for 6 nodes"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"probs": PROBS, "y": Y, "similarity": SIMILARITY, "bins": 2, **change}
    with pytest.raises(ValueError, match=message):
        similarity_confidence(**given)


@pytest.mark.parametrize(
    ("closed", "cells"),
    [
        ("below", [[5, 5], [6, 0], [7, 1], [9, 9]]),  # a half opens its interval, 1 is in the last
        ("above", [[4, 4], [5, 0], [6, 0], [9, 9]]),  # as in the paper; 0 is in the first
    ],
)
def test_edges_belong_to_the_interval_that_is_closed_there(closed, cells):
    probs = np.array([[0.5, 0.5], [0.6, 0.4], [1.0, 0.0], [0.7, 0.3]])
    similarity = np.array([0.5, 0.0, 1.0, 0.1])
    table = similarity_confidence(probs, np.zeros(4, int), similarity, closed=closed)
    assert np.argwhere(table.counts).tolist() == cells
