"""Synthetic problems: labels follow the stated probabilities."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from simi_mailbox import calibrators
from simi_mailbox.mailbox import mailbox
from simi_mailbox.synthetic import calibration_problem, copied_pages


def deviation(probs, y):
    """Largest gap between frequency and probability over ten bins, in standard errors."""
    p, hit = probs.ravel(), (y[:, None] == np.arange(probs.shape[1])).ravel()
    place = np.minimum((10 * p).astype(int), 9)
    gaps, variance = (np.bincount(place, w, 10) for w in (hit - p, p * (1 - p)))
    return float(np.abs(gaps / np.sqrt(variance)).max())


@pytest.mark.parametrize("temperature", [1.0, 2.5, lambda conf, sim: 0.5 + conf + 2 * sim])
def test_labels_are_drawn_from_the_true_probabilities(temperature):
    problem = calibration_problem(20_000, 5, temperature=temperature, seed=1)
    assert deviation(problem.probs, problem.y) < 4
    again = softmax(problem.logits.astype(np.float64) / problem.temperature[:, None], axis=1)
    assert np.array_equal(again, problem.probs)


def test_the_temperature_sees_confidence_and_mailbox():
    seen = []

    def temperature(confidence, similarity):
        seen.extend([confidence, similarity])
        return 1 + similarity

    problem = calibration_problem(3000, 4, temperature=temperature, seed=0)
    z = problem.logits.astype(np.float64)
    assert np.array_equal(seen[0], softmax(z, axis=1).max(axis=1))
    assert np.array_equal(seen[1], mailbox(torch.from_numpy(z), problem.graph).numpy())
    assert np.array_equal(problem.temperature, 1 + seen[1])


def test_the_seed_decides_everything_but_the_temperature():
    first, second = (calibration_problem(500, temperature=t, seed=3) for t in (1.0, 3.0))
    assert np.array_equal(first.logits, second.logits)
    assert first.graph == second.graph
    other = calibration_problem(500, seed=4)
    assert not np.array_equal(first.logits, other.logits)
    assert np.array_equal(first.y, calibration_problem(500, seed=3).y)


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.nan, lambda conf, sim: sim - 5])
def test_temperatures_must_be_positive(temperature):
    with pytest.raises(ValueError, match="positive and finite"):
        calibration_problem(100, temperature=temperature)


@pytest.fixture(scope="module")
def pages():
    return copied_pages(seed=1)


def test_labels_follow_the_probabilities_and_copies_link_to_copies_of_their_page(pages):
    for nodes in (pages.copied, ~pages.copied):
        assert deviation(pages.probs[nodes], pages.y[nodes]) < 4
    graph, copied = pages.graph, pages.copied
    rows, columns = graph.rows().numpy(), graph.indices.numpy()
    assert (copied[rows] == copied[columns]).all()
    ends = pages.x[rows[copied[rows]]], pages.x[columns[copied[rows]]]
    assert np.abs(ends[0] - ends[1]).mean() < 0.2


def test_a_model_that_adds_up_neighbours_errs_in_both_directions(pages):
    train, y, graph = pages.train, pages.y, pages.graph
    model = LogisticRegression(max_iter=1000).fit(pages.sums[train], y[train])
    logits = model.decision_function(pages.sums)

    def gap(method, nodes):
        cal = calibrators.get(method)().fit(logits, y, graph=graph, mask=pages.val)
        probs = cal.predict_proba(logits, graph=graph)
        return (pages.probs[np.arange(len(probs)), probs.argmax(1)] - probs.max(1))[nodes].mean()

    for method in ("uncalibrated", "temperature"):
        assert gap(method, pages.copied) < -0.05
        assert gap(method, ~pages.copied) > 0.1
    with pytest.raises(ValueError, match="share=0"):
        copied_pages(100, share=0)
