"""The nodes that are judged, and what the pictures of them are made of, against plain loops."""

from collections import deque

import numpy as np
import pytest

from simi_mailbox import analysis, metrics
from simi_mailbox.graph import Graph


@pytest.fixture
def rng():
    return np.random.default_rng(7)


FOUR = np.array([[0.9, 0.1], [0.4, 0.6], [0.5, 0.5], [2.0, 2.0]])


def test_confidence_and_correctness_of_the_chosen_nodes_alone():
    judged = analysis.judge(FOUR, [0, 0, np.nan, np.nan], nodes=[1, 0])
    assert judged.nodes.tolist() == [1, 0]
    assert judged.confidence.tolist() == [0.6, 0.9]
    assert judged.predicted.tolist() == [1, 0]
    assert judged.correct.tolist() == [0.0, 1.0]
    assert (len(judged), judged.num_nodes) == (2, 4)
    assert np.isnan(analysis.judge(FOUR, None, nodes=[0]).correct).all()
    assert len(analysis.judge(FOUR, [0, 1, 0, 1], nodes=[])) == 0


def test_agreement_counts_neighbours_of_the_same_predicted_class():
    edges = np.array([[0, 0, 1, 2], [1, 2, 2, 3]])
    share = analysis.neighbour_agreement(np.array([1, 1, 0, 0, 5]), edges)
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


@pytest.mark.parametrize("seed", range(4))
def test_distances_against_a_queue(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    graph = Graph.from_edges(rng.integers(0, n, (2, int(rng.integers(0, 2 * n)))), n)
    start = rng.choice(n, size=int(rng.integers(1, 4)) if n > 4 else 1, replace=False).tolist()
    neighbours = [graph.neighbours(i).tolist() for i in range(n)]
    assert analysis.distance_to(graph, start).tolist() == brute_force_distance(neighbours, start)


def test_distance_follows_messages_on_directed_graphs_and_starts_somewhere():
    chain = Graph.from_edges([[0, 1], [1, 2]], num_nodes=3, directed=True)
    assert analysis.distance_to(chain, [0]).tolist() == [0, 1, 2]
    assert analysis.distance_to(chain, [2]).tolist() == [-1, -1, 0]
    assert analysis.distance_to(chain, np.zeros(3, dtype=bool)).tolist() == [-1, -1, -1]


def test_band_agrees_with_resampling_the_nodes_themselves(rng):
    probs = rng.dirichlet([3.0, 1.0], size=500)
    y = (rng.random(500) > 0.8).astype(int)
    curve = analysis.reliability_curve(probs, y, bins=5, draws=4000, seed=1)
    resampled = []
    for _ in range(1500):
        chosen = rng.integers(0, 500, 500)
        resampled.append(metrics.reliability(probs[chosen], y[chosen], bins=5).accuracy)
    full = curve.counts > 20
    assert full.sum() == 3
    low, high = np.quantile(np.array(resampled)[:, full], [0.025, 0.975], axis=0)
    np.testing.assert_allclose(curve.low[full], low, atol=0.02)
    np.testing.assert_allclose(curve.high[full], high, atol=0.02)
    sure = analysis.reliability_curve(
        np.tile([0.95, 0.05], (3, 1)), np.zeros(3, dtype=int), bins=10
    )
    assert sure.accuracy[9] == 1.0
    assert sure.low[9] < 0.5  # of three nodes that are all right


def test_curve_is_that_of_the_chosen_nodes(rng):
    probs = rng.dirichlet([3.0, 1.0], size=100)
    y = np.zeros(100, dtype=int)
    curve = analysis.reliability_curve(probs, y, nodes=np.arange(40))
    expected = metrics.reliability(probs[:40], y[:40])
    np.testing.assert_array_equal(curve.accuracy, expected.accuracy)
    assert curve.ece == expected.ece
    same = analysis.reliability_curve(probs, y[:40], nodes=np.arange(40))
    np.testing.assert_array_equal(same.low, curve.low)
    with pytest.raises(ValueError, match="needs labels: pass y"):
        analysis.reliability_curve(probs, None)
    with pytest.raises(ValueError, match="no node"):
        analysis.reliability_curve(probs, y, nodes=[])


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
    paper = analysis.similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="paper")
    own = analysis.similarity_confidence(PROBS, Y, SIMILARITY, bins=2, cell="own")
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
    table = analysis.similarity_confidence(PROBS, Y, similarity, bins=2)
    assert table.without_neighbours == 1
    assert table.counts.sum() == 5
    np.testing.assert_allclose(table.accuracy[1], [1 / 3, 1 / 3])


