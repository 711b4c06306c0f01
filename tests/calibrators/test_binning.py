"""Histogram binning and isotonic regression: known maps are found, references agree."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit
from sklearn.isotonic import IsotonicRegression

from simi_mailbox.calibrators import HistogramBinning, Isotonic
from simi_mailbox.calibrators.binning import equal_mass_edges, with_confidence


def two_classes(confidence):
    return np.stack([logit(confidence), np.zeros_like(confidence)], axis=1)


def test_histogram_recovers_a_step_map():
    rng = np.random.default_rng(0)
    conf = rng.permutation(np.linspace(0.505, 0.995, 20_000))
    steps = np.array([0.55, 0.6, 0.8, 0.9, 0.95])
    truth = steps[((conf - 0.5) * 10).astype(int)]
    y = np.where(rng.random(conf.size) < truth, 0, 1)
    cal = HistogramBinning(bins=5).fit(two_classes(conf), y, mask=np.arange(conf.size))
    np.testing.assert_allclose(cal.values_, steps, atol=0.025)
    np.testing.assert_allclose(cal.edges_, [0.6, 0.7, 0.8, 0.9], atol=0.005)


def test_value_of_a_bin_by_hand():
    z = two_classes(np.array([0.6, 0.6, 0.6, 0.9, 0.9, 0.9]))
    cal = HistogramBinning(bins=2, prior_strength=2).fit(z, [0, 0, 1, 0, 0, 0], mask=range(6))
    np.testing.assert_allclose(cal.values_, [(2 + 2 * 0.6) / 5, (3 + 2 * 0.9) / 5])
    np.testing.assert_allclose(cal.edges_, [0.75])
    unseen = cal.predict_proba(two_classes(np.array([0.51, 0.74, 0.76, 0.999])))
    np.testing.assert_allclose(unseen[:, 0], cal.values_[[0, 0, 1, 1]])
    one = HistogramBinning(bins=1, prior_strength=0).fit(z, [0, 0, 1, 0, 0, 0], mask=range(6))
    np.testing.assert_allclose(one.predict_proba(z).max(axis=1), 5 / 6)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.5, 0.9, 1.0]), min_size=1), st.integers(1, 12))
def test_no_bin_is_empty_whatever_the_ties(values, bins):
    edges = equal_mass_edges(np.array(values), bins)
    member = np.searchsorted(edges, values, side="right")
    assert len(edges) < max(bins, 1)
    assert (np.bincount(member, minlength=len(edges) + 1) > 0).all()


def test_isotonic_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    conf = rng.uniform(0.5, 1, size=400)
    right = rng.random(400) < 0.5 + conf / 2.5
    z = two_classes(conf)
    cal = Isotonic(prior_strength=0).fit(z, np.where(right, 0, 1), mask=np.arange(300))
    reference = IsotonicRegression(out_of_bounds="clip").fit(conf[:300], right[:300])
    expected = np.maximum(reference.predict(conf), 0.5)  # never below the runner-up
    np.testing.assert_allclose(cal.predict_proba(z).max(axis=1), expected, atol=1e-9)


@pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")
def test_the_pseudo_label_is_worth_one_label_and_keeps_from_certainty():
    z = two_classes(np.full(9, 0.8))
    found = Isotonic().fit(z, [0] * 5 + [1] * 4, mask=np.arange(9)).predict_proba(z)[0, 0]
    assert found == pytest.approx((5 + 0.8) / 10)
    z, y = two_classes(np.linspace(0.6, 0.99, 50)), np.zeros(50, dtype=int)  # no error seen
    assert Isotonic().fit(z, y, mask=np.arange(50)).predict_proba(z).max() < 1
    assert Isotonic(prior_strength=0).fit(z, y, mask=np.arange(50)).predict_proba(z).max() == 1


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    classes=st.integers(2, 8),
    size=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e4]),
    wanted=st.floats(0, 1),
)
def test_confidence_is_set_or_raised_to_the_tie(seed, classes, size, wanted):
    z = torch.randn(5, classes, generator=torch.Generator().manual_seed(seed)).double() * size
    probs = with_confidence(z, torch.full((5,), wanted, dtype=torch.float64))
    winner = z.argmax(dim=1, keepdim=True)
    top = probs.gather(1, winner).squeeze(1)
    others = probs.scatter(1, winner, -1.0)
    assert torch.allclose(probs.sum(dim=1), torch.ones(5, dtype=torch.float64))
    assert bool((top >= others.amax(dim=1) - 1e-12).all())
    raised = top > wanted + 1e-12
    # Where it was raised, it was raised exactly to the tie and no further.
    assert torch.allclose(top[raised], others.amax(dim=1)[raised])
    assert bool((top >= wanted - 1e-12).all())
    before = torch.softmax(z, dim=1).scatter(1, winner, 0.0)
    rest = 1 - top, before.sum(dim=1)  # other classes keep their ratios
    ratio = others.scatter(1, winner, 0.0) * rest[1][:, None], before * rest[0][:, None]
    torch.testing.assert_close(*ratio, rtol=1e-6, atol=1e-12)
