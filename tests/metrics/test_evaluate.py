"""``evaluate`` says what the single functions say."""

import pytest
from hypothesis import given

from simi_mailbox.metrics import (
    accuracy,
    brier,
    classwise_ece,
    debiased_ece,
    ece,
    evaluate,
    kde_ece,
    nll,
)

from .samples import overconfident, predictions


@pytest.mark.parametrize("bins", [10, 15])
def test_equals_the_single_functions(bins):
    probs, y = overconfident(400, 5, seed=0)
    assert evaluate(probs, y, bins=bins) == {
        "accuracy": accuracy(probs, y),
        "ece": ece(probs, y, bins=bins),
        "ece_mass": ece(probs, y, bins=bins, binning="mass"),
        "debiased_ece": debiased_ece(probs, y, bins=bins),
        "classwise_ece": classwise_ece(probs, y, bins=bins),
        "kde_ece": kde_ece(probs, y),
        "nll": nll(probs, y),
        "brier": brier(probs, y),
    }


@given(predictions())
def test_values_are_plain_finite_floats(sample):
    for name, value in evaluate(*sample).items():
        assert type(value) is float, name
        assert abs(value) < 100, name
