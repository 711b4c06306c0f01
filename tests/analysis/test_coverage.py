"""Coverage in slices of nodes: what a loop over nodes finds, and what chance would do."""

import numpy as np
import pytest

from simi_mailbox import analysis, decide
from simi_mailbox.synthetic import calibration_problem

N, K = 600, 4


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    problem = calibration_problem(N, K, seed=0)
    probs = rng.dirichlet(np.full(K, 0.5), size=N)
    y = (rng.random((N, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=K - 1)
    return probs, y, problem.graph, probs > 0.2


def test_slices_are_what_a_loop_finds(case):
    _, y, graph, sets = case
    nodes = np.arange(100, N)
    hit = sets[np.arange(N), y]
    degree = graph.degree.numpy()
    by_degree = analysis.covered_by_degree(sets, y, graph, nodes=nodes)
    for label, share, count in zip(
        by_degree.labels, by_degree.found.coverage, by_degree.found.counts, strict=True
    ):
        low, _, high = label.partition("–")
        inside = [i for i in nodes if int(low) <= degree[i] <= int(high or low)]
        assert (len(inside), hit[inside].mean()) == (count, pytest.approx(share))
    by_class = analysis.covered_by_class(sets, y[nodes], nodes=nodes)
    expected = [hit[nodes][y[nodes] == c].mean() for c in range(K)]
    np.testing.assert_allclose(by_class.found.coverage, expected)
    by_size = analysis.covered_by_size(sets, y, nodes=nodes)
    assert by_size.labels == tuple(str(s) for s in np.unique(sets[nodes].sum(axis=1)))


def test_mailbox_slices_are_those_that_rules_condition_on(case):
    probs, y, graph, sets = case
    source, target = graph.edge_index().numpy()
    alike = np.zeros(N)
    for i in np.unique(target):
        alike[i] = np.mean(probs[source[target == i]] @ probs[i])
    above = probs.max(axis=1) >= np.median(probs.max(axis=1))
    groups = 2 * above
    for half in (above, ~above):
        groups[half] += alike[half] >= np.median(alike[half])
    table = analysis.covered_by_mailbox(sets, y, probs, graph)
    assert table.found.counts.tolist() == np.bincount(groups, minlength=4).tolist()
    np.testing.assert_allclose(
        table.found.coverage, [sets[np.arange(N), y][groups == g].mean() for g in range(4)]
    )


def test_chance_is_no_news_and_a_neglected_class_is(case):
    _, y, _, _ = case
    rng = np.random.default_rng(1)
    even = np.zeros((N, K), dtype=bool)
    even[np.arange(N), y] = rng.random(N) < 0.9
    assert not analysis.covered_by_class(even, y).significant
    even[(y == 2) & (rng.random(N) < 0.3)] = False
    table = analysis.covered_by_class(even, y, class_names=["a", "b", "c", "d"])
    assert table.significant
    assert table.worst == "c"
    assert table.found.worst < table.found.worst_by_chance


def test_class_conditional_sets_leave_no_class_behind(case):
    probs, y, _, _ = case
    rule = decide.PredictionSets(score="lac", condition_on="class", coverage=0.8)
    sets = rule.fit(probs, y, mask=range(400), used_for_selection=False).predict_sets(probs)
    table = analysis.covered_by_class(sets, y, nodes=np.arange(400, N))
    assert (table.found.high > 0.8).all()


def test_names_must_fit(case):
    _, y, _, sets = case
    with pytest.raises(ValueError, match="3 class names for 4 classes"):
        analysis.covered_by_class(sets, y, class_names=["a", "b", "c"])
