"""Our reading of SimCalib: temperatures that follow its inputs are found."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from simi_mailbox import Graph
from simi_mailbox.calibrators import SimCalib, TemperatureScaling
from simi_mailbox.calibrators.neighbours import mean_support
from simi_mailbox.calibrators.simcalib import log_relative_degree
from simi_mailbox.validation import NodeInputs
from tests.calibrators import problems


def problem(n, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 5))
    z = features @ rng.normal(size=(5, 3)) * 2
    return z, features, Graph.from_edges(rng.integers(0, n - 5, size=(2, 2 * n)), n)


def draw(z, truth, seed=0):
    log_truth = log_softmax(z / truth[:, None], axis=1)
    return log_truth, problems.draw(log_truth, seed)


def test_close_to_the_oracle_when_homophily_decides():
    z, x, graph = problem(4000)
    s = mean_support(NodeInputs(torch.from_numpy(z), graph=graph)).numpy()
    log_truth, y = draw(z, np.exp(2 - 3 * s))
    fit_on, stop_on, rest = np.split(np.arange(4000), [1200, 1600])
    cal = SimCalib(lr=0.05).fit(
        z, y, graph=graph, features=x, mask=fit_on, early_stopping_mask=stop_on
    )
    found = -np.log(cal.predict_proba(z, graph=graph, features=x))[rest, y[rest]].mean()
    plain = -np.log(TemperatureScaling().fit(z, y, mask=fit_on).predict_proba(z))
    oracle = -log_truth[rest, y[rest]].mean()
    assert found < 1.02 * oracle
    assert plain[rest, y[rest]].mean() > 1.04 * oracle


def test_distance_to_the_prototype_is_an_input():
    z, x, graph = problem(4000, seed=1)
    cal = SimCalib(lr=0.05, epochs=300)
    cal.fit(z, z.argmax(1), graph=graph, features=x, mask=range(10))
    away = cal._inputs(NodeInputs(torch.from_numpy(z), graph, torch.from_numpy(x)))[:, 0]
    _, y = draw(z, np.exp(((away - away.mean()) / away.std()).clip(-2, 2)))
    cal.fit(z, y, graph=graph, features=x, mask=range(2000))
    hot = cal.node_temperatures(z, graph=graph, features=x)
    assert np.corrcoef(away, np.log(hot))[0, 1] > 0.7


def test_starts_at_temperature_scaling():
    z, x, graph = problem(200)
    _, y = draw(z, np.full(200, 2.0))
    cal = SimCalib(epochs=1, lr=1e-12).fit(z, y, graph=graph, features=x, mask=range(15))
    plain = TemperatureScaling().fit(z, y, mask=range(15)).temperature_
    np.testing.assert_allclose(cal.node_temperatures(z, graph=graph, features=x), plain, rtol=1e-6)


def test_no_label_enters_the_prototypes_and_lonely_nodes_count_as_average():
    z, x, graph = problem(100)
    _, y = draw(z, np.full(100, 2.0))
    a, b = (
        SimCalib(epochs=2).fit(z, labels, graph=graph, features=x, mask=range(50))
        for labels in (y, (y + 1) % 3)
    )
    np.testing.assert_array_equal(a.prototypes_, b.prototypes_)
    np.testing.assert_array_equal(a.precision_, b.precision_)
    cal = SimCalib(epochs=20).fit(z, y, graph=graph, features=x, mask=range(50))
    nodes = NodeInputs(torch.from_numpy(z), graph, torch.from_numpy(x))
    inputs = cal._network(nodes).inputs
    alone = graph.degree == 0
    assert bool(alone.any())
    assert bool((inputs[alone, 2:] == 0).all())
    np.testing.assert_allclose(inputs[~alone, 2:].mean(dim=0), 0.0, atol=0.1)


def test_relative_degree_against_a_loop():
    _, _, graph = problem(50)
    found = log_relative_degree(graph)
    degree = graph.degree.numpy()
    for i in np.flatnonzero(degree):
        around = degree[graph.neighbours(i).numpy()]
        expected = np.log(np.sqrt((degree[i] + 1) / (around + 1)).mean())
        assert found[i].item() == pytest.approx(expected)
