"""Synthetic graphs and their exact posteriors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from simi_mailbox.data.synthetic import csbm, stream_edges
from tests.data.synthetic.judging import largest_deviation


def test_streaming_gives_the_graph_of_csbm() -> None:
    drawn = csbm(400, 3, seed=9)
    edges = np.concatenate(list(stream_edges(drawn.model)), axis=1)
    stored = {tuple(pair) for pair in drawn.dataset.graph.edge_index().T.tolist()}
    assert {(a, b) for a, b in edges.T.tolist()} <= stored
    assert len(stored) == 2 * len({frozenset(pair) for pair in edges.T.tolist()})


def test_changing_features_leaves_the_graph_as_it_was() -> None:
    one, other = csbm(300, 3, features=4, seed=2), csbm(300, 3, features=9, noise=3.0, seed=2)
    assert one.dataset.graph == other.dataset.graph
    assert np.array_equal(one.dataset.y, other.dataset.y)


def test_seeds_differ() -> None:
    assert csbm(300, 3, seed=1).dataset.graph != csbm(300, 3, seed=2).dataset.graph


def test_feature_posterior_is_bayes_rule() -> None:
    drawn = csbm(50, 3, prior=[0.6, 0.3, 0.1], features=4, noise=0.7, separation=1.5, seed=4)
    model, x = drawn.model, np.asarray(drawn.dataset.x, dtype=np.float64)
    likelihood = np.stack(
        [multivariate_normal(mean, model.noise**2 * np.eye(4)).pdf(x) for mean in model.means()],
        axis=1,
    )
    joint = likelihood * model.class_probabilities
    assert drawn.given_features == pytest.approx(joint / joint.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("law", ["constant", "power"])
def test_full_posterior_equals_brute_force(law: Any) -> None:
    drawn = csbm(12, 3, prior=[0.5, 0.3, 0.2], mean_degree=4, homophily=0.6, degree_law=law, seed=8)
    model, y, theta = drawn.model, drawn.dataset.y, drawn.propensities
    adjacency = np.zeros((12, 12), dtype=bool)
    adjacency[tuple(drawn.dataset.graph.edge_index().numpy())] = True
    within, between = model.rates
    for i in range(12):
        joint = np.array(drawn.given_features[i])
        for k in range(3):
            for j in range(12):
                if j != i:
                    rate = theta[i] * theta[j] * (within if y[j] == k else between)
                    joint[k] *= 1 - np.exp(-rate) if adjacency[i, j] else np.exp(-rate)
        assert drawn.given_rest[i] == pytest.approx(joint / joint.sum(), rel=1e-9)


@pytest.mark.parametrize("law", ["constant", "power"])
def test_posteriors_are_calibrated_and_the_graph_helps(law: Any) -> None:
    drawn = csbm(
        20_000, 3, prior=[0.6, 0.3, 0.1], homophily=0.7, mean_degree=5, degree_law=law, seed=3
    )
    y = drawn.dataset.y
    assert largest_deviation(drawn.given_features, y) < 4
    assert largest_deviation(drawn.given_rest, y) < 4
    accuracy = [
        (posterior.argmax(axis=1) == y).mean()
        for posterior in (drawn.given_features, drawn.given_rest)
    ]
    assert accuracy[1] > accuracy[0] + 0.03


@pytest.mark.parametrize("homophily", [0.0, 1.0])
def test_impossible_edges_decide_a_class(homophily: float) -> None:
    drawn = csbm(500, 2, homophily=homophily, mean_degree=6, separation=0.0, seed=0)
    joined = drawn.dataset.graph.degree.numpy() > 0
    own = drawn.given_rest[np.arange(500), drawn.dataset.y]
    assert np.isfinite(drawn.given_rest).all()
    assert own[joined] == pytest.approx(1)
