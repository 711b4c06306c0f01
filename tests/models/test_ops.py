"""Gradients of the hand-written functions, transposes, and dropout masks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox.models import attention
from simi_mailbox.models.attention import attend, stack_heads
from simi_mailbox.models.ops import Csr, dropout_mask, random_choice, spmm, weighted_spmm


def random_matrix(rows: int, columns: int, seed: int = 0) -> Csr:
    matrix = sp.random_array((rows, columns), density=0.4, rng=seed, format="csr")
    matrix = sp.csr_array(matrix + sp.eye_array(rows, columns))  # no empty row
    return Csr.from_scipy(matrix)


def leaf(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    value = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.requires_grad_()


def dense(matrix: Csr) -> Tensor:
    return matrix.tensor.to_dense()


def test_transpose_of_a_rectangular_matrix() -> None:
    matrix = random_matrix(5, 7)
    torch.testing.assert_close(dense(matrix.T), dense(matrix).T)
    torch.testing.assert_close(matrix.filled_transpose(matrix.values).to_dense(), dense(matrix).T)


def test_product_gradient() -> None:
    matrix = random_matrix(5, 7)
    assert torch.autograd.gradcheck(lambda d: spmm(matrix, d), (leaf(7, 3),))


def test_symmetric_product_gradient_uses_the_matrix_itself() -> None:
    square = dense(random_matrix(6, 6)).numpy()
    matrix = Csr.from_scipy(sp.csr_array(square + square.T), symmetric=True)
    assert matrix.T is matrix
    assert torch.autograd.gradcheck(lambda d: spmm(matrix, d), (leaf(6, 2),))


def test_weighted_product_gradient() -> None:
    pattern = random_matrix(5, 7)
    values = leaf(pattern.num_entries, seed=1)
    assert torch.autograd.gradcheck(lambda v, d: weighted_spmm(pattern, v, d), (values, leaf(7, 3)))


# The scale of 60 sends exp() out of its safe range, so the shifted branch runs.
@pytest.mark.parametrize("scale", [1.0, 60.0], ids=["plain", "shifted"])
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_value_and_gradient(scale: float, dropout: bool, heads: int) -> None:
    pattern = random_matrix(4, 6)
    stacked = stack_heads(pattern, heads)
    hidden = leaf(6 * heads, 2)
    source, target = leaf(6 * heads, seed=1, scale=scale), leaf(4 * heads, seed=2, scale=scale)
    signs = None
    if dropout:
        signs = random_choice(
            stacked.num_entries,
            0.5,
            torch.Generator().manual_seed(0),
            drop=-1.0,
            keep=1.0,
            dtype=torch.float64,
        )
    assert attention._needs_shift(source, target) == (scale > 1)

    def ours(h: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return attend(stacked, h, s, t, signs=signs, scale=1.0 if signs is None else 1.5)

    kept = torch.ones(stacked.num_entries, dtype=torch.float64)
    if signs is not None:
        kept = 1.5 * (signs > 0).double()
    scores = torch.nn.functional.leaky_relu(target.unsqueeze(1) + source.unsqueeze(0), 0.2)
    present = stacked.filled(torch.ones_like(kept)).to_dense() > 0
    alpha = torch.softmax(scores.masked_fill(~present, -torch.inf), dim=1)
    expected = (alpha * stacked.filled(kept).to_dense()) @ hidden
    torch.testing.assert_close(ours(hidden, source, target), expected)
    assert torch.autograd.gradcheck(ours, (hidden, source, target), atol=1e-4)


def test_stacked_heads_are_block_diagonal() -> None:
    pattern = random_matrix(3, 5)
    expected = torch.block_diag(*[dense(pattern)] * 4)
    torch.testing.assert_close(dense(stack_heads(pattern, 4)), expected)


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
