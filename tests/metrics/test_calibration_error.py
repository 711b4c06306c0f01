"""Binned errors and the reliability diagram against loops written from the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from simi_mailbox.metrics import classwise_ece, debiased_ece, ece, reliability
from simi_mailbox.metrics.calibration_error import width_edges, width_index

from .samples import binary, dirichlet, overconfident, predictions

BINNINGS = st.sampled_from(["width", "mass"])


@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 15, 20, 49, 100, 1000])
def test_every_edge_opens_its_bin_and_its_predecessor_closes_the_one_before(bins):
    edges = width_edges(bins)  # int(0.29 * 100) is 28: products round, edges do not
    assert width_index(edges, bins).tolist() == [*range(bins), bins - 1]
    below = np.nextafter(edges[1:], 0)
    assert width_index(below, bins).tolist() == list(range(bins))


def loop_width(confidence, correct, bins):
    """Bins [k/M, (k+1)/M), the last closed; one bin at a time."""
    gaps = []
    for k in range(bins):
        inside = (k / bins <= confidence) & ((confidence < (k + 1) / bins) | (k == bins - 1))
        gaps.append(confidence[inside].sum() - correct[inside].sum())
    return np.abs(gaps).sum() / len(confidence)


def loop_mass(confidence, correct, bins):
    """Sorted list cut at floor(k n / M)."""
    order, n, gaps = np.argsort(confidence), len(confidence), []
    for k in range(bins):
        inside = order[k * n // bins : (k + 1) * n // bins]
        gaps.append(confidence[inside].sum() - correct[inside].sum())
    return np.abs(gaps).sum() / n


def top(probs, y):
    return probs.max(axis=1), (probs.argmax(axis=1) == y).astype(float)


def assert_equal_to_the_loop(probs, y, bins, binning):
    loop = loop_width if binning == "width" else loop_mass
    options = {"bins": bins, "binning": binning}
    assert ece(probs, y, **options) == pytest.approx(loop(*top(probs, y), bins), abs=1e-12)
    classes = range(probs.shape[1])
    loops = [loop(probs[:, k], (y == k).astype(float), bins) for k in classes]
    assert classwise_ece(probs, y, **options) == pytest.approx(np.mean(loops), abs=1e-12)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("bins", [1, 10, 15, 37])
@pytest.mark.parametrize(("n", "classes", "seed"), [(1, 2, 0), (7, 3, 1), (500, 2, 2), (900, 7, 3)])
def test_errors_of_many_nodes_equal_the_loops(n, classes, seed, bins, binning):
    assert_equal_to_the_loop(*overconfident(n, classes, seed), bins, binning)


@given(predictions(), st.integers(1, 20))
def test_equal_width_errors_equal_the_loop_on_edges_ties_zeros_and_ones(sample, bins):
    assert_equal_to_the_loop(*sample, bins, "width")


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_confidence_of_one(binning):
    probs = np.eye(3)[[0, 1, 2, 0]]
    assert ece(probs, np.array([0, 1, 2, 0]), binning=binning) == 0.0
    assert ece(probs, np.array([1, 2, 0, 1]), binning=binning) == 1.0
    assert ece(probs, np.array([0, 1, 2, 1]), binning=binning) == 0.25
    assert debiased_ece(np.eye(3), np.arange(3), binning=binning) == 0.0


def test_float32_confidences_on_an_edge_are_binned_by_their_own_value():
    edge = np.float32(0.7)  # 0.699999988: below 7/10, though float32 0.7 * 10 is 7.0
    probs = np.array([[edge, 1 - edge], [0.75, 0.25]], dtype=np.float32)
    assert ece(probs, np.array([0, 1]), bins=10) == pytest.approx((0.3 + 0.75) / 2, abs=1e-6)


@given(predictions(), BINNINGS, st.data())
def test_bounds_and_the_order_of_nodes(sample, binning, data):
    probs, y = sample
    order = np.array(data.draw(st.permutations(range(len(y)))))
    for metric in (ece, classwise_ece, debiased_ece):
        value = metric(probs, y, binning=binning)
        assert value <= 1
        assert value >= 0 or metric is debiased_ece
        shuffled = metric(probs[order], y[order], binning=binning)
        assert shuffled == pytest.approx(value, abs=1e-12)
    confidence, correct = top(probs, y)
    # Bins can only split gaps that cancel, so the overall gap is the smallest ECE.
    overall = abs(confidence.mean() - correct.mean())
    assert ece(probs, y, binning=binning) >= overall - 1e-12
    assert ece(probs, y, bins=1, binning=binning) == pytest.approx(overall, abs=1e-12)
    assert debiased_ece(probs, y) <= ece(probs, y) + 1e-12


@pytest.mark.parametrize("drop", [0.0, 0.02, 0.1])
def test_debiased_ece_is_the_average_over_random_halvings(drop):
    """The closed form against actual halvings of the nodes of one bin."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.81, 0.86, 300)
    probs, y = binary(confidence, rng.random(300) < confidence - drop)
    residuals = (y == 0) - confidence
    first = (rng.random((40_000, 300)) < 0.5) @ residuals
    second = residuals.sum() - first
    halvings = np.sign(first) * second + np.sign(second) * first
    error = halvings.std() / 200 / 300
    assert debiased_ece(probs, y) == pytest.approx(halvings.mean() / 300, abs=4 * error + 2e-4)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_debiased_ece_keeps_a_clear_error_and_is_zero_on_average_for_a_calibrated_model(binning):
    probs, y = overconfident(50_000, 5, seed=2)
    clear = debiased_ece(probs, y, binning=binning)
    assert clear == pytest.approx(ece(probs, y, binning=binning), rel=0.03)
    samples = [dirichlet(1000, 5, seed) for seed in range(400)]
    plain = np.mean([ece(probs, y, binning=binning) for probs, y in samples])
    assert plain > 0.02
    debiased = [debiased_ece(probs, y, binning=binning) for probs, y in samples]
    assert abs(np.mean(debiased)) < 0.1 * plain


