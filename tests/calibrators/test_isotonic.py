"""Isotonic regression of the confidence: scikit-learn agrees, a known map is found."""

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from simi_mailbox.calibrators import Isotonic


def two_classes(confidence: np.ndarray) -> np.ndarray:
    return np.stack([np.log(confidence / (1 - confidence)), np.zeros_like(confidence)], axis=1)


def test_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    conf = rng.uniform(0.5, 1, size=400)
    right = rng.random(400) < 0.5 + conf / 2.5
    cal = Isotonic(prior_strength=0)
    cal.fit(two_classes(conf), np.where(right, 0, 1), mask=np.arange(300))
    reference = IsotonicRegression(out_of_bounds="clip").fit(conf[:300], right[:300])
    expected = np.maximum(reference.predict(conf), 0.5)  # never below the runner-up
    np.testing.assert_allclose(
        cal.predict_proba(two_classes(conf)).max(axis=1), expected, atol=1e-9
    )


def test_recovers_a_known_map() -> None:
    rng = np.random.default_rng(1)
    conf = rng.uniform(0.5, 1, size=30_000)
    truth = 0.5 + 2 * (conf - 0.5) ** 2  # overconfident in the middle, right at both ends
    y = np.where(rng.random(conf.size) < truth, 0, 1)
    z = two_classes(conf)
    found = Isotonic().fit(z, y, mask=np.arange(20_000)).predict_proba(z[20_000:])[:, 0]
    assert np.abs(found - truth[20_000:]).mean() < 0.015


def test_more_confident_stays_more_confident() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=(500, 2)) * 2
    before = z.max(1) - z.min(1)
    after = Isotonic().fit(z, rng.integers(2, size=500), mask=np.arange(100)).predict_proba(z)
    assert (np.diff(after.max(axis=1)[before.argsort()]) >= -1e-12).all()


def test_nothing_is_certain_while_the_model_is_not() -> None:
    z = two_classes(np.linspace(0.6, 0.99, 50))
    y = np.zeros(50, dtype=int)  # no error seen
    assert Isotonic().fit(z, y, mask=np.arange(50)).predict_proba(z).max() < 1
    assert Isotonic(prior_strength=0).fit(z, y, mask=np.arange(50)).predict_proba(z).max() == 1


def test_pseudo_label_is_worth_one_label() -> None:
    z = two_classes(np.full(9, 0.8))
    y = np.array([0] * 5 + [1] * 4)
    found = Isotonic().fit(z, y, mask=np.arange(9)).predict_proba(z)[0, 0]
    assert found == pytest.approx((5 + 0.8) / 10)
