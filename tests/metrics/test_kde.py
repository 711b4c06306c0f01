"""KDE-ECE against KDEpy, and where the recipe is undefined."""

import numpy as np
import pytest
from hypothesis import given
from KDEpy import FFTKDE

from simi_mailbox.metrics import ece, kde_ece

from .samples import binary, dirichlet, overconfident, predictions


def recipe(confidence, correct, bandwidth=None):
    """The published recipe on top of KDEpy, whose bandwidth is a third of the half-width."""
    n, right = len(confidence), confidence[correct]
    grid = np.linspace(-0.6, 1.6, 2**14)
    bandwidth = bandwidth or right.std() * (2 * n) ** -0.2

    def density(values):
        mirrored = np.concatenate([-values[values < 0.5], 2 - values[values >= 0.5]])
        kde = FFTKDE(bw=bandwidth, kernel="triweight").fit(np.concatenate([values, mirrored]))
        on_grid = 2 * kde.evaluate(grid)
        on_grid[(grid <= 0) | (grid >= 1)] = 0
        return on_grid

    every, hit = density(confidence), density(right)
    integrand = np.zeros_like(grid)
    for i in range(1, len(grid)):
        if max(every[i], hit[i]) > 1e-6:
            accuracy = min(correct.mean() * hit[i] / every[i], 1.0)
            integrand[i] = abs(grid[i] - accuracy) * every[i]
        else:
            integrand[i] = integrand[i - 1]
    inside = (grid >= 0) & (grid <= 1)
    total = np.trapezoid(integrand[inside], grid[inside])
    return total / np.trapezoid(every[inside], grid[inside])


@pytest.mark.parametrize("make", [dirichlet, overconfident])
@pytest.mark.parametrize(("n", "classes"), [(30, 3), (200, 2), (2000, 7), (10_000, 40)])
def test_equals_the_recipe_on_kdepy(make, n, classes):
    probs, y = make(n, classes, seed=n)
    expected = recipe(probs.max(axis=1), probs.argmax(axis=1) == y)
    assert kde_ece(probs, y) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("n", "classes"), [(200, 2), (2000, 7)])
def test_the_bandwidth_of_the_papers_text(n, classes):
    probs, y = overconfident(n, classes, seed=n)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    half_width = 1.06 * confidence.std() * n**-0.2
    expected = recipe(confidence, correct, half_width / 3)
    assert kde_ece(probs, y, bandwidth="text") == pytest.approx(expected, abs=1e-5)
    assert kde_ece(probs, y, bandwidth="text") != pytest.approx(kde_ece(probs, y), abs=1e-5)
    with pytest.raises(ValueError, match="bandwidth must be 'released' or 'text', got 'wide'"):
        kde_ece(probs, y, bandwidth="wide")


def test_equals_the_recipe_with_sure_and_with_separated_nodes():
    rng = np.random.default_rng(0)
    confidence = np.r_[np.ones(300), np.full(50, 0.5), rng.uniform(0.5, 0.6, 200), 0.9]
    correct = rng.random(len(confidence)) < confidence - 0.1
    expected = recipe(confidence, correct)
    assert kde_ece(*binary(confidence, correct)) == pytest.approx(expected, abs=1e-3)


def test_agrees_with_binned_ece_where_the_error_is_large():
    probs, y = overconfident(20_000, 3, seed=1)
    assert kde_ece(probs, y) == pytest.approx(ece(probs, y), abs=0.01)


def test_all_correct_gives_one_minus_the_mean_confidence():
    confidence = np.random.default_rng(1).uniform(0.6, 0.9, 500)
    probs, y = binary(confidence, np.ones(500, bool))
    assert kde_ece(probs, y) == pytest.approx(1 - confidence.mean(), abs=1e-3)


def test_none_correct_gives_the_mean_confidence():
    confidence = np.random.default_rng(1).uniform(0.6, 0.9, 500)
    probs, y = binary(confidence, np.zeros(500, bool))
    assert kde_ece(probs, y) == pytest.approx(confidence.mean(), abs=1e-3)


@pytest.mark.parametrize("confidence", [0.5, 0.7, 1.0])
@pytest.mark.parametrize("right", [0, 3, 10])
def test_constant_confidence_gives_its_gap(confidence, right):
    probs, y = binary(np.full(10, confidence), np.arange(10) < right)
    assert kde_ece(probs, y) == pytest.approx(abs(confidence - right / 10))


def test_correct_nodes_of_one_confidence_fall_back_to_the_spread_of_all():
    confidence = np.r_[np.full(5, 0.8), np.linspace(0.55, 0.95, 100)]
    probs, y = binary(confidence, np.arange(105) < 5)
    assert kde_ece(probs, y) == pytest.approx(ece(probs, y), abs=0.02)


def test_nearly_constant_confidences_are_resolved_by_the_grid():
    confidence = 0.7 + np.arange(100) * 1e-12
    probs, y = binary(confidence, np.arange(100) < 40)
    assert kde_ece(probs, y) == pytest.approx(0.3, abs=1e-3)


@given(predictions())
def test_bounds_and_node_order(sample):
    probs, y = sample
    value = kde_ece(probs, y)
    assert 0 <= value <= 1
    assert kde_ece(probs[::-1], y[::-1]) == pytest.approx(value, abs=1e-9)
