"""Radial normalising flows: one learnable density per class, all classes at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class RadialFlows(nn.Module):
    r"""``num_flows`` densities on R^dim, each a chain of radial maps onto a standard normal.

    One map pulls points towards a centre :math:`c` or pushes them away from it
    (Rezende & Mohamed, 2015):

    .. math:: f(z) = z + \frac{\beta}{\alpha + r} (z - c), \qquad r = \lVert z - c \rVert,

    with :math:`\alpha > 0` and :math:`\beta > -\alpha`, which makes it invertible. Along the ray
    from the centre, :math:`r \mapsto r (\gamma + r) / (\alpha + r)` with
    :math:`\gamma = \alpha + \beta > 0`; so both the determinant and the inverse have closed forms.

    Parameters
    ----------
    num_flows
        Number of densities (classes).
    dim
        Dimension of the space.
    num_layers
        Radial maps in each chain.
    generator
        Source of the initial values.

    Examples
    --------
    >>> flows = RadialFlows(3, dim=2, num_layers=4, generator=torch.Generator().manual_seed(0))
    >>> near, far = flows.log_prob(torch.tensor([[0.0, 0.0], [9.0, 9.0]]))
    >>> near.shape, bool((near > far).all())
    (torch.Size([3]), True)
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
        """Map points [n, dim] to the normal's space.

        Returns
        -------
        points : Tensor [num_flows, n, dim]
        log_det : Tensor [num_flows, n]
            Logarithm of the Jacobian's determinant.
        """
        points = z.unsqueeze(0).expand(self.num_flows, -1, -1)
        total = z.new_zeros(self.num_flows, z.shape[0])
        for centre, alpha, gamma in self._layers():
            offset = points - centre
            radius = torch.linalg.vector_norm(offset, dim=-1)
            shift = (gamma - alpha) / (alpha + radius)
            points = torch.addcmul(points, shift.unsqueeze(-1), offset)
            # 1 + βh and 1 + βh + βh'r with h = 1 / (α + r): the stretch across and along the ray.
            across = torch.log1p(shift)
            along = torch.log1p(shift * alpha / (alpha + radius))
            total = total + (self.dim - 1) * across + along
        return points, total

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
        points, log_det = self.forward(z)
        normal = -0.5 * (points.square().sum(-1) + self.dim * math.log(2 * math.pi))
        return (normal + log_det).T.contiguous()

    def _layers(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        alphas = F.softplus(self.raw_alpha).unsqueeze(-1)
        gammas = F.softplus(self.raw_gamma).unsqueeze(-1)
        centres = self.centre.unsqueeze(2)
        return list(zip(centres, alphas, gammas, strict=True))