def test_the_diagram_equals_a_loop_and_its_interval_is_scipys_wilson_interval():
    probs, y = overconfident(300, 3, seed=0)
    curve = reliability(probs, y, bins=10)
    confidence, correct = top(probs, y)
    for b in range(10):
        inside = np.minimum((confidence * 10).astype(int), 9) == b
        found = [row[b] for row in (curve.confidence, curve.accuracy, curve.low, curve.high)]
        assert curve.counts[b] == inside.sum()
        if inside.any():
            test = binomtest(int(correct[inside].sum()), int(inside.sum()))
            wilson = test.proportion_ci(0.95, "wilson")
            means = (confidence[inside].mean(), correct[inside].mean())
            assert found == pytest.approx([*means, wilson.low, wilson.high], abs=1e-12)
        else:
            assert np.isnan([*found, curve.gap[b]]).all()
    assert (curve.counts == 0).sum() == 3  # three classes: no confidence below a third
    assert curve.edges.tolist() == [k / 10 for k in range(11)]
    assert curve.level == 0.95


@given(predictions(), st.integers(1, 20), BINNINGS)
def test_the_diagram_tells_the_ece_and_equal_mass_edges_are_the_cuts(sample, bins, binning):
    probs, y = sample
    curve = reliability(probs, y, bins=bins, binning=binning)
    weights = curve.counts / curve.counts.sum()
    assert curve.ece == ece(probs, y, bins=bins, binning=binning)
    assert np.nansum(weights * np.abs(curve.gap)) == pytest.approx(curve.ece, abs=1e-12)
    used = curve.counts > 0
    low, share, high = (row[used] for row in (curve.low, curve.accuracy, curve.high))
    assert np.all((low >= 0) & (low <= share + 1e-12) & (share <= high + 1e-12) & (high <= 1))
    if binning == "mass":
        ordered = np.sort(probs.max(axis=1))
        starts = [k * len(ordered) // bins for k in range(bins + 1)]
        assert curve.counts.tolist() == np.diff(starts).tolist()
        assert curve.edges.tolist() == [0.0, *ordered[starts[1:-1]], 1.0]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("binning", "size", r"'size'; expected one of \['width', 'mass'\]"),
        *(("bins", value, "positive integer") for value in (0, -3, 15.0, True, "15")),
    ],
)
def test_bad_options_are_refused(option, value, message):
    with pytest.raises(ValueError, match=message):
        ece(np.eye(2), np.arange(2), **{option: value})
