"""Detection metrics against scikit-learn and by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from simi_mailbox import ood

scores = st.lists(st.integers(-5, 5).map(lambda v: v / 4), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(known=scores, unknown=scores)
def test_agrees_with_scikit_learn_also_with_ties(known: list[float], unknown: list[float]) -> None:
    labels = np.r_[np.ones(len(known)), np.zeros(len(unknown))]
    values = np.r_[known, unknown]
    found = ood.evaluate(known, unknown)
    assert found.auroc == pytest.approx(roc_auc_score(labels, values))
    assert found.aupr == pytest.approx(average_precision_score(labels, values))
    false, true, _ = roc_curve(labels, values, drop_intermediate=False)
    assert found.fpr95 == pytest.approx(false[true >= 0.95].min())


def test_perfect_and_reversed_scores() -> None:
    assert ood.evaluate([3.0, 2.0], [1.0, 0.0]) == ood.Detection(1.0, 1.0, 0.0)
    worst = ood.evaluate([0.0, 1.0], [2.0, 3.0])
    assert (worst.auroc, worst.fpr95) == (0.0, 1.0)


def test_constant_scores_are_a_guess() -> None:
    assert ood.evaluate(np.zeros(7), np.zeros(9)).auroc == 0.5


def test_takes_tensors_and_ignores_scale() -> None:
    generator = torch.Generator().manual_seed(0)
    known, unknown = torch.randn(50, generator=generator) + 1, torch.randn(70, generator=generator)
    assert ood.evaluate(known, unknown) == ood.evaluate(
        np.exp(known.double().numpy()), np.exp(unknown.double().numpy())
    )


@pytest.mark.parametrize(
    ("known", "message"), [([], "known must be a non-empty"), ([[1.0]], "known"), ([np.nan], "NaN")]
)
def test_refuses_what_is_no_list_of_scores(known: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ood.evaluate(known, [0.0])
