"""Debiased ECE: its formula, and what it does to real error."""

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import norm as normal

from simi_mailbox.metrics import debiased_ece, ece

from .samples import binary, overconfident, predictions


def residual_bins(probs, y, bins=15):
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    return [(correct - confidence)[index == b] for b in range(bins)]


def test_l1_is_the_average_over_random_halvings():
    """The closed form against actual halvings of the nodes of one bin."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.81, 0.86, 300)
    probs, y = binary(confidence, rng.random(300) < confidence - 0.02)
    residuals = (y == 0) - confidence
    in_first = rng.random((40_000, 300)) < 0.5
    first = in_first @ residuals
    second = residuals.sum() - first
    halvings = np.sign(first) * second + np.sign(second) * first
    error = halvings.std() / 200 / 300
    assert debiased_ece(probs, y) == pytest.approx(halvings.mean() / 300, abs=4 * error + 2e-4)


def test_l1_equals_its_formula():
    probs, y = overconfident(800, 4, seed=0)
    total = 0.0
    for r in residual_bins(probs, y):
        if len(r):
            gap, noise = r.sum(), np.sqrt((r**2).sum())
            sign = 2 * normal.cdf(gap / noise) - 1
            total += gap * sign - 2 * noise * normal.pdf(gap / noise)
    assert debiased_ece(probs, y) == pytest.approx(total / 800, abs=1e-12)


def test_l2_is_the_mean_product_of_distinct_pairs():
    probs, y = overconfident(300, 3, seed=1)
    total = 0.0
    for r in residual_bins(probs, y):
        if len(r) > 1:
            products = np.outer(r, r)
            pairs = products.sum() - np.trace(products)
            total += len(r) / 300 * pairs / (len(r) * (len(r) - 1))
    assert debiased_ece(probs, y, norm="l2") == pytest.approx(np.sqrt(total), abs=1e-12)


def test_clear_error_is_kept():
    probs, y = overconfident(50_000, 5, seed=2)
    assert debiased_ece(probs, y) == pytest.approx(ece(probs, y), rel=0.03)
    assert debiased_ece(probs, y, norm="l2") >= ece(probs, y) * 0.99


@given(predictions())
def test_l1_never_exceeds_ece(sample):
    probs, y = sample
    assert debiased_ece(probs, y) <= ece(probs, y) + 1e-12


@given(predictions())
def test_the_order_of_nodes_does_not_matter(sample):
    probs, y = sample
    value = debiased_ece(probs, y, binning="mass")
    assert debiased_ece(probs[::-1], y[::-1], binning="mass") == pytest.approx(value, abs=1e-12)


def test_sure_and_right_is_exactly_zero():
    assert debiased_ece(np.eye(3), np.arange(3)) == 0.0
    assert debiased_ece(np.eye(3), np.arange(3), norm="l2") == 0.0


def test_an_unknown_norm_lists_the_choices():
    with pytest.raises(ValueError, match="'l3'; expected one of"):
        debiased_ece(np.eye(2), np.arange(2), norm="l3")
