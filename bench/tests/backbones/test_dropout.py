"""Dropout masks: unbiased, independent, repeatable."""

import numpy as np
import pytest
import torch

from simi_mailbox_bench.backbones.features import dropout_mask


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_dropout_mask_is_unbiased_at_every_position(rate: float) -> None:
    # 128 positions cover two random words: a stuck bit in a word would show as a constant column.
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([dropout_mask(128, rate, generator) for _ in range(4000)])
    assert set(draws.unique().tolist()) == {0.0, torch.tensor(1 / (1 - rate)).item()}
    deviation = (draws.mean(0) - 1).abs().max().item()
    # Five standard errors of the mean of 4000 draws.
    assert deviation < 5 * np.sqrt(rate / (1 - rate) / 4000)


def test_dropout_mask_positions_are_independent() -> None:
    generator = torch.Generator().manual_seed(1)
    draws = torch.stack([dropout_mask(64, 0.5, generator) for _ in range(4000)]) - 1
    correlation = (draws.T @ draws / 4000).fill_diagonal_(0)
    assert correlation.abs().max().item() < 6 / np.sqrt(4000)


def test_same_seed_same_mask() -> None:
    first, second = (dropout_mask(100, 0.5, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, second)