def test_labels_of_other_nodes_are_not_read_and_without_any_counts_stay():
    y = Y.copy()
    y[[0, 1]] = -100
    chosen = analysis.similarity_confidence(
        PROBS, y, SIMILARITY, nodes=[2, 3, 4, 5], bins=2, cell="own"
    )
    cut = analysis.similarity_confidence(PROBS[2:], Y[2:], SIMILARITY[2:], bins=2, cell="own")
    np.testing.assert_array_equal(chosen.gap, cut.gap)
    table = analysis.similarity_confidence(PROBS, None, SIMILARITY, bins=2)
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
        ({"bins": 0}, "positive integer"),
        ({"nodes": [7]}, "nodes names node 7, but nodes are"),
    ],
)
def test_bad_cells_are_refused(change, message):
    given = {"probs": PROBS, "y": Y, "similarity": SIMILARITY, "bins": 2, **change}
    with pytest.raises(ValueError, match=message):
        analysis.similarity_confidence(**given)


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
    table = analysis.similarity_confidence(probs, np.zeros(4, int), similarity, closed=closed)
    assert np.argwhere(table.counts).tolist() == cells


N, K = 601, 4  # odd: medians are those of nodes


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(7)
    probs = rng.dirichlet([2.0, 1.0, 0.5, 0.5], size=N)
    y = (rng.random((N, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=K - 1)
    hubs, others = rng.zipf(1.6, (2, 700)), rng.integers(0, N, (2, 1400))
    return probs, y, Graph.from_edges(np.concatenate([hubs, others], axis=1) % (N - 10), N)


def check_slices(table, members, probs, y):
    """Every number of a breakdown, from the nodes of each slice by the package's own metrics."""
    for k, nodes in enumerate(members):
        n = len(nodes)
        assert table.counts[k] == n
        if n == 0:
            assert np.isnan([table.gap[k], table.ece[k], table.gap_error[k]]).all()
            continue
        said, accuracy = probs[nodes].max(1).mean(), metrics.accuracy(probs[nodes], y[nodes])
        share = (accuracy * n + 2) / (n + 4)
        found = [row[k] for row in (table.confidence, table.accuracy, table.gap, table.ece)]
        expected = [said, accuracy, accuracy - said, metrics.ece(probs[nodes], y[nodes])]
        np.testing.assert_allclose(found, expected, atol=1e-12)
        np.testing.assert_allclose(table.gap_error[k], np.sqrt(share * (1 - share) / n))
    assert len(table.labels) == len(members)


def of_degrees(labels, graph):
    ends = [tuple(int(v) for v in label.split("–")) for label in labels]
    return [(graph.degree.numpy() >= e[0]) & (graph.degree.numpy() <= e[-1]) for e in ends]


def test_by_degree_and_by_distance(case):
    probs, y, graph = case
    table = analysis.by_degree(probs, y, graph)
    members = [np.flatnonzero(inside) for inside in of_degrees(table.labels, graph)]
    assert table.labels[0] == "0"
    assert sum(map(len, members)) == N
    check_slices(table, members, probs, y)
    table = analysis.by_distance(probs, y, graph, [3, 5])
    distance = analysis.distance_to(graph, [3, 5])
    members = {str(k): distance == k for k in range(5)}
    members |= {"5 or more": distance >= 5, "out of reach": distance < 0}
    assert table.labels[-1] == "out of reach"
    check_slices(table, [np.flatnonzero(members[label]) for label in table.labels], probs, y)


def test_by_class_of_chosen_nodes_whose_labels_alone_are_read(case):
    probs, y, _ = case
    chosen, names = np.arange(0, N, 3), ["a", "b", "c", "d"]
    hidden = np.full_like(y, -1)
    hidden[chosen] = y[chosen]
    table = analysis.by_class(probs, hidden, nodes=chosen, class_names=names)
    assert table.labels == tuple(names)
    check_slices(table, [chosen[probs[chosen].argmax(1) == k] for k in range(K)], probs, y)


def test_by_agreement_keeps_nodes_without_neighbours_apart(case):
    probs, y, _ = case
    tenths = np.random.default_rng(0).integers(0, 11, N)
    share = np.where(np.arange(N) < 7, np.nan, tenths / 10)
    table = analysis.by_agreement(probs, y, share)
    assert table.labels[-1] == "no neighbours"
    fifth = np.where(np.isnan(share), 5, np.minimum(tenths // 2, 4))
    check_slices(table, [np.flatnonzero(fifth == k) for k in range(6)], probs, y)


def test_bad_input_is_refused(case):
    probs, y, _ = case
    with pytest.raises(ValueError, match="2 class names for 4 classes"):
        analysis.by_class(probs, y, class_names=["a", "b"])
    with pytest.raises(ValueError, match="3 class names for 4 classes"):
        analysis.covered_by("class", probs > 0.2, y, class_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="by is 'colour'; expected one of"):
        analysis.covered_by("colour", probs > 0.2, y)
    with pytest.raises(ValueError, match=r"the classes are 0\.\.3"):
        analysis.by_class(probs, y + 1)


def test_coverage_is_what_a_loop_finds(case):
    probs, y, graph = case
    sets, nodes = probs > 0.2, np.arange(100, N)
    hit, sizes = sets[np.arange(N), y], sets.sum(axis=1)
    table = analysis.covered_by("degree", sets, y, graph=graph, nodes=nodes)
    members = of_degrees(table.labels, graph)
    assert table.found.counts.tolist() == [inside[nodes].sum() for inside in members]
    expected = [hit[nodes][inside[nodes]].mean() for inside in members]
    np.testing.assert_allclose(table.found.coverage, expected)
    table = analysis.covered_by("class", sets, y[nodes], nodes=nodes)
    expected = [hit[nodes][y[nodes] == c].mean() for c in range(K)]
    np.testing.assert_allclose(table.found.coverage, expected)
    table = analysis.covered_by("size", sets, y, nodes=nodes)
    assert table.labels == tuple(str(s) for s in np.unique(sizes[nodes]))
    expected = [hit[nodes][sizes[nodes] == s].mean() for s in np.unique(sizes[nodes])]
    np.testing.assert_allclose(table.found.coverage, expected)


def test_mailbox_slices_are_those_that_rules_condition_on(case):
    probs, y, graph = case
    sets = probs > 0.2
    source, target = graph.edge_index().numpy()
    alike = np.zeros(N)
    for i in np.unique(target):
        alike[i] = np.mean(probs[source[target == i]] @ probs[i])
    above = probs.max(axis=1) >= np.median(probs.max(axis=1))
    groups = 2 * above
    for half in (above, ~above):
        groups[half] += alike[half] >= np.median(alike[half])
    table = analysis.covered_by("mailbox", sets, y, probs=probs, graph=graph)
    assert table.found.counts.tolist() == np.bincount(groups, minlength=4).tolist()
    np.testing.assert_allclose(
        table.found.coverage, [sets[np.arange(N), y][groups == g].mean() for g in range(4)]
    )


def test_chance_is_not_significant_and_a_neglected_class_is(case):
    _, y, _ = case
    rng = np.random.default_rng(1)
    even = np.zeros((N, K), dtype=bool)
    even[np.arange(N), y] = rng.random(N) < 0.9
    assert not analysis.covered_by("class", even, y).significant
    even[(y == 1) & (rng.random(N) < 0.3)] = False
    table = analysis.covered_by("class", even, y, class_names=["a", "b", "c", "d"])
    assert table.significant
    assert table.worst == "b"
    assert table.found.worst < table.found.worst_by_chance


@pytest.fixture
def table(rng):
    n = 200
    before = rng.dirichlet([3.0, 1.0, 1.0], size=n)
    after = before**0.5 / (before**0.5).sum(1, keepdims=True)
    groups = rng.integers(0, 4, n)
    groups[groups == 2] = 3  # a group without nodes stays, with no mean
    y = rng.integers(0, 3, n)
    given = {
        "similarity": rng.random(n),
        "temperatures": np.array([1.0, 2.0, 3.0, 4.0])[groups],
        "calibration": np.arange(50),
        "nodes": np.arange(50, 200),
    }
    return groups, before, after, y, given


def test_group_map_against_loops_also_without_labels(table):
    groups, before, after, y, given = table
    made = analysis.group_map(groups, before, after, y=y, **given)
    assert made.sizes.size == 4
    assert made.sizes.sum() == 200
    for k in range(4):
        everyone = np.flatnonzero(groups == k)
        judged = everyone[everyone >= 50]
        assert made.calibration_labels[k] == (everyone < 50).sum()
        assert made.judged[k] == len(judged)
        if len(everyone) == 0:
            assert np.isnan(made.confidence[k])
            continue
        right = after[judged].argmax(1) == y[judged]
        np.testing.assert_allclose(made.confidence[k], before[everyone].max(1).mean())
        np.testing.assert_allclose(made.similarity[k], given["similarity"][everyone].mean())
        np.testing.assert_allclose(made.accuracy[k], right.mean())
        np.testing.assert_allclose(made.gap_before[k], right.mean() - before[judged].max(1).mean())
        np.testing.assert_allclose(made.gap_after[k], right.mean() - after[judged].max(1).mean())
    mass = np.nan_to_num(np.abs(made.gap_after) * made.judged)
    assert made.worst(2).tolist() == np.argsort(-mass)[:2].tolist()
    assert 2 not in made.worst(10)
    made = analysis.group_map(groups, before, after, **given)
    np.testing.assert_allclose(made.temperatures[[0, 1, 3]], [1.0, 2.0, 4.0])
    assert np.isnan(made.accuracy).all()
    assert made.worst().size == 0


def test_group_map_refuses_what_does_not_fit(table):
    groups, before, after, _, given = table
    with pytest.raises(ValueError, match="group number for each of 200"):
        analysis.group_map(groups[:9], before, after, **given)
    with pytest.raises(ValueError, match=r"temperatures has shape \[2\]; expected one value per"):
        analysis.group_map(groups, before, after, **{**given, "temperatures": [1.0, 2.0]})


def test_temperature_histogram_counts_every_node(rng):
    t = np.exp(rng.normal(size=500))
    table = analysis.temperature_histogram(t, bins=12)
    inside = np.histogram(t, bins=table.edges * np.r_[1 - 1e-12, np.ones(11), 1 + 1e-12])[0]
    assert table.counts.tolist() == inside.tolist()
    assert table.counts.sum() == 500
    assert (table.smallest, table.largest) == (t.min(), t.max())
    table = analysis.temperature_histogram(np.full(9, 1.7))
    assert table.counts.max() == 9
    assert table.edges[0] < 1.7 < table.edges[-1]


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [np.nan], [np.inf]])
def test_temperatures_must_be_positive(bad):
    with pytest.raises(ValueError, match="temperature"):
        analysis.temperature_histogram(np.array(bad))
