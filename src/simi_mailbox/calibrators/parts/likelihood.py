"""What outputs say of labels: NLLs for `training.train`."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from simi_mailbox.softmax import row_blocks
from simi_mailbox.validation import Labelled

Loss = Callable[[Tensor], Tensor]
"""From a network's output on some labelled nodes to their mean NLL."""
Likelihood = Callable[[Labelled], Loss]

CACHED_ELEMENTS = 1 << 18


def softmax_nll(nodes: Labelled) -> Loss:
    """For networks that return calibrated logits [m, K]: the cross-entropy."""
    return lambda logits: F.cross_entropy(logits, nodes.y)


def scaled_nll(logits: Tensor) -> Likelihood:
    """For networks that return inverse temperatures [m]: the NLL of softmax(z_i · output_i).

    Value and slope are found in one pass over the logits, in blocks that stay in the processor's
    cache: several times faster than autograd.
    """

    def of(nodes: Labelled) -> Loss:
        rows = logits[nodes.index]
        return lambda scale: _ScaledNll.apply(scale, rows, nodes.y)  # type: ignore[no-untyped-call]

    return of


class _ScaledNll(Function):
    @staticmethod
    def forward(ctx: Any, scale: Tensor, logits: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        slope = torch.empty_like(scale)
        with_slope = ctx.needs_input_grad[0]
        for block in row_blocks(len(logits), logits.shape[1], CACHED_ELEMENTS):
            z, b, target = logits[block], scale[block, None], y[block, None]
            log_probs = (z * b).log_softmax(dim=1)
            total -= log_probs.gather(1, target).sum(dtype=torch.float64)
            if with_slope:  # Σ_k q_k z_k − z_y
                expected = torch.einsum("nk,nk->n", log_probs.exp_(), z)
                slope[block] = expected - z.gather(1, target).flatten()
        ctx.save_for_backward(slope)
        return (total / len(y)).to(scale.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * (gradients[0] / slope.numel()), None, None
