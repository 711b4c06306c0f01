"""ECE and class-wise ECE against loops written from the definition; debiased ECE and real error."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm as normal

from simi_mailbox.metrics import class_conditional_ece, classwise_ece, debiased_ece, ece

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
def test_the_order_of_nodes_does_not_matter_without_the_bias(sample):
    probs, y = sample
    value = debiased_ece(probs, y, binning="mass")
    assert debiased_ece(probs[::-1], y[::-1], binning="mass") == pytest.approx(value, abs=1e-12)


def test_sure_and_right_is_exactly_zero():
    assert debiased_ece(np.eye(3), np.arange(3)) == 0.0
    assert debiased_ece(np.eye(3), np.arange(3), norm="l2") == 0.0


def test_an_unknown_norm_lists_the_choices():
    with pytest.raises(ValueError, match="'l3'; expected one of"):
        debiased_ece(np.eye(2), np.arange(2), norm="l3")


def test_class_conditional_error_is_the_mean_of_the_errors_of_predicted_classes():
    probs, y = overconfident(800, 4, seed=2)
    predicted = probs.argmax(axis=1)
    parts = [
        (predicted == k).mean() * ece(probs[predicted == k], y[predicted == k]) for k in range(4)
    ]
    assert class_conditional_ece(probs, y) == pytest.approx(sum(parts))
    assert class_conditional_ece(probs, y) >= ece(probs, y)
