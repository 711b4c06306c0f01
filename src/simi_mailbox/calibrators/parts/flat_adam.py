"""Adam on all parameters of a network as one vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FlatAdam:
    """Adam with L2 weight decay; the steps are those of ``torch.optim.Adam``.

    Calibrators have a handful of tiny parameters, for which one update of one vector is several
    times faster than an update of each; and ``torch.optim`` loads a compiler at its first use,
    which would make the first fit of a process wait for seconds.

    Parameters
    ----------
    network : Module
        Its parameters become views of `values`, their gradients views of `gradients`.
    lr, weight_decay, betas, eps : float
        As in Kingma & Ba, "Adam", ICLR 2015.

    Examples
    --------
    >>> layer = nn.Linear(2, 1)
    >>> adam = FlatAdam(layer, lr=0.1)
    >>> before = adam.values.clone()
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> adam.step()
    >>> before - adam.values  # the first step is lr in every direction
    tensor([0.1000, 0.1000, 0.1000])
    """

    values: Tensor
    gradients: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        lr: float = 0.01,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.lr, self.weight_decay, self.betas, self.eps = lr, weight_decay, betas, eps
        parameters = [p for p in network.parameters() if p.requires_grad]
        self.values = torch.cat([p.detach().flatten() for p in parameters])
        self.gradients = torch.zeros_like(self.values)
        self._mean, self._square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self._steps = 0
        sizes = [p.numel() for p in parameters]
        parts = zip(
            parameters,
            torch.split(self.values, sizes),
            torch.split(self.gradients, sizes),
            strict=True,
        )
        for parameter, value, gradient in parts:
            parameter.data = value.view(parameter.shape)
            parameter.grad = gradient.view(parameter.shape)

    def step(self) -> None:
        """Move against the gradients that have come together, and set them to zero."""
        self._steps += 1
        first, second = self.betas
        gradient = self.gradients.add_(self.values, alpha=self.weight_decay)
        self._mean.lerp_(gradient, 1 - first)
        self._square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        size = self._square.sqrt().div_((1 - second**self._steps) ** 0.5).add_(self.eps)
        self.values.addcdiv_(self._mean, size, value=-self.lr / (1 - first**self._steps))
        self.gradients.zero_()
