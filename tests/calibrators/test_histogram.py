"""Histogram binning: a known map is found, bins are of equal count and never empty."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from simi_mailbox.calibrators import HistogramBinning
from simi_mailbox.calibrators.histogram import equal_mass_edges


def two_classes(confidence: np.ndarray) -> np.ndarray:
    return np.stack([np.log(confidence / (1 - confidence)), np.zeros_like(confidence)], axis=1)


def test_recovers_a_step_map() -> None:
    rng = np.random.default_rng(0)
    conf = rng.permutation(np.linspace(0.505, 0.995, 20_000))
    steps = np.array([0.55, 0.6, 0.8, 0.9, 0.95])
    truth = steps[((conf - 0.5) * 10).astype(int)]
    y = np.where(rng.random(conf.size) < truth, 0, 1)
    z = two_classes(conf)
    cal = HistogramBinning(bins=5).fit(z, y, mask=np.arange(conf.size))
    np.testing.assert_allclose(cal.values_, steps, atol=0.025)
    np.testing.assert_allclose(cal.edges_, [0.6, 0.7, 0.8, 0.9], atol=0.005)


def test_value_of_a_bin_by_hand() -> None:
    z = two_classes(np.array([0.6, 0.6, 0.6, 0.9, 0.9, 0.9]))
    cal = HistogramBinning(bins=2, prior_strength=2).fit(z, [0, 0, 1, 0, 0, 0], mask=range(6))
    np.testing.assert_allclose(cal.values_, [(2 + 2 * 0.6) / 5, (3 + 2 * 0.9) / 5])
    np.testing.assert_allclose(cal.edges_, [0.75])
    unseen = cal.predict_proba(two_classes(np.array([0.51, 0.74, 0.76, 0.999])))
    np.testing.assert_allclose(unseen[:, 0], cal.values_[[0, 0, 1, 1]])


def test_one_bin_gives_everyone_the_accuracy() -> None:
    rng = np.random.default_rng(1)
    z = two_classes(rng.uniform(0.5, 1, 40))
    y = np.array([0] * 30 + [1] * 10)
    probs = (
        HistogramBinning(bins=1, prior_strength=0).fit(z, y, mask=np.arange(40)).predict_proba(z)
    )
    np.testing.assert_allclose(probs.max(axis=1), 0.75)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9, 1.0]), min_size=1), st.integers(1, 12))
def test_no_bin_is_empty_whatever_the_ties(values: list[float], bins: int) -> None:
    edges = equal_mass_edges(np.array(values), bins)
    member = np.searchsorted(edges, values, side="right")
    assert len(edges) < max(bins, 1)
    assert (np.bincount(member, minlength=len(edges) + 1) > 0).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 200), st.integers(1, 20))
def test_bins_hold_equal_counts_without_ties(count: int, bins: int) -> None:
    values = np.random.default_rng(count).permutation(count).astype(float)
    member = np.searchsorted(equal_mass_edges(values, bins), values, side="right")
    sizes = np.bincount(member)
    assert len(sizes) == min(bins, count)
    assert sizes.max() - sizes.min() <= 1
