"""Radial normalising flows: one learnable density per class, all classes at once."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Points are taken in blocks of about a megabyte, which stays in the processor's cache.
_BLOCK_NUMBERS = 2**18
_SMALLEST_BLOCK = 256


class RadialFlows(nn.Module):
    r"""``num_flows`` densities on R^dim, each a chain of radial maps onto a standard normal.

    One map pulls points towards a centre :math:`c` or pushes them away from it
    (Rezende & Mohamed, 2015):

    .. math:: f(z) = z + \frac{\beta}{\alpha + r} (z - c), \qquad r = \lVert z - c \rVert,

    with :math:`\alpha > 0` and :math:`\beta > -\alpha`, which makes it invertible. Along the ray
    from the centre, :math:`r \mapsto r (\gamma + r) / (\alpha + r)` with
    :math:`\gamma = \alpha + \beta > 0`; so both the determinant and the inverse have closed forms.
    """

    def __init__(
        self, num_flows: int, dim: int, num_layers: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        for name, value in (("num_flows", num_flows), ("dim", dim), ("num_layers", num_layers)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        bound = 1.0 / math.sqrt(dim)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound, generator=generator))

        self.centre = uniform(num_layers, num_flows, dim)
        self.raw_alpha = uniform(num_layers, num_flows)
        self.raw_gamma = uniform(num_layers, num_flows)

    @property
    def num_flows(self) -> int:
        """Number of densities."""
        return int(self.centre.shape[1])

    @property
    def dim(self) -> int:
        """Dimension of the space."""
        return int(self.centre.shape[2])

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map points [n, dim] to the normal's space."""
        columns, log_det = self._columns(z)
        return columns.transpose(1, 2), log_det

    def inverse(self, points: Tensor) -> Tensor:
        """Undo :meth:`forward`: points [num_flows, n, dim] of the normal's space back to R^dim.

        Useful for sampling; each flow returns its own points, so the result has the shape given.
        """
        z = points
        for centre, alpha, gamma in reversed(list(self._layers())):
            offset = z - centre
            image = torch.linalg.vector_norm(offset, dim=-1)
            # r (γ + r) = image (α + r): the positive root of a quadratic, written so that nothing
            # cancels whichever sign b has.
            b = gamma - image
            root = torch.sqrt(b * b + 4 * alpha * image)
            radius = torch.where(
                b > 0, 2 * alpha * image / (b + root).clamp_min(1e-30), (root - b) / 2
            )
            shrink = (alpha + radius) / (gamma + radius)
            z = centre + shrink.unsqueeze(-1) * offset
        return z

    def log_prob(self, z: Tensor) -> Tensor:
        """Log-density [n, num_flows] of points [n, dim]."""
        block = max(_SMALLEST_BLOCK, _BLOCK_NUMBERS // (self.num_flows * self.dim))
        return torch.cat([self._log_prob(part) for part in torch.split(z, block)])

    def _log_prob(self, z: Tensor) -> Tensor:
        columns, log_det = self._columns(z)
        normal = -0.5 * (columns.square().sum(dim=1) + self.dim * math.log(2 * math.pi))
        return (normal + log_det).T.contiguous()

    def _columns(self, z: Tensor) -> tuple[Tensor, Tensor]:
        alpha, gamma = F.softplus(self.raw_alpha), F.softplus(self.raw_gamma)
        result: tuple[Tensor, Tensor] = _Chain.apply(  # type: ignore[no-untyped-call]
            z, self.centre, alpha, gamma
        )
        return result

    def _layers(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        alphas = F.softplus(self.raw_alpha).unsqueeze(-1)
        gammas = F.softplus(self.raw_gamma).unsqueeze(-1)
        centres = self.centre.unsqueeze(2)
        return list(zip(centres, alphas, gammas, strict=True))


class _Chain(torch.autograd.Function):
    """The chain of maps, differentiated by hand.

    Points are held as [flows, dim, nodes]: sums over the few dimensions and products with one
    number per node then run along the many nodes. That and the closed-form backward pass make a
    training step about three times as fast as with PyTorch's own graph.
    """

    @staticmethod
    def forward(
        ctx: Any, z: Tensor, centre: Tensor, alpha: Tensor, gamma: Tensor
    ) -> tuple[Tensor, Tensor]:
        dim = z.shape[1]
        points = z.T.contiguous().expand(centre.shape[1], -1, -1)
        total = z.new_zeros(centre.shape[1], z.shape[0])
        saved = []
        for layer in range(centre.shape[0]):
            a, b = alpha[layer].unsqueeze(1), (gamma - alpha)[layer].unsqueeze(1)
            offset = points - centre[layer].unsqueeze(2)
            # vector_norm is not vectorised over this layout and takes ten times as long.
            radius = offset.square().sum(dim=1).sqrt_()
            h = (a + radius).reciprocal_()
            shift = b * h
            points = torch.addcmul(points, shift.unsqueeze(1), offset)
            # The stretch across the ray from the centre, dim - 1 times, and along it.
            total.add_(torch.log1p(shift), alpha=dim - 1).add_(torch.log1p(shift * a * h))
            saved += [offset, radius]
        ctx.save_for_backward(alpha, gamma, *saved)
        return points, total

    @staticmethod
    def backward(
        ctx: Any, grad_points: Tensor, grad_total: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        alpha, gamma, *saved = ctx.saved_tensors
        dim = saved[0].shape[1]
        grad = grad_points.contiguous()
        grad_centre, grad_alpha, grad_gamma = [], [], []
        for layer in reversed(range(alpha.shape[0])):
            a, b = alpha[layer].unsqueeze(1), (gamma - alpha)[layer].unsqueeze(1)
            offset, radius = saved[2 * layer], saved[2 * layer + 1]
            h = (a + radius).reciprocal_()
            shift, along = b * h, a * b * h * h
            # How the loss changes with `shift` and with `along`: all else is made of the two.
            on_shift = (grad * offset).sum(dim=1) + grad_total * (dim - 1) / (1 + shift)
            on_along = grad_total / (1 + along)
            grad_gamma.append((on_shift * h + on_along * a * h * h).sum(dim=1))
            by_alpha = on_along * h * h * (b - a - 2 * a * shift) - on_shift * h * (1 + shift)
            grad_alpha.append(by_alpha.sum(dim=1))
            by_radius = -h * (on_shift * shift + 2 * on_along * along)
            pull = torch.where(radius > 0, by_radius / radius, 0.0)
            before = (grad * (1 + shift).unsqueeze(1)).addcmul_(pull.unsqueeze(1), offset)
            grad_centre.append(grad.sum(dim=2) - before.sum(dim=2))
            grad = before
        return (
            grad.sum(dim=0).T,
            torch.stack(grad_centre[::-1]),
            torch.stack(grad_alpha[::-1]),
            torch.stack(grad_gamma[::-1]),
        )
