"""Slices of nodes, and the graph facts they are made by."""

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.analysis import by_agreement, by_class, by_degree, by_distance, distance_to
from simi_mailbox.graph import Graph


@pytest.fixture
def case(rng):
    n = 300
    probs = rng.dirichlet([2.0, 1.0, 0.5, 0.5], size=n)
    y = rng.integers(0, 4, n)
    graph = Graph.from_edges(rng.zipf(1.6, (2, 700)) % (n - 10), n)
    return probs, y, graph


def check_slices(table, members, probs, y):
    """Every number of a breakdown, from the nodes of each slice by the package's own metrics."""
    assert table.counts.sum() == sum(len(m) for m in members)
    right = (probs.argmax(1) == y).astype(float)
    for k, nodes in enumerate(members):
        assert table.counts[k] == len(nodes)
        if len(nodes) == 0:
            assert np.isnan(table.gap[k])
            assert np.isnan(table.ece[k])
            continue
        said = probs[nodes].max(1)
        np.testing.assert_allclose(table.confidence[k], said.mean())
        np.testing.assert_allclose(table.accuracy[k], metrics.accuracy(probs[nodes], y[nodes]))
        np.testing.assert_allclose(table.gap[k], (right[nodes] - said).mean(), atol=1e-12)
        np.testing.assert_allclose(table.ece[k], metrics.ece(probs[nodes], y[nodes]))
        n, hits = len(nodes), right[nodes].sum()
        share = (hits + 2) / (n + 4)
        np.testing.assert_allclose(table.gap_error[k], np.sqrt(share * (1 - share) / n))


def test_by_degree(case):
    probs, y, graph = case
    table = by_degree(probs, y, graph)
    degree = graph.degree.numpy()
    ends = [tuple(int(v) for v in label.split("–")) for label in table.labels]
    assert ends[0] == (0,)
    members = [np.flatnonzero((degree >= e[0]) & (degree <= e[-1])) for e in ends]
    assert sum(len(m) for m in members) == len(y)
    check_slices(table, members, probs, y)


def test_by_class_predicted_and_true(case):
    probs, y, _ = case
    names = ["a", "b", "c", "d"]
    said = by_class(probs, y, class_names=names)
    assert said.labels == tuple(names)
    check_slices(said, [np.flatnonzero(probs.argmax(1) == k) for k in range(4)], probs, y)
    true = by_class(probs, y, of="true")
    check_slices(true, [np.flatnonzero(y == k) for k in range(4)], probs, y)


def test_by_distance(case):
    probs, y, graph = case
    table = by_distance(probs, y, graph, [3, 5], farthest=2)
    distance = distance_to(graph, [3, 5])
    members = {
        "0": distance == 0,
        "1": distance == 1,
        "2 or more": distance >= 2,
        "out of reach": distance < 0,
    }
    check_slices(table, [np.flatnonzero(members[label]) for label in table.labels], probs, y)


def test_by_agreement_keeps_nodes_without_neighbours_apart(case, rng):
    probs, y, _ = case
    share = np.round(rng.random(len(y)), 1)
    share[:7] = np.nan
    table = by_agreement(probs, y, share)
    assert table.labels[-1] == "no neighbours"
    # Edges are compared in tenths, in integers, so that the test has no rounding of its own.
    tenths = np.where(np.isnan(share), -1, np.rint(share * 10)).astype(int)
    members = [np.flatnonzero((tenths >= 2 * k) & (tenths < 2 * k + 2)) for k in range(4)]
    members += [np.flatnonzero(tenths >= 8), np.flatnonzero(tenths < 0)]
    check_slices(table, members, probs, y)


def test_only_chosen_nodes_are_judged(case):
    probs, y, graph = case
    chosen = np.arange(0, 300, 3)
    hidden = np.full_like(y, -1)
    hidden[chosen] = y[chosen]
    table = by_degree(probs, hidden, graph, nodes=chosen)
    assert table.counts.sum() == 100
    check_slices(
        by_class(probs, hidden, nodes=chosen),
        [chosen[probs[chosen].argmax(1) == k] for k in range(4)],
        probs,
        y,
    )


def test_a_handful_of_right_nodes_is_not_certain():
    probs = np.array([[0.75, 0.25]] * 3)
    table = by_class(probs, np.zeros(3, dtype=int))
    assert table.gap[0] == 0.25
    assert table.gap[0] < 2 * table.gap_error[0]


def test_bad_input_is_refused(case):
    probs, y, graph = case
    with pytest.raises(ValueError, match="2 class names for 4 classes"):
        by_class(probs, y, class_names=["a", "b"])
    with pytest.raises(ValueError, match="'predicted' or 'true'"):
        by_class(probs, y, of="wrong")
    with pytest.raises(ValueError, match="needs labels: pass y"):
        by_class(probs, None, of="true")
    with pytest.raises(ValueError, match="at least 1"):
        by_distance(probs, y, graph, [0], farthest=0)
    with pytest.raises(ValueError, match=r"the classes are 0\.\.3"):
        by_class(probs, y + 1)
