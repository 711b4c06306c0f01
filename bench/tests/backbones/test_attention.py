"""Attention of a GAT against dense algebra, its gradient by differences."""

import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox.sparse import Csr
from simi_mailbox_bench.backbones import attention
from simi_mailbox_bench.backbones.attention import attend_additively, stacked


def random_matrix(rows: int, columns: int) -> Csr:
    matrix = sp.random_array((rows, columns), density=0.4, rng=0, format="csr")
    return Csr.from_scipy(sp.csr_array(matrix + sp.eye_array(rows, columns)))  # no empty row


def leaf(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    value = scale * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.requires_grad_()


# The scale of 60 sends exp() out of its safe range, so the shifted branch runs.
@pytest.mark.parametrize("scale", [1.0, 60.0], ids=["plain", "shifted"])
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_additive_attention_value_and_gradient(scale: float, dropout: bool, heads: int) -> None:
    pattern = random_matrix(4, 6)
    both = stacked(pattern, heads)
    hidden = leaf(6 * heads, 2)
    source, target = leaf(6 * heads, seed=1, scale=scale), leaf(4 * heads, seed=2, scale=scale)
    signs = None
    if dropout:
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randint(2, (both.num_entries,), generator=generator)
        signs = 2 * drawn.double() - 1
    assert attention._needs_shift(source, target) == (scale > 1)

    def ours(h: Tensor, s: Tensor, t: Tensor) -> Tensor:
        return attend_additively(both, h, s, t, signs=signs, scale=1.0 if signs is None else 1.5)

    kept = torch.ones(both.num_entries, dtype=torch.float64)
    if signs is not None:
        kept = 1.5 * (signs > 0).double()
    scores = torch.nn.functional.leaky_relu(target.unsqueeze(1) + source.unsqueeze(0), 0.2)
    present = both.filled(torch.ones_like(kept)).to_dense() > 0
    alpha = torch.softmax(scores.masked_fill(~present, -torch.inf), dim=1)
    expected = (alpha * both.filled(kept).to_dense()) @ hidden
    torch.testing.assert_close(ours(hidden, source, target), expected)
    assert torch.autograd.gradcheck(ours, (hidden, source, target), atol=1e-4)


def test_stacked_copies_are_block_diagonal() -> None:
    pattern = random_matrix(3, 5)
    expected = torch.block_diag(*[pattern.tensor.to_dense() != 0] * 4)
    assert torch.equal(stacked(pattern, 4).tensor.to_dense() != 0, expected)
    assert stacked(pattern, 4) is stacked(pattern, 4)
