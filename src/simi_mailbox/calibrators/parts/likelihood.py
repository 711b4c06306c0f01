"""What outputs say of labels: NLLs for `training.train`, and confidence calibrated alone.

`softmax_nll` and `scaled_nll` make, for some labelled nodes, the function from a network's output
on these nodes to their mean NLL.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from simi_mailbox.softmax import confidence, row_blocks, top_gaps
from simi_mailbox.validation import CalibrationData, Labelled

Loss = Callable[[Tensor], Tensor]
Likelihood = Callable[[Labelled], Loss]

CACHED_ELEMENTS = 1 << 18


def softmax_nll(nodes: Labelled) -> Loss:
    """For networks that return calibrated logits [m, K]: the cross-entropy."""
    return lambda logits: F.cross_entropy(logits, nodes.y)


def scaled_nll(logits: Tensor) -> Likelihood:
    """For networks that return inverse temperatures [m]: the NLL of softmax(z_i · output_i).

    Its slope in the output needs the same softmax as its value, so both are found in one pass over
    the logits, in blocks that stay in the processor's cache: several times faster than letting
    autograd walk through division, softmax and cross-entropy.
    """

    def of(nodes: Labelled) -> Loss:
        rows, y = logits[nodes.index], nodes.y

        def loss(scale: Tensor) -> Tensor:
            value: Tensor = _ScaledNll.apply(scale, rows, y)  # type: ignore[no-untyped-call]
            return value

        return loss

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


def with_confidence(logits: Tensor, confidences: Tensor) -> Tensor:
    """Probabilities whose predicted class has the given confidence; the others are rescaled.

    The other classes keep their ratios and share what is left. A confidence below r / (1 + r),
    where r is the runner-up's share of the rest, would make the runner-up win: it is raised to
    that point (never above 1/2), so that the predicted class stays.
    """
    winner = logits.argmax(dim=1, keepdim=True)
    rest = top_gaps(logits).scatter_(1, winner, -torch.inf)
    # Softmax over the other classes alone: well defined even where the winner has all the mass.
    rest = torch.softmax(rest, dim=1)
    runner_up = rest.amax(dim=1)
    kept = torch.maximum(confidences.to(rest.dtype), runner_up / (1 + runner_up))
    rest *= (1 - kept).unsqueeze(1)
    return rest.scatter_(1, winner, kept.unsqueeze(1))


def confidence_and_correct(data: CalibrationData) -> tuple[Tensor, Tensor]:
    """Confidence, and whether the predicted class is right, of the calibration nodes (float64)."""
    z = data.calibration_logits
    correct = (z.argmax(dim=1) == data.calibration.y).to(torch.float64)
    return confidence(z), correct
