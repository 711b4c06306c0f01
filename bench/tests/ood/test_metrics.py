"""Detection metrics by their definitions."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simi_mailbox_bench import ood

scores = st.lists(st.integers(-5, 5).map(lambda v: v / 4), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(known=scores, unknown=scores)
def test_agrees_with_the_definitions_also_with_ties(
    known: list[float], unknown: list[float]
) -> None:
    found, k, u = ood.evaluate(known, unknown), np.array(known), np.array(unknown)
    pairs = np.sign(k[:, None] - u[None, :])
    assert found.auroc == pytest.approx((1 + pairs.mean()) / 2)
    least = sorted(set(known), reverse=True)  # the score from which on nodes count as known
    recall = np.array([0.0] + [np.mean(k >= t) for t in least])
    precision = [np.sum(k >= t) / (np.sum(k >= t) + np.sum(u >= t)) for t in least]
    assert found.aupr == pytest.approx(np.diff(recall) @ precision)
    assert found.fpr95 == min(np.mean(u >= t) for t in least if np.mean(k >= t) >= 0.95)


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


@pytest.mark.parametrize("known", [[], [np.nan]])
def test_refuses_what_is_no_list_of_scores(known: list[float]) -> None:
    with pytest.raises(ValueError, match="scores of known and unknown nodes are needed"):
        ood.evaluate(known, [0.0])
