from __future__ import annotations

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import multivariate_normal

from simi_mailbox.data.synthetic import BlockModel, calibration_problem, csbm, stream_edges


def largest_deviation(probs: Any, y: Any, bins: int = 10) -> float:
    """Largest gap, in standard errors, between frequency and probability over bins."""
    hit = (y[:, None] == np.arange(probs.shape[1])).ravel()
    p = probs.ravel()
    place = np.minimum((p * bins).astype(int), bins - 1)
    gaps = []
    for k in range(bins):
        inside = place == k
        variance = (p * (1 - p))[inside].sum()
        if variance > 5:
            gaps.append(abs((hit - p)[inside].sum()) / np.sqrt(variance))
    assert len(gaps) >= 5
    return float(max(gaps))


# --- graphs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["constant", "power"])
@pytest.mark.parametrize("homophily", [0.0, 0.3, 0.9, 1.0])
def test_degree_and_homophily_are_as_asked(law: Any, homophily: float) -> None:
    drawn = csbm(
        8000, 3, homophily=homophily, mean_degree=8, degree_law=law, prior=[0.5, 0.3, 0.2], seed=5
    ).dataset
    assert drawn.graph.num_entries / 8000 == pytest.approx(8, rel=0.05)
    # Class weights of a heavy-tailed graph vary, and homophily with them.
    assert drawn.homophily() == pytest.approx(homophily, abs=0.04)
    share = np.bincount(drawn.y) / 8000
    assert share == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


def test_the_power_law_has_hubs_and_the_constant_law_has_none() -> None:
    degrees = {
        law: csbm(5000, 2, mean_degree=10, degree_law=law, seed=1).dataset.graph.degree.numpy()
        for law in ("constant", "power")
    }
    assert degrees["constant"].max() < 35
    assert degrees["power"].max() > 150
    # Poisson: variance equals mean when all classes have one rate.
    assert degrees["constant"].var() == pytest.approx(degrees["constant"].mean(), rel=0.1)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 5000),
    st.sampled_from(["constant", "power"]),
    st.integers(2, 5),
    st.integers(0, 2**31),
)
def test_edges_do_not_depend_on_the_block(block: int, law: Any, classes: int, seed: int) -> None:
    model = BlockModel(300, classes, mean_degree=6, degree_law=law, seed=seed)
    blocks = list(stream_edges(model, block=block))
    assert all(edges.shape[1] == block for edges in blocks[:-1])
    together = np.concatenate(blocks, axis=1)
    assert np.array_equal(together, np.concatenate(list(stream_edges(model)), axis=1))
    assert (together[0] != together[1]).all()
    assert together.min() >= 0
    assert together.max() < 300


def test_blocks_across_the_generators_chunks_agree() -> None:
    model = BlockModel(20_000, 2, mean_degree=60, homophily=0.95, seed=0)
    whole = np.concatenate(list(stream_edges(model, block=10_000_000)), axis=1)
    assert whole.shape[1] > 2 * (1 << 18)
    cut = np.concatenate(list(stream_edges(model, block=99_991)), axis=1)
    assert np.array_equal(whole, cut)


def test_streaming_gives_the_graph_of_csbm() -> None:
    drawn = csbm(400, 3, seed=9)
    edges = np.concatenate(list(stream_edges(drawn.model)), axis=1)
    stored = {tuple(pair) for pair in drawn.dataset.graph.edge_index().T.tolist()}
    assert {(a, b) for a, b in edges.T.tolist()} <= stored
    assert len(stored) == 2 * len({frozenset(pair) for pair in edges.T.tolist()})


def test_memory_follows_the_block_and_not_the_edges() -> None:
    totals, peaks = [], []
    for degree in (800, 1600):
        model = BlockModel(4000, 2, mean_degree=degree, seed=0)
        labels = model.labels()
        tracemalloc.start()
        blocks = stream_edges(model, block=1 << 16, labels=labels)
        totals.append(sum(edges.shape[1] for edges in blocks))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert totals[1] > 1.9 * totals[0] > 2_900_000
    assert peaks[1] < 1.05 * peaks[0]


