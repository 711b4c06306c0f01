"""Risk–coverage curves against counting by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.metrics import aurc, error_at_share, excess_aurc, risk_coverage


def two_columns(confidence):
    return np.stack([confidence, 1 - confidence], axis=1)


@given(st.integers(0, 300), st.integers(1, 30))
def test_the_curve_without_ties(seed, n):
    rng = np.random.default_rng(seed)
    confidence = np.sort(rng.permutation(1000)[:n] / 2000 + 0.5)[::-1]
    wrong = rng.integers(0, 2, n)
    order = rng.permutation(n)
    curve = risk_coverage(two_columns(confidence[order]), wrong[order])
    expected = [wrong[: k + 1].sum() / (k + 1) for k in range(n)]
    np.testing.assert_allclose(curve.risk, expected)
    np.testing.assert_allclose(curve.threshold, confidence)
    assert curve.aurc == pytest.approx(np.mean(expected))
    best = np.sort(wrong)
    ideal = np.mean([best[: k + 1].sum() / (k + 1) for k in range(n)])
    assert curve.excess_aurc == pytest.approx(np.mean(expected) - ideal, abs=1e-12)
    assert curve.excess_aurc >= -1e-12
    probs = two_columns(confidence)
    assert (aurc(probs, wrong), excess_aurc(probs, wrong)) == (curve.aurc, curve.excess_aurc)
    assert excess_aurc(probs, best) == pytest.approx(0, abs=1e-12)


@given(st.integers(0, 100))
def test_equally_sure_nodes_share_their_mean(seed):
    rng = np.random.default_rng(seed)
    confidence, wrong = rng.integers(2, 5, 12) / 4 * 0.5 + 0.25, rng.integers(0, 2, 12)
    found = aurc(two_columns(confidence), wrong)
    values = []
    for _ in range(400):  # break the ties at random
        order = rng.permutation(12)
        order = order[np.argsort(-confidence[order], kind="stable")]
        values.append(np.mean(np.cumsum(wrong[order]) / np.arange(1, 13)))
    assert found == pytest.approx(np.mean(values), abs=5 * np.std(values) / 20 + 1e-12)


def test_errors_at_a_share():
    probs, y = two_columns(np.linspace(1.0, 0.6, 10)), np.array([0] * 7 + [1] * 3)
    assert error_at_share(probs, y, 0.7) == 0
    assert error_at_share(probs, y, 0.71) == pytest.approx(1 / 8)
    assert error_at_share(probs, y, 1.0) == pytest.approx(0.3)
    assert error_at_share(probs, y, 1e-9) == 0
    for share in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="share is"):
            error_at_share(probs, y, share)
