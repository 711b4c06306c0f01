"""Attention of a GAT with its gradient, several heads at a time."""

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from simi_mailbox.sparse import Csr, shifted, weighted_mean

SLOPE = 0.2
"""Of the leaky ReLU."""
_STACKS: WeakKeyDictionary[Csr, dict[int, Csr]] = WeakKeyDictionary()


def stacked(pattern: Csr, count: int) -> Csr:
    """Block-diagonal pattern of ``count`` copies (kept for the next call)."""
    if count == 1:
        return pattern
    kept = _STACKS.setdefault(pattern, {})
    if count not in kept:
        copy = torch.arange(count, dtype=torch.int32).unsqueeze(1)
        starts = (pattern.indptr[:-1] + copy * pattern.num_entries).flatten()
        kept[count] = Csr(
            torch.cat([starts, starts.new_tensor([count * pattern.num_entries])]),
            (pattern.indices + copy * pattern.shape[1]).flatten(),
            (count * pattern.shape[0], count * pattern.shape[1]),
        )
    return kept[count]


def attend_additively(
    pattern: Csr,
    x: Tensor,
    source: Tensor,
    target: Tensor,
    *,
    signs: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Attention of a GAT, whose scores are leaky_relu(source_j + target_i)."""
    result: Tensor = _AdditiveAttention.apply(  # type: ignore[no-untyped-call]
        pattern, x, source, target, signs, scale
    )
    return result


# exp() of a score within ±40 and sums of 10^9 of them stay far inside float32: then the usual
# shift by the row maximum changes nothing but the last bit, and is left out.
_SAFE_SCORE = 40.0


class _AdditiveAttention(Function):
    """One product forward, four backward, and a single reordering of the entries.

    Written out, node *i* gets, with m the dropout mask and e_ij = exp(leaky_relu(a_j + b_i)),

        out_i = Σ_j m_ij e_ij x_j / Σ_j e_ij.

    Both sums are products of a sparse matrix with a dense one. So is the whole backward pass: the
    gradient of e_ij is needed just summed over rows (for b) and over columns (for a), and
    Σ_j λ_ij m_ij e_ij (g_i · x_j) = g_i · Σ_j (λ_ij m_ij e_ij) x_j is such a product. Reordering
    into the transpose's entry order is the dearest step: one array serves for all, the weight with
    the sign of the dropout mask (negative: dropped). Since ``exp(s) > 1`` exactly where ``s > 0``,
    the slope of the leaky ReLU is read off it as well, unless the scores had to be shifted.
    """

    @staticmethod
    def forward(
        ctx: Any,
        pattern: Csr,
        x: Tensor,
        source: Tensor,
        target: Tensor,
        signs: Tensor | None,
        scale: float,
    ) -> Tensor:
        scores = source.index_select(0, pattern.indices).add_(target.index_select(0, pattern.rows))
        positive = None
        if _needs_shift(source, target):
            positive = scores > 0
            scores = shifted(pattern, F.leaky_relu_(scores, SLOPE))
        else:
            F.leaky_relu_(scores, SLOPE)
        weights = scores.exp_()
        if signs is None:
            out, total, _ = weighted_mean(pattern, weights, x)
        else:
            total = pattern.row_sums(weights).unsqueeze(1)
            weights.mul_(signs)
            out = torch.mm(pattern.filled(weights.relu()), x).mul_(scale / total)
        ctx.pattern, ctx.scale = pattern, scale
        ctx.save_for_backward(x, weights, positive, total, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None, None]:
        x, weights, positive, total, out = ctx.saved_tensors
        pattern: Csr = ctx.pattern
        back, order = pattern.transposed
        grad = grad / total
        centre = (grad * out).sum(1)
        grad = grad.mul_(ctx.scale)
        steep = _steep(weights, positive)
        weights_t = weights.index_select(0, order)
        steep_t = _steep(weights_t, None) if positive is None else steep.index_select(0, order)
        to_x = torch.mm(back.filled(weights_t.relu_()), grad)
        to_target = (grad * torch.mm(pattern.filled(steep.relu()), x)).sum(1)
        to_target -= centre * pattern.row_sums(steep.abs_())
        to_source = (x * torch.mm(back.filled(steep_t.relu()), grad)).sum(1)
        to_source -= torch.mv(back.filled(steep_t.abs_()), centre)
        return None, to_x, to_source, to_target, None, None


def _needs_shift(source: Tensor, target: Tensor) -> bool:
    if not source.numel() or not target.numel():
        return False
    bound = source.detach().abs().max() + target.detach().abs().max()
    return bool(bound > _SAFE_SCORE)


def _steep(weights: Tensor, positive: Tensor | None) -> Tensor:
    """Weights times the leaky ReLU's derivative, their signs kept."""
    above_one = F.hardshrink(weights, 1.0) if positive is None else weights * positive
    return above_one.mul_(1.0 - SLOPE).add_(weights, alpha=SLOPE)
