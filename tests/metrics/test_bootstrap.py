"""Bootstrap intervals: exactness of the fast paths, coverage, groups."""

from functools import partial

import numpy as np
import pytest

from simi_mailbox.metrics import (
    accuracy,
    bootstrap_interval,
    brier,
    classwise_ece,
    debiased_ece,
    ece,
    kde_ece,
    nll,
)

from .samples import binary, dirichlet, overconfident


@pytest.mark.parametrize(
    "metric",
    [
        accuracy,
        nll,
        brier,
        ece,
        partial(ece, bins=7),
        debiased_ece,
        partial(debiased_ece, norm="l2"),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("method", ["basic", "percentile"])
def test_the_fast_path_equals_copying_the_nodes(metric, grouped, method):
    probs, y = overconfident(200, 3, seed=0)
    groups = np.arange(200) // 7 if grouped else None
    options = {"draws": 40, "seed": 5, "groups": groups, "method": method}
    fast = bootstrap_interval(metric, probs, y, **options)
    slow = bootstrap_interval(lambda p, labels: metric(p, labels), probs, y, **options)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=1e-12)


def test_equal_mass_and_own_metrics_take_the_general_path():
    probs, y = overconfident(200, 3, seed=0)
    interval = bootstrap_interval(partial(ece, binning="mass"), probs, y, draws=50)
    expected = bootstrap_interval(
        lambda p, labels: ece(p, labels, binning="mass"), probs, y, draws=50, method="basic"
    )
    assert interval == expected


def test_accuracy_interval_has_the_binomial_width_and_coverage():
    hits, widths = 0, []
    for seed in range(200):
        correct = np.random.default_rng(seed).random(400) < 0.8
        probs, y = binary(np.full(400, 0.8), correct)
        interval = bootstrap_interval(accuracy, probs, y, draws=200, seed=seed)
        hits += interval.low <= 0.8 <= interval.high
        widths.append(interval.high - interval.low)
    assert 0.89 <= hits / 200 <= 0.99
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.sqrt(0.16 / 400), rel=0.05)


def test_debiased_intervals_cover_zero_for_calibrated_models_and_ece_percentiles_do_not():
    covers = {"debiased": 0, "percentile": 0}
    for seed in range(100):
        probs, y = dirichlet(1000, 4, seed)
        debiased = bootstrap_interval(debiased_ece, probs, y, draws=100, seed=seed)
        plain = bootstrap_interval(ece, probs, y, draws=100, seed=seed, method="percentile")
        covers["debiased"] += debiased.low <= 0 <= debiased.high
        covers["percentile"] += plain.low <= 0 <= plain.high
    assert covers["debiased"] >= 75
    assert covers["percentile"] == 0


def test_ece_interval_covers_a_clear_error():
    """Confidence 0.9 everywhere, accuracy 0.8: the true ECE is 0.1."""
    hits = 0
    for seed in range(200):
        correct = np.random.default_rng(seed).random(500) < 0.8
        interval = bootstrap_interval(
            ece, *binary(np.full(500, 0.9), correct), draws=200, seed=seed
        )
        hits += interval.low <= 0.1 <= interval.high
    assert 0.89 <= hits / 200 <= 0.99


def test_groups_that_err_together_widen_the_interval():
    """Five copies of each node carry one node's information: the width grows by √5."""
    probs, y = overconfident(400, 3, seed=1)
    probs, y, groups = np.repeat(probs, 5, 0), np.repeat(y, 5), np.repeat(np.arange(400), 5)
    nodes = bootstrap_interval(nll, probs, y)
    blocks = bootstrap_interval(nll, probs, y, groups=groups)
    ratio = (blocks.high - blocks.low) / (nodes.high - nodes.low)
    assert ratio == pytest.approx(np.sqrt(5), rel=0.1)


def test_groups_of_unequal_size_are_drawn_whole():
    """All nodes of a group share an outcome, so every resampled accuracy is a whole-group share."""
    groups = np.repeat([10, -4, 7], [1, 2, 5])
    probs, y = binary(np.full(8, 0.9), groups == 7)
    seen = []
    bootstrap_interval(
        lambda p, labels: seen.append((len(labels), (labels == 0).sum())) or 0.0,
        probs,
        y,
        groups=groups,
        draws=100,
    )
    possible = {
        (a + 2 * b + 5 * c, 5 * c)
        for a in range(4)
        for b in range(4)
        for c in range(4)
        if a + b + c == 3
    }
    assert set(seen) - {(8, 5)} <= possible
    assert len(set(seen)) > 3


def test_a_wider_level_contains_a_narrower_one():
    probs, y = overconfident(300, 3, seed=2)
    wide = bootstrap_interval(brier, probs, y, level=0.99)
    narrow = bootstrap_interval(brier, probs, y, level=0.5)
    assert wide.low < narrow.low < brier(probs, y) < narrow.high < wide.high
    assert wide.level == 0.99


@pytest.mark.parametrize("metric", [accuracy, ece])
def test_basic_reflects_the_percentiles_at_the_observed_value(metric):
    probs, y = overconfident(2000, 3, seed=4)
    percentile = bootstrap_interval(metric, probs, y, draws=100, method="percentile")
    basic = bootstrap_interval(metric, probs, y, draws=100, method="basic")
    twice = 2 * metric(probs, y)
    assert (basic.low, basic.high) == pytest.approx(
        (twice - percentile.high, twice - percentile.low)
    )
    assert basic != percentile


@pytest.mark.parametrize("metric", [ece, classwise_ece, kde_ece])
def test_upward_biased_metrics_are_reflected_and_cut_at_zero(metric):
    probs, y = dirichlet(100, 3, seed=0)
    auto = bootstrap_interval(metric, probs, y, draws=30)
    assert auto == bootstrap_interval(metric, probs, y, draws=30, method="basic")
    assert auto.low >= 0


def test_same_seed_same_bits():
    probs, y = overconfident(100, 3, seed=3)
    first, second = (bootstrap_interval(ece, probs, y, draws=50, seed=9) for _ in range(2))
    assert first == second
    assert first != bootstrap_interval(ece, probs, y, draws=50, seed=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "between 0 and 1"),
        ({"draws": 1}, "at least 2"),
        ({"method": "bca"}, "expected one of"),
        ({"groups": np.zeros(3, int)}, "one per node"),
        ({"groups": np.zeros(2, int)}, "one group only"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(ece, np.eye(2), np.arange(2), **options)
