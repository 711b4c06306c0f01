"""A hidden layer over the edges of a graph, a few thousand edges at a time.

With H hidden units, the layer's values are E·H numbers, which on a graph of half a million entries
are hundreds of megabytes for every step of the arithmetic. Here a block of edges stays in the cache
from its first sum to its one number per edge, and the backward pass computes it again.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

BLOCK = 2**16
"""Values of the layer that are held at a time."""


def edge_units(
    ends: tuple[Tensor, Tensor], a: Tensor, b: Tensor, weight: Tensor, kept: Tensor | None = None
) -> Tensor:
    """weight · relu(a_j + b_i) of every entry (i, j), differentiable in all three."""
    result: Tensor = _EdgeUnits.apply(ends, a, b, weight, kept)  # type: ignore[no-untyped-call]
    return result


class _EdgeUnits(Function):
    @staticmethod
    def forward(
        ctx: Any,
        ends: tuple[Tensor, Tensor],
        a: Tensor,
        b: Tensor,
        weight: Tensor,
        kept: Tensor | None,
    ) -> Tensor:
        ctx.ends, ctx.kept = ends, kept
        ctx.save_for_backward(a, b, weight)
        values = weight.new_empty(ends[0].numel())
        for part in _blocks(values.numel(), weight.numel()):
            torch.mv(_units(ends, a, b, kept, part), weight, out=values[part])
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor, Tensor, None]:
        (gradient,), (j, i) = gradients, ctx.ends
        a, b, weight = ctx.saved_tensors
        to_a, to_b, to_weight = torch.zeros_like(a), torch.zeros_like(b), torch.zeros_like(weight)
        for part in _blocks(gradient.numel(), weight.numel()):
            units, above = _units(ctx.ends, a, b, ctx.kept, part), gradient[part]
            to_weight.addmv_(units.t(), above)
            units.sign_().mul_(weight).mul_(above.unsqueeze(1))
            to_a.index_add_(0, j[part], units)
            to_b.index_add_(0, i[part], units)
        return None, to_a, to_b, to_weight, None


def _blocks(edges: int, width: int) -> list[slice]:
    step = max(1, BLOCK // max(1, width))
    return [slice(start, start + step) for start in range(0, edges, step)]


def _units(
    ends: tuple[Tensor, Tensor], a: Tensor, b: Tensor, kept: Tensor | None, part: slice
) -> Tensor:
    j, i = ends
    units = a.index_select(0, j[part]).add_(b.index_select(0, i[part])).relu_()
    return units if kept is None else units.mul_(kept[part])
