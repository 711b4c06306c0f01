"""Graph posterior networks (Stadler et al., NeurIPS 2021): probabilities with evidence behind them.

A GPN encodes the features of every node, asks one density per class how often such features were
seen in training, and spreads that evidence over the graph by personalised PageRank.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simi_mailbox.parameters import (
    Constraint,
    Count,
    NonNegative,
    Positive,
    Share,
    Whole,
    check_parameters,
)
from simi_mailbox.sparse import Csr
from simi_mailbox_bench.backbones.features import Features, drop
from simi_mailbox_bench.backbones.networks import fan_in_uniform
from simi_mailbox_bench.backbones.training import (
    LowestLoss,
    Progress,
    check_width,
    read_graph,
    read_labels,
    step,
    train_loop,
)
from simi_mailbox_bench.datasets.dataset import Split

# Points are taken in blocks of about a megabyte, which stays in the processor's cache.
_BLOCK_NUMBERS = 2**18
_SMALLEST_BLOCK = 256


class RadialFlows(nn.Module):
    """``num_flows`` densities on R^dim, each a chain of radial maps onto a standard normal.

    One map f(z) = z + β / (α + r) (z − c), r = |z − c|, pulls points towards a centre c or pushes
    them away from it (Rezende & Mohamed, 2015). It is invertible for α > 0 and γ = α + β > 0; along
    the ray from the centre r ↦ r (γ + r) / (α + r), so that the determinant has a closed form.
    """

    def __init__(
        self, num_flows: int, dim: int, num_layers: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(dim)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound, generator=generator))

        self.centre = uniform(num_layers, num_flows, dim)
        self.raw_alpha = uniform(num_layers, num_flows)
        self.raw_gamma = uniform(num_layers, num_flows)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Map points [n, dim] to the normal's space [num_flows, dim, n]; log-determinants."""
        alpha, gamma = F.softplus(self.raw_alpha), F.softplus(self.raw_gamma)
        result: tuple[Tensor, Tensor] = _Chain.apply(  # type: ignore[no-untyped-call]
            z, self.centre, alpha, gamma
        )
        return result

    def log_prob(self, z: Tensor) -> Tensor:
        """Log-density [n, num_flows] of points [n, dim]."""
        _, num_flows, dim = self.centre.shape
        block = max(_SMALLEST_BLOCK, _BLOCK_NUMBERS // (num_flows * dim))
        found = []
        for part in torch.split(z, block):
            points, log_det = self.forward(part)
            normal = -0.5 * (points.square().sum(dim=1) + dim * math.log(2 * math.pi))
            found.append((normal + log_det).T.contiguous())
        return torch.cat(found)


class _Chain(torch.autograd.Function):
    """The chain of maps, differentiated by hand: a third of the time of PyTorch's own graph.

    Points are held as [flows, dim, nodes], so that sums and products run along the many nodes.
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


_LOG_EVIDENCE_LIMIT = 30.0  # keeps exp() and digamma() inside what float32 can hold


@dataclass(frozen=True)
class GPNSettings:
    """Shape and training of a GPN; the defaults are the authors' smaller model.

    Of personalised PageRank, ``teleport`` is the share of evidence that stays and ``steps`` the
    rounds. ``entropy_weight`` is that of the Dirichlet entropy that is rewarded in the loss;
    ``class_budget`` multiplies the evidence of a node by the number of classes. The flows have no
    weight decay, and the first ``warmup_epochs`` move them alone. Training stops when the
    validation cross-entropy has not fallen for ``patience`` epochs.
    """

    latent_dim: Count = 10
    hidden_dim: Count = 64
    flow_layers: Count = 10
    dropout: Share = 0.5
    teleport: Annotated[float, Constraint("in (0, 1]", lambda x: 0 < x <= 1)] = 0.2
    steps: Whole = 10
    entropy_weight: float = 1e-5
    class_budget: bool = True
    lr: Positive = 0.01
    weight_decay: NonNegative = 5e-4
    warmup_epochs: Whole = 5
    max_epochs: Count = 10_000
    patience: Count = 50
    row_normalise: bool = True

    def __post_init__(self) -> None:
        check_parameters(self)

    @classmethod
    def latent16(cls) -> GPNSettings:
        """Return the authors' other model: 16 latent dimensions, wider spread of evidence."""
        return cls(
            latent_dim=16, teleport=0.1, entropy_weight=1e-4, weight_decay=1e-3, class_budget=False
        )


@dataclass(frozen=True)
class GPNPrediction:
    """What a GPN says of every node: a Dirichlet distribution over its class probabilities."""

    alpha: Tensor

    @property
    def probs(self) -> Tensor:
        """Expected class probabilities [n, K]."""
        return self.alpha / self.alpha.sum(dim=1, keepdim=True)

    @property
    def log_probs(self) -> Tensor:
        """Logarithm of `probs`: the closest thing to logits, and what calibrators take."""
        return self.alpha.log() - self.alpha.sum(dim=1, keepdim=True).log()

    @property
    def evidence(self) -> Tensor:
        """Pseudo-observations behind each node's prediction [n]; 0 means that nothing is known."""
        return (self.alpha - 1.0).sum(dim=1)


class GPN(nn.Module):
    """Graph posterior network; ``log_prior`` holds the log frequencies of the training classes."""

    log_prior: Tensor

    def __init__(self, in_dim: int, log_prior: Tensor, settings: GPNSettings, seed: int) -> None:
        super().__init__()
        self.settings = settings
        self.generator = torch.Generator().manual_seed(seed)
        self.register_buffer("log_prior", log_prior.to(torch.float32))
        hidden, latent = settings.hidden_dim, settings.latent_dim
        self.weight1, self.bias1, self.weight2, self.bias2 = (
            nn.Parameter(fan_in_uniform(shape, fan_in, self.generator))
            for fan_in, out in ((in_dim, hidden), (hidden, latent))
            for shape in ((fan_in, out), (out,))
        )
        classes = log_prior.numel()
        self.flows = RadialFlows(classes, latent, settings.flow_layers, self.generator)

    def encode(self, features: Features | Tensor) -> Tensor:
        """Latent points [n, latent_dim] of the nodes."""
        hidden = torch.relu(features @ self.weight1 + self.bias1)
        noise = self.generator if self.training else None
        return drop(hidden, self.settings.dropout, noise) @ self.weight2 + self.bias2

    def feature_evidence(self, latent: Tensor) -> Tensor:
        """Evidence [n, K] for every class from the features alone."""
        # A flow that has drifted may overflow far from the data; no density is returned.
        log_density = self.flows.log_prob(latent).nan_to_num(nan=-math.inf)
        budget = 0.5 * self.settings.latent_dim * math.log(4 * math.pi)
        if self.settings.class_budget:
            budget += math.log(self.log_prior.numel())
        scaled = log_density + self.log_prior + budget
        return scaled.clamp(-_LOG_EVIDENCE_LIMIT, _LOG_EVIDENCE_LIMIT).exp()

    def forward(self, features: Features | Tensor, adjacency: Csr) -> GPNPrediction:
        """Predict every node of a graph, the training graph or another one."""
        own, how = self.feature_evidence(self.encode(features)), self.settings
        spread = personalised_pagerank(own, adjacency, teleport=how.teleport, steps=how.steps)
        return GPNPrediction(1.0 + spread)


def personalised_pagerank(values: Tensor, adjacency: Csr, *, teleport: float, steps: int) -> Tensor:
    """``steps`` rounds of x ← (1 - teleport) Â x + teleport · values, started at ``values``."""
    current = values
    for _ in range(steps):
        current = torch.add(teleport * values, adjacency @ current, alpha=1.0 - teleport)
    return current


def posterior_loss(alpha: Tensor, y: Tensor, entropy_weight: float) -> Tensor:
    """Expected cross-entropy under the Dirichlet, less the weighted entropy; summed over nodes."""
    total = alpha.sum(dim=1)
    own = alpha.gather(1, y.unsqueeze(1)).squeeze(1)
    expected = torch.digamma(total) - torch.digamma(own)
    return (expected - entropy_weight * dirichlet_entropy(alpha)).sum()


def dirichlet_entropy(alpha: Tensor) -> Tensor:
    """Differential entropy [n]; Stirling's form above 10,000, where exact terms cancel."""
    k = alpha.shape[1]
    total = alpha.sum(dim=1)
    exact = (
        torch.lgamma(alpha).sum(dim=1)
        - torch.lgamma(total)
        - (k - total) * torch.digamma(total)
        - ((alpha - 1.0) * torch.digamma(alpha)).sum(dim=1)
    )
    stirling = (
        0.5 * (k - 1) * (1.0 + math.log(2 * math.pi))
        + 0.5 * alpha.log().sum(dim=1)
        - (k - 0.5) * total.log()
    )
    return torch.where(total >= 10_000, stirling, exact)


@dataclass(frozen=True)
class TrainedGPN:
    """A trained GPN, for its own graph or another one with the same features."""

    model: GPN
    epochs: int
    seconds: float
    val_loss: float

    @torch.no_grad()
    def predict(self, features: Any, graph: Any) -> GPNPrediction:
        """Predict every node of a graph; features must be as wide as those trained on."""
        x, adjacency = read_graph(features, graph, row_normalise=self.model.settings.row_normalise)
        check_width(x, self.model.weight1.shape[0], "GPN")
        prediction: GPNPrediction = self.model(x, adjacency)
        return prediction


def train_gpn(
    features: Any,
    graph: Any,
    y: Any,
    split: Split,
    *,
    num_classes: int | None = None,
    settings: GPNSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainedGPN:
    """Train a graph posterior network on the training nodes of a split."""
    settings = settings or GPNSettings()
    x, adjacency = read_graph(features, graph, row_normalise=settings.row_normalise)
    train, val, classes = read_labels(y, split, x.shape[0], num_classes)
    counts = torch.bincount(train.y, minlength=classes).to(torch.float32)
    if not counts.all():
        told = f"class {int(counts.argmin())} has no training node"
        raise ValueError(f"{told}; a GPN fits one density to each class")
    model = GPN(x.shape[1], (counts / counts.sum()).log(), settings, seed)

    started = time.perf_counter()
    flow_weights = list(model.flows.parameters())
    others = [model.weight1, model.bias1, model.weight2, model.bias2]
    warmup = torch.optim.Adam(flow_weights, lr=settings.lr)
    main = torch.optim.Adam(
        [
            {"params": flow_weights, "weight_decay": 0.0},
            {"params": others, "weight_decay": settings.weight_decay},
        ],
        lr=settings.lr,
    )

    def loss() -> Tensor:
        prediction: GPNPrediction = model(x, adjacency)
        return posterior_loss(prediction.alpha[train.index], train.y, settings.entropy_weight)

    @torch.no_grad()
    def validate() -> tuple[float]:
        prediction: GPNPrediction = model(x, adjacency)
        return (float(F.nll_loss(prediction.log_probs[val.index], val.y)),)

    for _ in range(settings.warmup_epochs):
        step(model, warmup, loss)
    rule = LowestLoss(settings.patience)
    best = train_loop(
        model, main, loss, validate, rule, epochs=settings.max_epochs, progress=progress
    )
    return TrainedGPN(model, best.epochs, time.perf_counter() - started, rule.best)