def test_changing_features_leaves_the_graph_as_it_was() -> None:
    one, other = csbm(300, 3, features=4, seed=2), csbm(300, 3, features=9, noise=3.0, seed=2)
    assert one.dataset.graph == other.dataset.graph
    assert np.array_equal(one.dataset.y, other.dataset.y)


def test_seeds_differ() -> None:
    assert csbm(300, 3, seed=1).dataset.graph != csbm(300, 3, seed=2).dataset.graph


# --- posteriors ------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 1}, "n ≥ 2"),
        ({"classes": 1}, "classes ≥ 2"),
        ({"homophily": 1.2}, "homophily is a share"),
        ({"mean_degree": 0}, "mean_degree must be above 0"),
        ({"mean_degree": 200}, "below n"),
        ({"degree_law": "pareto"}, "'constant' or 'power'"),
        ({"exponent": 2.0}, "exponent must be above 2"),
        ({"noise": 0.0}, "noise > 0"),
        ({"seed": -1}, "seed must not be negative"),
        ({"prior": [0.5, 0.6]}, "sum to 1"),
        ({"prior": [1.0, 0.0]}, "2 positive numbers"),
        ({"prior": [0.5, 0.3, 0.2]}, "2 positive numbers"),
    ],
)
def test_impossible_models_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        csbm(**{"n": 100, "classes": 2, **parameters})


def test_an_empty_block_is_refused() -> None:
    with pytest.raises(ValueError, match="block must be at least 1"):
        stream_edges(BlockModel(10, 2, mean_degree=2), block=0)


# --- calibration problems --------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 2.5, lambda conf, sim: 0.5 + conf + 2 * sim])
def test_labels_are_drawn_from_the_true_probabilities(temperature: Any) -> None:
    problem = calibration_problem(20_000, 5, temperature=temperature, seed=1)
    assert largest_deviation(problem.probs, problem.y) < 4
    again = softmax(problem.logits.astype(np.float64) / problem.temperature[:, None], axis=1)
    assert np.array_equal(again, problem.probs)


def test_the_temperature_sees_confidence_and_mailbox() -> None:
    seen: list[Any] = []

    def temperature(confidence: Any, similarity: Any) -> Any:
        seen.extend([confidence, similarity])
        return 1 + similarity

    problem = calibration_problem(3000, 4, temperature=temperature, seed=0)
    assert np.array_equal(seen[0], softmax(problem.logits.astype(np.float64), axis=1).max(axis=1))
    z, graph = problem.logits.astype(np.float64), problem.graph
    for node in range(0, 3000, 311):
        neighbours = graph.neighbours(node).numpy()
        expected = (1 / (1 + np.exp(-z[neighbours] @ z[node]))).mean() if neighbours.size else 0
        assert seen[1][node] == pytest.approx(expected)
    assert np.array_equal(problem.temperature, 1 + seen[1])


def test_problems_cover_the_range_of_confidence_and_similarity() -> None:
    problem = calibration_problem(5000, seed=0)
    for values in (problem.confidence, problem.similarity):
        low, high = np.quantile(values, [0.1, 0.9])
        assert high - low > 0.3


def test_the_seed_decides_everything_but_the_temperature() -> None:
    first, second = (calibration_problem(500, temperature=t, seed=3) for t in (1.0, 3.0))
    assert np.array_equal(first.logits, second.logits)
    assert first.graph == second.graph
    other = calibration_problem(500, seed=4)
    assert not np.array_equal(first.logits, other.logits)
    assert np.array_equal(first.y, calibration_problem(500, seed=3).y)


def test_hotter_means_less_often_right() -> None:
    accuracy = []
    for temperature in (0.5, 1.0, 2.0, 4.0):
        problem = calibration_problem(4000, temperature=temperature, seed=0)
        accuracy.append((problem.logits.argmax(axis=1) == problem.y).mean())
    assert all(cold > hot for cold, hot in pairwise(accuracy))


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, lambda conf, sim: sim - 5])
def test_temperatures_must_be_positive(temperature: Any) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        calibration_problem(100, temperature=temperature)
