"""Bootstrap intervals, and the noise floor: what a perfectly calibrated model shows."""

from functools import partial

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.metrics import accuracy, bootstrap_interval, brier, debiased_ece, ece, noise_floor
from simi_mailbox.metrics.sampling import calibrated_ece

from .samples import binary, dirichlet, overconfident

METRICS = [accuracy, metrics.nll, brier, ece, debiased_ece]


@pytest.mark.parametrize("metric", [*METRICS, partial(ece, bins=7), partial(ece, binning="mass")])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("method", ["basic", "percentile"])
def test_the_fast_path_equals_copying_the_nodes(metric, grouped, method):
    probs, y = overconfident(200, 3, seed=0)
    groups = np.arange(200) // 7 if grouped else None
    options = {"draws": 40, "seed": 5, "groups": groups, "method": method}
    fast = bootstrap_interval(metric, probs, y, **options)
    slow = bootstrap_interval(lambda p, labels: metric(p, labels), probs, y, **options)
    assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=1e-12)


@pytest.mark.parametrize(("metric", "confidence", "truth"), [(accuracy, 0.8, 0.8), (ece, 0.9, 0.1)])
def test_intervals_cover_the_truth_and_that_of_accuracy_is_binomial(metric, confidence, truth):
    """Accuracy is 0.8; at confidence 0.9 everywhere the true ECE is 0.1."""
    hits, widths = 0, []
    for seed in range(200):
        sample = binary(np.full(400, confidence), np.random.default_rng(seed).random(400) < 0.8)
        interval = bootstrap_interval(metric, *sample, draws=200, seed=seed)
        hits += interval.low <= truth <= interval.high
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


def test_groups_that_err_together_widen_the_interval():
    """Five copies of each node carry one node's information: the width grows by √5."""
    probs, y = overconfident(400, 3, seed=1)
    probs, y, groups = np.repeat(probs, 5, 0), np.repeat(y, 5), np.repeat(np.arange(400), 5)
    nodes = bootstrap_interval(metrics.nll, probs, y)
    blocks = bootstrap_interval(metrics.nll, probs, y, groups=groups)
    ratio = (blocks.high - blocks.low) / (nodes.high - nodes.low)
    assert ratio == pytest.approx(np.sqrt(5), rel=0.1)


@pytest.mark.parametrize(
    "metric", [ece, partial(ece, binning="mass"), metrics.classwise_ece, metrics.kde_ece]
)
def test_upward_biased_metrics_are_reflected_at_the_observed_value_and_cut_at_zero(metric):
    probs, y = dirichlet(100, 3, seed=0)
    auto, basic, percentile = (
        bootstrap_interval(metric, probs, y, draws=30, method=method)
        for method in ("auto", "basic", "percentile")
    )
    assert auto == basic != percentile
    assert basic.low == pytest.approx(max(2 * metric(probs, y) - percentile.high, 0.0))
    assert basic.high == pytest.approx(max(2 * metric(probs, y) - percentile.low, 0.0))


def test_same_seed_same_bits():
    probs, y = overconfident(100, 3, seed=3)
    first, second = (bootstrap_interval(ece, probs, y, draws=50, seed=9) for _ in range(2))
    assert first == second
    assert first != bootstrap_interval(ece, probs, y, draws=50, seed=10)
    assert noise_floor(probs, seed=3) == noise_floor(probs, seed=3)
    assert noise_floor(probs, seed=3) != noise_floor(probs, seed=4)


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


def brute(confidence, bins, draws, seed):
    """Mean and spread of ECE over label sets drawn node by node, through the metric itself."""
    rng = np.random.default_rng(seed)
    values = [
        ece(*binary(confidence, rng.random(len(confidence)) < confidence), bins=bins)
        for _ in range(draws)
    ]
    return np.mean(values), np.std(values)


@pytest.mark.parametrize("bins", [5, 15])
@pytest.mark.parametrize("n", [37, 400, 20_000])
def test_equals_brute_simulation(n, bins):
    """n = 20,000 takes the normal path, 37 the node-by-node path, 400 both."""
    confidence = np.random.default_rng(n).beta(5, 1, n).clip(min=0.5)
    floor = noise_floor(binary(confidence, confidence > 0)[0], bins=bins, draws=2000, seed=1)
    mean, std = brute(confidence, bins, draws=500, seed=2)
    assert floor.mean == pytest.approx(mean, abs=4 * std / 500**0.5)
    assert floor.std == pytest.approx(std, rel=0.2)


def test_few_nodes_are_drawn_one_by_one():
    """Eight nodes are right or wrong: a normal number would fall between the whole ones."""
    gaps = 8 * calibrated_ece(np.full(8, 0.9), 15, 500, np.random.default_rng(0))
    possible = np.abs(np.arange(9) - 7.2)
    assert np.abs(gaps[:, None] - possible).min(axis=1).max() < 1e-9


def test_sure_predictions_have_no_noise_and_one_draw_no_spread():
    floor = noise_floor(np.eye(4))
    assert (floor.mean, floor.std) == (0.0, 0.0)
    with pytest.raises(ValueError, match="at least 2"):
        noise_floor(np.eye(2), draws=1)
