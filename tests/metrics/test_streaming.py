"""``evaluate`` says what the single functions say, and sums of batches say the same."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox import metrics
from simi_mailbox.metrics import StreamingMetrics

from .samples import overconfident, predictions


@given(predictions(), st.sampled_from([10, 15]))
def test_evaluate_equals_the_single_functions(sample, bins):
    found = metrics.evaluate(*sample, bins=bins)
    binned = {name: {"bins": bins} for name in ("ece", "debiased_ece", "classwise_ece")}
    names = ("accuracy", "ece", "debiased_ece", "classwise_ece", "kde_ece", "nll", "brier")
    expected = {name: getattr(metrics, name)(*sample, **binned.get(name, {})) for name in names}
    assert found == expected | {"ece_mass": metrics.ece(*sample, bins=bins, binning="mass")}
    turned = metrics.evaluate(*(part[::-1] for part in sample), bins=bins)
    assert turned == pytest.approx(found, abs=1e-9)
    most = {"nll": 87.34, "brier": 2.0}
    for name, value in found.items():
        assert type(value) is float, name
        assert value <= most.get(name, 1.0), name
        assert value >= 0 or name == "debiased_ece", name


@given(predictions(), st.data())
def test_batches_and_their_merger_give_every_metric(sample, data):
    probs, y = sample
    cut = data.draw(st.integers(0, len(y)))
    first = second = StreamingMetrics.empty(probs.shape[1], bins=7)
    if cut:
        first = first.update(probs[:cut], y[:cut])
    if cut < len(y):
        second = second.update(probs[cut:], y[cut:])
    found, before = first.merge(second), first.num_nodes
    expected = metrics.evaluate(probs, y, bins=7)
    del expected["ece_mass"]
    assert found.evaluate() == pytest.approx(expected, abs=1e-7)
    assert (found.num_nodes, before) == (len(y), cut)
    assert found.confidence == pytest.approx(probs.max(axis=1).mean(), abs=1e-9)
    curve, whole = found.counts.reliability(), metrics.reliability(probs, y, bins=7)
    np.testing.assert_allclose(curve.high, whole.high, atol=1e-12)


def test_intervals_and_noise_of_many_nodes_are_those_of_single_ones():
    probs, y = overconfident(20_000, 4, seed=0)
    state = StreamingMetrics.empty(probs.shape[1]).update(probs, y)
    for name in ("accuracy", "nll", "brier", "ece", "debiased_ece"):
        ours = state.interval(name)
        theirs = metrics.bootstrap_interval(getattr(metrics, name), probs, y)
        width = theirs.high - theirs.low
        assert abs(ours.low - theirs.low) < 0.1 * width, name
        assert abs(ours.high - theirs.high) < 0.1 * width, name
    ours, theirs = state.noise_floor(), metrics.noise_floor(probs, draws=1000)
    assert ours.mean == pytest.approx(theirs.mean, rel=0.1)
    assert ours.std == pytest.approx(theirs.std, rel=0.15)


def test_what_a_state_cannot_say_is_refused():
    empty = StreamingMetrics.empty(3)
    for read in (
        StreamingMetrics.evaluate,
        StreamingMetrics.noise_floor,
        partial(StreamingMetrics.interval, metric="nll"),
    ):
        with pytest.raises(ValueError, match="no node was counted yet"):
            read(empty)
    with pytest.raises(ValueError, match="2 classes, but earlier batches had 3"):
        empty.update(np.array([[0.5, 0.5]]), np.array([0]))
    with pytest.raises(ValueError, match="15 bins with 10"):
        empty.merge(StreamingMetrics.empty(3, bins=10))
    seen = empty.update(np.array([[0.5, 0.3, 0.2]]), np.array([0]))
    with pytest.raises(ValueError, match="no interval of 'kde_ece'"):
        seen.interval("kde_ece")
