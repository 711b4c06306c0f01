"""ECE and class-wise ECE against loops written from the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.metrics import classwise_ece, ece

from .samples import binary, dirichlet, overconfident, predictions


def loop_width(confidence, correct, bins):
    """Bins [k/M, (k+1)/M), the last closed; one bin and one node at a time."""
    total = 0.0
    for k in range(bins):
        inside = [
            i
            for i, c in enumerate(confidence)
            if k / bins <= c and (c < (k + 1) / bins or k == bins - 1)
        ]
        if inside:
            gap = np.mean([confidence[i] for i in inside]) - np.mean([correct[i] for i in inside])
            total += len(inside) / len(confidence) * abs(gap)
    return total


def loop_mass(confidence, correct, bins):
    """Sorted list cut at floor(k n / M)."""
    pairs, n, total = sorted(zip(confidence, correct, strict=True)), len(confidence), 0.0
    for k in range(bins):
        inside = pairs[k * n // bins : (k + 1) * n // bins]
        if inside:
            gap = np.mean([c for c, _ in inside]) - np.mean([o for _, o in inside])
            total += len(inside) / n * abs(gap)
    return total


def top(probs, y):
    return probs.max(axis=1), (probs.argmax(axis=1) == y).astype(float)


@pytest.mark.parametrize("bins", [1, 10, 15, 37])
@pytest.mark.parametrize(("n", "classes", "seed"), [(1, 2, 0), (7, 3, 1), (500, 2, 2), (900, 7, 3)])
def test_ece_equals_the_loops(n, classes, seed, bins):
    probs, y = overconfident(n, classes, seed)
    assert ece(probs, y, bins=bins) == pytest.approx(loop_width(*top(probs, y), bins), abs=1e-12)
    mass = ece(probs, y, bins=bins, binning="mass")
    assert mass == pytest.approx(loop_mass(*top(probs, y), bins), abs=1e-12)


@given(predictions(), st.integers(1, 20))
def test_equal_width_ece_equals_the_loop_on_edges_ties_zeros_and_ones(sample, bins):
    probs, y = sample
    assert ece(probs, y, bins=bins) == pytest.approx(loop_width(*top(probs, y), bins), abs=1e-12)


@given(predictions(), st.integers(1, 20))
def test_classwise_ece_equals_the_loop(sample, bins):
    probs, y = sample
    classes = range(probs.shape[1])
    loops = [loop_width(probs[:, k], (y == k).astype(float), bins) for k in classes]
    assert classwise_ece(probs, y, bins=bins) == pytest.approx(np.mean(loops), abs=1e-12)


def test_classwise_ece_with_equal_mass_equals_the_loop():
    probs, y = overconfident(400, 5, seed=4)
    loops = [loop_mass(probs[:, k], (y == k).astype(float), 15) for k in range(5)]
    assert classwise_ece(probs, y, binning="mass") == pytest.approx(np.mean(loops), abs=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_sure_predictions(binning):
    probs = np.eye(3)[[0, 1, 2, 0]]
    assert ece(probs, np.array([0, 1, 2, 0]), binning=binning) == 0.0
    assert ece(probs, np.array([1, 2, 0, 1]), binning=binning) == 1.0
    assert ece(probs, np.array([0, 1, 2, 1]), binning=binning) == 0.25
    assert classwise_ece(probs, np.array([0, 1, 2, 0])) == 0.0
    # Class 0: bin of 1.0 holds one right of two; class 1: bin of 0.0 one wrong of three.
    assert classwise_ece(probs, np.array([0, 1, 2, 1])) == pytest.approx((0.25 + 0.25 + 0) / 3)


def test_confidence_one_shares_the_last_bin():
    probs, y = binary(np.array([0.95, 1.0]), np.array([True, False]))
    assert ece(probs, y, bins=10) == pytest.approx(abs(0.95 + 1.0 - 1) / 2)


def test_float32_confidences_on_an_edge_are_binned_by_their_own_value():
    edge = np.float32(0.7)  # 0.699999988: below 7/10, though float32 0.7 * 10 is 7.0
    probs = np.array([[edge, 1 - edge], [0.75, 0.25]], dtype=np.float32)
    assert ece(probs, np.array([0, 1]), bins=10) == pytest.approx((0.3 + 0.75) / 2, abs=1e-6)


def test_tied_confidences_share_their_outcome_in_equal_mass_bins():
    probs, y = binary(np.full(60, 0.75), np.arange(60) < 40)
    assert ece(probs, y, binning="mass") == pytest.approx(abs(0.75 - 40 / 60))


@given(predictions(), st.sampled_from(["width", "mass"]), st.data())
def test_the_order_of_nodes_does_not_matter(sample, binning, data):
    probs, y = sample
    order = np.array(data.draw(st.permutations(range(len(y)))))
    for metric in (ece, classwise_ece):
        shuffled = metric(probs[order], y[order], binning=binning)
        assert shuffled == pytest.approx(metric(probs, y, binning=binning), abs=1e-12)


@given(predictions(), st.sampled_from(["width", "mass"]))
def test_bounds(sample, binning):
    probs, y = sample
    confidence, correct = top(probs, y)
    value = ece(probs, y, binning=binning)
    assert 0 <= value <= 1
    # Bins can only split gaps that cancel, so the overall gap is the smallest ECE.
    assert value >= abs(confidence.mean() - correct.mean()) - 1e-12
    assert 0 <= classwise_ece(probs, y, binning=binning) <= 1


def test_one_bin_is_the_overall_gap():
    probs, y = dirichlet(100, 3, seed=5)
    confidence, correct = top(probs, y)
    expected = pytest.approx(abs(confidence.mean() - correct.mean()))
    assert ece(probs, y, bins=1) == expected
    assert ece(probs, y, bins=1, binning="mass") == expected
