"""The binning core: edges, ties, and the streaming state."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.metrics import BinnedCounts, debiased_ece, debiased_of, ece, reliability_of
from simi_mailbox.metrics.calibration_error import bin_outcomes, width_edges, width_index

from .samples import overconfident, predictions


def test_zero_and_one_fall_into_the_first_and_last_bin():
    assert width_index(np.array([0.0, 1.0]), 15).tolist() == [0, 14]


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 15, 20, 49, 100, 1000])
def test_every_edge_opens_its_bin_and_its_predecessor_closes_the_one_before(bins):
    edges = width_edges(bins)[:-1]
    assert width_index(edges, bins).tolist() == list(range(bins))
    below = np.nextafter(edges[1:], 0)
    assert width_index(below, bins).tolist() == list(range(bins - 1))


def test_a_product_that_rounds_down_does_not_move_a_value():
    assert int(0.29 * 100) == 28  # what floor(value * bins) would say
    assert width_index(np.array([0.29]), 100).tolist() == [29]


@given(st.lists(st.floats(0, 1), min_size=1), st.integers(1, 200))
def test_every_value_lies_within_its_bin(values, bins):
    array = np.array(values)
    index, edges = width_index(array, bins), width_edges(bins)
    assert np.all(edges[index] <= array)
    assert np.all((array < edges[index + 1]) | (array == 1))


@given(predictions(), st.integers(1, 20))
def test_equal_mass_bins_hold_the_sizes_the_definition_gives(sample, bins):
    probs, _ = sample
    n = len(probs)
    counts = bin_outcomes(probs.max(axis=1), np.zeros(n), bins, "mass").counts
    assert counts.tolist() == [(k + 1) * n // bins - k * n // bins for k in range(bins)]


@given(predictions(), st.integers(1, 20), st.data())
def test_merged_batches_equal_the_whole(sample, bins, data):
    probs, y = sample
    cut = data.draw(st.integers(0, len(y)))
    whole = BinnedCounts.empty(bins).update(probs, y)
    parts = BinnedCounts.empty(bins)
    for rows in (slice(0, cut), slice(cut, None)):
        if len(y[rows]):
            parts = parts.merge(BinnedCounts.empty(bins).update(probs[rows], y[rows]))
    assert np.array_equal(parts.counts, whole.counts)
    assert np.allclose(parts.confidence_sum, whole.confidence_sum, rtol=0, atol=1e-12)
    assert parts.ece == pytest.approx(ece(probs, y, bins=bins), abs=1e-12)


def test_streamed_state_gives_every_binned_quantity():
    probs, y = overconfident(1000, 4, seed=3)
    state = BinnedCounts.empty(10)
    for start in range(0, 1000, 128):
        state = state.update(probs[start : start + 128], y[start : start + 128])
    assert state.num_nodes == 1000
    assert debiased_of(state) == pytest.approx(debiased_ece(probs, y, bins=10), abs=1e-12)
    assert reliability_of(state).ece == state.ece


def test_update_leaves_the_old_state_as_it_was():
    state = BinnedCounts.empty(5)
    state.update(np.array([[0.9, 0.1]]), np.array([0]))
    assert state.num_nodes == 0


def test_an_empty_state_has_no_ece():
    for read in (lambda s: s.ece, debiased_of, reliability_of):
        with pytest.raises(ValueError, match="no node was counted"):
            read(BinnedCounts.empty())


def test_different_bins_do_not_merge():
    with pytest.raises(ValueError, match="10 bins with 15"):
        BinnedCounts.empty(10).merge(BinnedCounts.empty(15))
    mass = bin_outcomes(np.array([0.5]), np.array([1.0]), 15, "mass")
    with pytest.raises(ValueError, match="equal-mass bins cannot be merged"):
        BinnedCounts.empty(15).merge(mass)
