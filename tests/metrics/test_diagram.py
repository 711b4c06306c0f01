"""The arrays of a reliability diagram."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from simi_mailbox.metrics import ece, reliability

from .samples import overconfident, predictions


def test_arrays_equal_a_loop_and_empty_bins_are_nan():
    probs, y = overconfident(300, 3, seed=0)
    curve = reliability(probs, y, bins=10)
    confidence, correct = probs.max(axis=1), probs.argmax(axis=1) == y
    for b in range(10):
        inside = np.minimum((confidence * 10).astype(int), 9) == b
        assert curve.counts[b] == inside.sum()
        if inside.any():
            assert curve.confidence[b] == pytest.approx(confidence[inside].mean())
            assert curve.accuracy[b] == pytest.approx(correct[inside].mean())
        else:
            bin_values = (curve.confidence, curve.accuracy, curve.low, curve.high, curve.gap)
            assert all(np.isnan(values[b]) for values in bin_values)
    assert (curve.counts == 0).sum() == 3  # three classes: no confidence below a third
    assert curve.edges.tolist() == [k / 10 for k in range(11)]


@pytest.mark.parametrize("band", [0.5, 0.95])
def test_the_band_is_scipys_wilson_interval(band):
    probs, y = overconfident(300, 3, seed=1)
    curve = reliability(probs, y, band=band)
    for count, accuracy, low, high in zip(
        curve.counts, curve.accuracy, curve.low, curve.high, strict=True
    ):
        if count:
            wilson = binomtest(round(accuracy * count), int(count)).proportion_ci(band, "wilson")
            assert (low, high) == pytest.approx((wilson.low, wilson.high), abs=1e-12)
    assert curve.level == band


@given(predictions(), st.integers(1, 20), st.sampled_from(["width", "mass"]))
def test_the_diagram_tells_the_ece_and_its_band_holds_the_accuracy(sample, bins, binning):
    probs, y = sample
    curve = reliability(probs, y, bins=bins, binning=binning)
    weights = curve.counts / curve.counts.sum()
    assert curve.ece == ece(probs, y, bins=bins, binning=binning)
    assert np.nansum(weights * np.abs(curve.gap)) == pytest.approx(curve.ece, abs=1e-12)
    used = curve.counts > 0
    assert np.all(curve.low[used] <= curve.accuracy[used] + 1e-12)
    assert np.all(curve.accuracy[used] <= curve.high[used] + 1e-12)
    assert np.all(curve.low[used] >= 0)
    assert np.all(curve.high[used] <= 1)
    assert np.all(np.diff(curve.edges) >= 0)
    assert len(curve.edges) == bins + 1


def test_equal_mass_edges_are_the_cuts():
    probs, y = overconfident(100, 3, seed=2)
    curve = reliability(probs, y, bins=4, binning="mass")
    ordered = np.sort(probs.max(axis=1))
    assert curve.counts.tolist() == [25] * 4
    assert curve.edges.tolist() == [0.0, ordered[25], ordered[50], ordered[75], 1.0]


def test_the_result_is_frozen():
    curve = reliability(np.eye(2), np.arange(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve.ece = 0.5


@pytest.mark.parametrize("band", [0, 1, 95])
def test_the_band_is_a_level(band):
    with pytest.raises(ValueError, match="between 0 and 1"):
        reliability(np.eye(2), np.arange(2), band=band)
