"""KDE-ECE against KDEpy, and smooth ECE against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from KDEpy import FFTKDE

from simi_mailbox.metrics import ece, kde_ece, smooth_ece

from .samples import binary, dirichlet, overconfident


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


@pytest.mark.parametrize(("bandwidth", "tolerance"), [("released", 1e-6), ("text", 1e-5)])
@pytest.mark.parametrize("make", [dirichlet, overconfident])
@pytest.mark.parametrize(("n", "classes"), [(30, 3), (200, 2), (2000, 7), (10_000, 40)])
def test_equals_the_recipe_on_kdepy(make, n, classes, bandwidth, tolerance):
    probs, y = make(n, classes, seed=n)
    confidence = probs.max(axis=1)
    width = 1.06 * confidence.std() * n**-0.2 / 3 if bandwidth == "text" else None
    expected = recipe(confidence, probs.argmax(axis=1) == y, width)
    assert kde_ece(probs, y, bandwidth=bandwidth) == pytest.approx(expected, abs=tolerance)


def test_equals_the_recipe_with_sure_and_with_separated_nodes():
    rng = np.random.default_rng(0)
    confidence = np.r_[np.ones(300), np.full(50, 0.5), rng.uniform(0.5, 0.6, 200), 0.9]
    correct = rng.random(len(confidence)) < confidence - 0.1
    expected = recipe(confidence, correct)
    assert kde_ece(*binary(confidence, correct)) == pytest.approx(expected, abs=1e-3)
    with pytest.raises(ValueError, match=r"'wide'; expected one of \['released', 'text'\]"):
        kde_ece(*binary(confidence, correct), bandwidth="wide")


@pytest.mark.parametrize("right", [0, 3, 10])
@pytest.mark.parametrize("confidence", [0.5, 0.7, 1.0])
def test_constant_confidence_gives_its_gap(confidence, right):
    probs, y = binary(np.full(10, confidence), np.arange(10) < right)
    assert kde_ece(probs, y) == pytest.approx(abs(confidence - right / 10))


SPREAD = np.random.default_rng(1).uniform(0.6, 0.9, 500)
STEPS = np.r_[np.full(5, 0.8), np.linspace(0.55, 0.95, 100)]


@pytest.mark.parametrize(
    ("confidence", "right", "expected", "tolerance"),
    [
        (SPREAD, 500, 1 - SPREAD.mean(), 1e-3),
        (SPREAD, 0, SPREAD.mean(), 1e-3),
        (STEPS, 5, ece(*binary(STEPS, np.arange(105) < 5)), 0.02),  # right ones have no spread
        (0.7 + np.arange(100) * 1e-12, 40, 0.3, 1e-3),  # nearly constant: resolved by the grid
    ],
)
def test_where_the_recipe_is_undefined(confidence, right, expected, tolerance):
    probs, y = binary(confidence, np.arange(len(confidence)) < right)
    assert kde_ece(probs, y) == pytest.approx(expected, abs=tolerance)


def by_definition(f, y, sigma):
    t = np.linspace(0, 1, 2001)
    images = [side * f + 2 * k for k in range(-4, 5) for side in (1, -1)]
    kernel = sum(np.exp(-0.5 * ((t[:, None] - image) / sigma) ** 2) for image in images)
    density = np.abs(kernel @ (y - f)) / (len(f) * sigma * np.sqrt(2 * np.pi))
    return np.trapezoid(density, t)


@given(st.integers(0, 1000), st.integers(1, 40))
def test_it_is_the_width_at_which_the_integral_equals_the_width(seed, n):
    rng = np.random.default_rng(seed)
    f, y = rng.random(n), rng.random(n) < 0.5
    found = smooth_ece(f, y)
    assert by_definition(f, y, found) == pytest.approx(found, abs=2e-5)


def test_certainty_that_is_right_has_no_error_and_that_is_wrong_has_one():
    f = np.array([0.0, 1.0, 1.0])
    assert smooth_ece(f, f > 0) == 0.0
    assert smooth_ece(np.ones(3), np.zeros(3, dtype=int)) == pytest.approx(1.0)


def test_of_the_predicted_class_unless_one_is_named():
    p = np.linspace(0.51, 0.99, 50)
    y = np.arange(50) % 4 == 0
    both = np.stack([p, 1 - p], axis=1)
    labels = np.where(y, 0, 1)
    assert smooth_ece(both, labels) == pytest.approx(smooth_ece(p, y))
    assert smooth_ece(both, labels, positive=0) == pytest.approx(smooth_ece(p, y))
    assert smooth_ece(both, labels, positive=1) == pytest.approx(smooth_ece(1 - p, ~y))
