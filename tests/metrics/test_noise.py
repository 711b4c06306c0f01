"""The noise floor: what a perfectly calibrated model shows."""

import time

import numpy as np
import pytest

from simi_mailbox.metrics import debiased_ece, ece, noise_floor
from simi_mailbox.metrics.sampling import calibrated_ece

from .samples import binary, dirichlet


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


@pytest.mark.parametrize("n", [100, 3000])
def test_a_calibrated_model_shows_the_floor_on_average(n):
    samples = [dirichlet(n, 5, seed) for seed in range(200)]
    observed = [ece(probs, y) for probs, y in samples]
    floors = [noise_floor(probs, draws=100, seed=s).mean for s, (probs, _) in enumerate(samples)]
    assert np.mean(observed) == pytest.approx(np.mean(floors), rel=0.05)


def test_one_bin_has_the_known_mean():
    n, c = 1000, 0.8
    floor = noise_floor(np.tile([c, 1 - c], (n, 1)), draws=20_000)
    sigma = np.sqrt(c * (1 - c) / n)
    assert floor.mean == pytest.approx(sigma * np.sqrt(2 / np.pi), rel=0.02)
    assert floor.std == pytest.approx(sigma * np.sqrt(1 - 2 / np.pi), rel=0.02)


def test_few_nodes_are_drawn_one_by_one():
    """Eight nodes are right or wrong: a normal number would fall between the whole ones."""
    gaps = 8 * calibrated_ece(np.full(8, 0.9), 15, 500, np.random.default_rng(0))
    possible = np.abs(np.arange(9) - 7.2)
    assert np.abs(gaps[:, None] - possible).min(axis=1).max() < 1e-9


def test_sure_predictions_have_no_noise():
    floor = noise_floor(np.eye(4))
    assert (floor.mean, floor.std) == (0.0, 0.0)


def test_same_seed_same_bits():
    probs, _ = dirichlet(500, 4, seed=0)
    assert noise_floor(probs, seed=3) == noise_floor(probs, seed=3)
    assert noise_floor(probs, seed=3) != noise_floor(probs, seed=4)


def test_one_draw_has_no_spread():
    with pytest.raises(ValueError, match="at least 2"):
        noise_floor(np.eye(2), draws=1)


def test_a_large_graph_takes_less_than_its_budget():
    probs = np.random.default_rng(0).dirichlet(np.full(10, 0.3), 170_000)
    start = time.process_time()
    noise_floor(probs, draws=200)
    assert time.process_time() - start < 1.5


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_debiased_ece_is_zero_on_average_for_a_calibrated_model(binning):
    samples = [dirichlet(1000, 5, seed) for seed in range(400)]
    plain = np.mean([ece(probs, y, binning=binning) for probs, y in samples])
    assert plain > 0.02
    debiased = [debiased_ece(probs, y, binning=binning) for probs, y in samples]
    assert abs(np.mean(debiased)) < 0.1 * plain
    # The squared error is the unbiased quantity of the other norm, not its signed root.
    roots = np.array([debiased_ece(probs, y, norm="l2", binning=binning) for probs, y in samples])
    squares = roots * np.abs(roots)
    assert abs(squares.mean()) < 4 * squares.std() / 20
