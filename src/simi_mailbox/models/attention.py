"""Attention of a graph attention network as sparse products.

Written out, one head of GAT computes for node *i* with (self-loop included) neighbours *j*

    e_ij = exp(leaky_relu(a_j + b_i)),   out_i = Σ_j m_ij e_ij h_j / Σ_j e_ij

where ``m`` is the dropout mask of the attention coefficients. Both sums are products of a sparse
matrix with a dense one. So is the whole backward pass: the only entry-wise gradient, that of
``e_ij``, is needed just summed over rows (for b) and over columns (for a), and
``Σ_j λ_ij m_ij e_ij (g_i · h_j) = g_i · Σ_j (λ_ij m_ij e_ij) h_j`` is again such a product.
Nothing of size entries × hidden is built. Several heads are one block-diagonal matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from simi_mailbox.models.ops import Csr

# exp() of a score within ±40 and sums of 10^9 of them stay far inside float32: then the usual
# shift by the row maximum changes nothing but the last bit, and is left out.
_SAFE_SCORE = 40.0


class _Attention(torch.autograd.Function):
    """One product forward, four backward, and a single reordering of the entries.

    Reordering into the transpose's entry order is a random gather, the dearest step of all. One
    array serves for all that is needed there: the weight with the sign of the dropout mask
    (negative: dropped). And since ``exp(s) > 1`` exactly where ``s > 0``, the slope of the leaky
    ReLU can be read off it as well, unless the scores had to be shifted.
    """

    @staticmethod
    def forward(
        ctx: Any,
        pattern: Csr,
        hidden: Tensor,
        source: Tensor,
        target: Tensor,
        slope: float,
        signs: Tensor | None,
        scale: float,
    ) -> Tensor:
        scores = source.index_select(0, pattern.indices).add_(target.index_select(0, pattern.rows))
        positive = None
        shifted = _needs_shift(source, target)
        if shifted:
            positive = scores > 0
        F.leaky_relu_(scores, slope)
        if shifted:
            scores.sub_(_row_max(scores, pattern).index_select(0, pattern.rows))
        weights = scores.exp_()
        if signs is None:
            # The row sum rides along as one column more.
            right = torch.cat([hidden, hidden.new_ones(hidden.shape[0], 1)], dim=1)
            sums = torch.mm(pattern.filled(weights), right)
            total, out = sums[:, -1:], sums[:, :-1] / sums[:, -1:]
        else:
            total = pattern.row_sums(weights).unsqueeze(1)
            weights.mul_(signs)
            out = torch.mm(pattern.filled(weights.relu()), hidden).mul_(scale / total)
        ctx.pattern, ctx.slope, ctx.scale = pattern, slope, scale
        ctx.save_for_backward(hidden, weights, positive, total, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None, None, None]:
        hidden, weights, positive, total, out = ctx.saved_tensors
        pattern: Csr = ctx.pattern
        order = pattern.transposition[2]
        grad = grad / total
        centre = (grad * out).sum(1)
        grad = grad.mul_(ctx.scale)
        steep = _steep(weights, positive, ctx.slope)
        weights_t = weights.index_select(0, order)
        if positive is None:
            steep_t = _steep(weights_t, None, ctx.slope)
        else:
            steep_t = steep.index_select(0, order)
        grad_hidden = torch.mm(pattern.filled_in_transpose(weights_t.relu_()), grad)
        grad_target = (grad * torch.mm(pattern.filled(steep.relu()), hidden)).sum(1)
        grad_target -= centre * pattern.row_sums(steep.abs_())
        back = torch.mm(pattern.filled_in_transpose(steep_t.relu()), grad)
        grad_source = (hidden * back).sum(1)
        grad_source -= torch.mv(pattern.filled_in_transpose(steep_t.abs_()), centre)
        return None, grad_hidden, grad_source, grad_target, None, None, None


def _needs_shift(source: Tensor, target: Tensor) -> bool:
    if not source.numel() or not target.numel():
        return False
    bound = source.detach().abs().max() + target.detach().abs().max()
    return bool(bound > _SAFE_SCORE)


def _row_max(scores: Tensor, pattern: Csr) -> Tensor:
    return torch.segment_reduce(
        scores, "max", offsets=pattern.indptr.long(), unsafe=True, initial=float("-inf")
    )


def _steep(weights: Tensor, positive: Tensor | None, slope: float) -> Tensor:
    """Weights times the leaky ReLU's derivative, their signs kept."""
    above_one = F.hardshrink(weights, 1.0) if positive is None else weights * positive
    return above_one.mul_(1.0 - slope).add_(weights, alpha=slope)


def attend(
    pattern: Csr,
    hidden: Tensor,
    source: Tensor,
    target: Tensor,
    *,
    slope: float = 0.2,
    signs: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """Weighted mean of neighbours with softmax attention, for one head or stacked heads.

    Parameters
    ----------
    pattern : Csr
        Who listens to whom (values unused), each row with at least one entry.
    hidden : Tensor [columns, d]
        What neighbours say.
    source, target : Tensor [columns], Tensor [rows]
        The two halves of the attention score.
    slope : float
        Negative slope of the leaky ReLU.
    signs : Tensor [entries], optional
        Dropout of the coefficients: +1 keeps one, -1 drops it.
    scale : float
        What kept coefficients are multiplied by.

    Examples
    --------
    >>> pattern = Csr(torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2), (1, 2))
    >>> attend(pattern, torch.tensor([[0.0], [4.0]]), torch.zeros(2), torch.zeros(1)).tolist()
    [[2.0]]
    """
    result: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        pattern, hidden, source, target, slope, signs, scale
    )
    return result


def stack_heads(pattern: Csr, heads: int) -> Csr:
    """Block-diagonal matrix with ``heads`` copies of ``pattern``.

    Examples
    --------
    >>> one = Csr(torch.tensor([0, 1]), torch.tensor([1]), torch.ones(1), (1, 2))
    >>> stack_heads(one, 2).indices.tolist()
    [1, 3]
    """
    if heads == 1:
        return pattern
    rows, columns = pattern.shape
    head = torch.arange(heads, dtype=torch.int32).unsqueeze(1)
    starts = pattern.indptr[:-1] + head * pattern.num_entries
    indptr = torch.cat([starts.flatten(), torch.tensor([heads * pattern.num_entries])])
    return Csr(
        indptr,
        (pattern.indices + head * columns).flatten(),
        pattern.values.repeat(heads),
        (heads * rows, heads * columns),
    )
