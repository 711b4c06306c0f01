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
    @staticmethod
    def forward(
        ctx: Any,
        pattern: Csr,
        hidden: Tensor,
        source: Tensor,
        target: Tensor,
        slope: float,
        mask: Tensor | None,
    ) -> Tensor:
        scores = source.index_select(0, pattern.indices).add_(target.index_select(0, pattern.rows))
        positive = scores > 0 if ctx.needs_input_grad[2] else None
        scores = F.leaky_relu_(scores, slope)
        shifted = _needs_shift(source, target)
        if shifted:
            scores.sub_(_row_max(scores, pattern).index_select(0, pattern.rows))
        weights = scores.exp_()
        kept = weights if mask is None else weights * mask
        total = pattern.row_sums(weights).unsqueeze(1)
        out = torch.mm(pattern.filled(kept), hidden).div_(total)
        ctx.pattern, ctx.slope, ctx.shifted = pattern, slope, shifted
        ctx.save_for_backward(hidden, weights, mask, positive, total, out)
        return out

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: Any, grad: Tensor
    ) -> tuple[None, Tensor, Tensor, Tensor, None, None]:
        hidden, weights, mask, positive, total, out = ctx.saved_tensors
        pattern: Csr = ctx.pattern
        grad = grad / total
        centre = (grad * out).sum(1, keepdim=True)
        steep = _steepness(positive, ctx.slope, weights.dtype).mul_(weights)
        steep_t, weights_t, mask_t = _transposed(ctx, steep, weights, mask, positive)
        if mask is None:
            kept_t, steep_kept, steep_kept_t = weights_t, steep, steep_t
        else:
            kept_t, steep_kept, steep_kept_t = (
                weights_t.mul_(mask_t),
                steep * mask,
                steep_t * mask_t,
            )
        indptr_t, indices_t, _ = pattern.transposition
        shape_t = (pattern.shape[1], pattern.shape[0])

        def back(values: Tensor, dense: Tensor) -> Tensor:
            matrix = torch.sparse_csr_tensor(
                indptr_t, indices_t, values, shape_t, check_invariants=False
            )
            return torch.mm(matrix, dense)

        grad_hidden = back(kept_t, grad)
        grad_target = (grad * torch.mm(pattern.filled(steep_kept), hidden)).sum(1)
        grad_target -= centre.squeeze(1) * pattern.row_sums(steep)
        grad_source = (hidden * back(steep_kept_t, grad)).sum(1)
        grad_source -= back(steep_t, centre).squeeze(1)
        return None, grad_hidden, grad_source, grad_target, None, None


def _needs_shift(source: Tensor, target: Tensor) -> bool:
    if not source.numel() or not target.numel():
        return False
    bound = source.detach().abs().max() + target.detach().abs().max()
    return bool(bound > _SAFE_SCORE)


def _row_max(scores: Tensor, pattern: Csr) -> Tensor:
    return torch.segment_reduce(
        scores, "max", offsets=pattern.indptr.long(), unsafe=True, initial=float("-inf")
    )


def _steepness(positive: Tensor, slope: float, dtype: torch.dtype) -> Tensor:
    """Derivative of the leaky ReLU."""
    return positive.to(dtype).mul_(1.0 - slope).add_(slope)


def _transposed(
    ctx: Any, steep: Tensor, weights: Tensor, mask: Tensor | None, positive: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """``steep``, ``weights`` and ``mask`` in the entry order of the transpose.

    Reordering is a random gather, the dearest step of all. Without a shift one gather does for
    three: a weight is above one exactly where the score is positive, and its sign is free to say
    whether dropout kept the entry.
    """
    order = ctx.pattern.transposition[2]
    if ctx.shifted:
        mask_t = None if mask is None else mask.index_select(0, order)
        return steep.index_select(0, order), weights.index_select(0, order), mask_t
    if mask is None:
        weights_t = weights.index_select(0, order)
        mask_t = None
    else:
        scale = float(mask.max())
        signed = mask.mul(2.0 / scale).sub_(1.0).mul_(weights).index_select(0, order)
        mask_t = (signed > 0).to(weights.dtype).mul_(scale)
        weights_t = signed.abs_()
    steep_t = _steepness(weights_t > 1, ctx.slope, weights.dtype).mul_(weights_t)
    return steep_t, weights_t, mask_t


def attend(
    pattern: Csr,
    hidden: Tensor,
    source: Tensor,
    target: Tensor,
    *,
    slope: float = 0.2,
    mask: Tensor | None = None,
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
    mask : Tensor [entries], optional
        Dropout mask of the coefficients.

    Examples
    --------
    >>> pattern = Csr(torch.tensor([0, 2]), torch.tensor([0, 1]), torch.ones(2), (1, 2))
    >>> attend(pattern, torch.tensor([[0.0], [4.0]]), torch.zeros(2), torch.zeros(1)).tolist()
    [[2.0]]
    """
    result: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        pattern, hidden, source, target, slope, mask
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
