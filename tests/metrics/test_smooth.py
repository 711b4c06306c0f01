"""Smooth ECE against its definition, and against numbers of another implementation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.metrics import class_interval, smooth_ece


def sample(n, a, b, sharpness):
    """P(class) of a beta distribution, sharpened after outcomes were drawn."""
    rng = np.random.default_rng(7)
    p = rng.beta(a, b, n)
    y = rng.random(n) < p
    return 1 / (1 + np.exp(-np.log(p / (1 - p)) * sharpness)), y


def by_definition(f, y, sigma):
    t = np.linspace(0, 1, 2001)
    images = [side * f + 2 * k for k in range(-4, 5) for side in (1, -1)]
    kernel = sum(np.exp(-0.5 * ((t[:, None] - image) / sigma) ** 2) for image in images)
    density = np.abs(kernel @ (y - f)) / (len(f) * sigma * np.sqrt(2 * np.pi))
    return np.trapezoid(density, t)


@given(st.integers(0, 1000), st.integers(1, 40), st.sampled_from([0.02, 0.1, 0.5]))
def test_at_one_width_it_is_the_integral(seed, n, sigma):
    rng = np.random.default_rng(seed)
    f, y = rng.random(n), rng.random(n) < 0.5
    assert smooth_ece(f, y, sigma=sigma) == pytest.approx(by_definition(f, y, sigma), abs=2e-5)


# relplot 1.0.3, smECE(f, y); it bisects the width in steps of 2^-10.
@pytest.mark.parametrize(
    ("case", "known"),
    [
        ((2000, 1, 1, 1.0), 0.029751),
        ((5000, 0.4, 6, 1.0), 0.008506),
        ((1000, 2, 2, 2.5), 0.132604),
        ((60, 2, 1, 0.5), 0.078835),
    ],
)
def test_another_implementation_finds_the_same(case, known):
    assert smooth_ece(*sample(*case)) == pytest.approx(known, abs=1e-3)


def test_it_is_its_own_width():
    f, y = sample(500, 2, 2, 2.0)
    found = smooth_ece(f, y)
    assert smooth_ece(f, y, sigma=found) == pytest.approx(found, abs=1e-6)


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


def test_it_has_intervals_and_refuses_no_width():
    f, y = sample(300, 2, 2, 2.0)
    found = class_interval(smooth_ece, f, y, draws=30)
    assert found.low < found.high
    with pytest.raises(ValueError, match="positive width"):
        smooth_ece(f, y, sigma=0.0)
