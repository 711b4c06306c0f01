"""Slices of nodes: calibration and coverage are what loops over the nodes of each find."""

import numpy as np
import pytest

from simi_mailbox import decide, metrics
from simi_mailbox.analysis import (
    by_agreement,
    by_class,
    by_degree,
    by_distance,
    covered_by,
    distance_to,
)
from simi_mailbox.graph import Graph

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


def test_by_degree(case):
    probs, y, graph = case
    table = by_degree(probs, y, graph)
    members = [np.flatnonzero(inside) for inside in of_degrees(table.labels, graph)]
    assert table.labels[0] == "0"
    assert sum(map(len, members)) == N
    check_slices(table, members, probs, y)


def test_by_class_of_chosen_nodes_whose_labels_alone_are_read(case):
    probs, y, _ = case
    chosen, names = np.arange(0, N, 3), ["a", "b", "c", "d"]
    hidden = np.full_like(y, -1)
    hidden[chosen] = y[chosen]
    table = by_class(probs, hidden, nodes=chosen, class_names=names)
    assert table.labels == tuple(names)
    check_slices(table, [chosen[probs[chosen].argmax(1) == k] for k in range(K)], probs, y)


def test_by_distance(case):
    probs, y, graph = case
    table = by_distance(probs, y, graph, [3, 5])
    distance = distance_to(graph, [3, 5])
    members = {str(k): distance == k for k in range(5)}
    members |= {"5 or more": distance >= 5, "out of reach": distance < 0}
    assert table.labels[-1] == "out of reach"
    check_slices(table, [np.flatnonzero(members[label]) for label in table.labels], probs, y)


def test_by_agreement_keeps_nodes_without_neighbours_apart(case):
    probs, y, _ = case
    tenths = np.random.default_rng(0).integers(0, 11, N)
    share = np.where(np.arange(N) < 7, np.nan, tenths / 10)
    table = by_agreement(probs, y, share)
    assert table.labels[-1] == "no neighbours"
    fifth = np.where(np.isnan(share), 5, np.minimum(tenths // 2, 4))
    check_slices(table, [np.flatnonzero(fifth == k) for k in range(6)], probs, y)


def test_a_handful_of_right_nodes_is_not_certain():
    table = by_class(np.array([[0.75, 0.25]] * 3), np.zeros(3, dtype=int))
    assert table.gap[0] == 0.25
    assert table.gap[0] < 2 * table.gap_error[0]


def test_bad_input_is_refused(case):
    probs, y, _ = case
    with pytest.raises(ValueError, match="2 class names for 4 classes"):
        by_class(probs, y, class_names=["a", "b"])
    with pytest.raises(ValueError, match="3 class names for 4 classes"):
        covered_by("class", probs > 0.2, y, class_names=["a", "b", "c"])
    with pytest.raises(ValueError, match="by is 'colour'; expected one of"):
        covered_by("colour", probs > 0.2, y)
    with pytest.raises(ValueError, match=r"the classes are 0\.\.3"):
        by_class(probs, y + 1)


def test_coverage_is_what_a_loop_finds(case):
    probs, y, graph = case
    sets, nodes = probs > 0.2, np.arange(100, N)
    hit, sizes = sets[np.arange(N), y], sets.sum(axis=1)
    table = covered_by("degree", sets, y, graph=graph, nodes=nodes)
    members = of_degrees(table.labels, graph)
    assert table.found.counts.tolist() == [inside[nodes].sum() for inside in members]
    expected = [hit[nodes][inside[nodes]].mean() for inside in members]
    np.testing.assert_allclose(table.found.coverage, expected)
    table = covered_by("class", sets, y[nodes], nodes=nodes)
    expected = [hit[nodes][y[nodes] == c].mean() for c in range(K)]
    np.testing.assert_allclose(table.found.coverage, expected)
    table = covered_by("size", sets, y, nodes=nodes)
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
    table = covered_by("mailbox", sets, y, probs=probs, graph=graph)
    assert table.found.counts.tolist() == np.bincount(groups, minlength=4).tolist()
    np.testing.assert_allclose(
        table.found.coverage, [sets[np.arange(N), y][groups == g].mean() for g in range(4)]
    )


def test_chance_is_not_significant_and_a_neglected_class_is(case):
    _, y, _ = case
    rng = np.random.default_rng(1)
    even = np.zeros((N, K), dtype=bool)
    even[np.arange(N), y] = rng.random(N) < 0.9
    assert not covered_by("class", even, y).significant
    even[(y == 1) & (rng.random(N) < 0.3)] = False
    table = covered_by("class", even, y, class_names=["a", "b", "c", "d"])
    assert table.significant
    assert table.worst == "b"
    assert table.found.worst < table.found.worst_by_chance


def test_class_conditional_sets_leave_no_class_behind(case):
    probs, y, _ = case
    rule = decide.PredictionSets(score="lac", condition_on="class", coverage=0.8)
    sets = rule.fit(probs, y, mask=range(400), used_for_selection=False).predict_sets(probs)
    table = covered_by("class", sets, y, nodes=np.arange(400, N))
    assert (table.found.high > 0.8).all()
