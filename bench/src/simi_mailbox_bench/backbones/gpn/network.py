"""The posterior network: features → latent point → evidence per class → spread over the graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor, nn

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
from simi_mailbox_bench.backbones.gpn.flows import RadialFlows
from simi_mailbox_bench.backbones.networks import fan_in_uniform

_LOG_EVIDENCE_LIMIT = 30.0  # keeps exp() and digamma() inside what float32 can hold


@dataclass(frozen=True)
class GPNSettings:
    """Shape and training of a GPN; the defaults are the authors' smaller model.

    Parameters
    ----------
    latent_dim, hidden_dim, flow_layers
        Size of the latent space, of the encoder's hidden layer, and of each class's flow.
    dropout
        Rate after the hidden layer.
    teleport, steps
        Of personalised PageRank: the share of evidence that stays, and the rounds.
    entropy_weight
        Weight of the Dirichlet entropy that is rewarded in the loss.
    class_budget
        Whether the evidence of a node is multiplied by the number of classes.
    lr, weight_decay
        Of Adam; the flows have no weight decay.
    warmup_epochs
        Epochs at the start that move the flows alone.
    max_epochs, patience
        Training stops when the validation cross-entropy has not fallen for ``patience`` epochs.
    row_normalise
        Divide each row of the features by its sum where that exceeds one.
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
            latent_dim=16,
            teleport=0.1,
            entropy_weight=1e-4,
            weight_decay=1e-3,
            class_budget=False,
        )


@dataclass(frozen=True)
class GPNPrediction:
    """What a GPN says of every node: a Dirichlet distribution over its class probabilities."""

    alpha: Tensor
    feature_evidence: Tensor

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
    """Graph posterior network.

    ``log_prior`` holds the log frequencies of the classes among the training nodes.
    """

    log_prior: Tensor

    def __init__(self, in_dim: int, log_prior: Tensor, settings: GPNSettings, seed: int) -> None:
        super().__init__()
        self.settings = settings
        self.generator = torch.Generator().manual_seed(seed)
        self.register_buffer("log_prior", log_prior.to(torch.float32))
        self.weight1, self.bias1 = _linear(in_dim, settings.hidden_dim, self.generator)
        self.weight2, self.bias2 = _linear(settings.hidden_dim, settings.latent_dim, self.generator)
        self.flows = RadialFlows(
            log_prior.numel(), settings.latent_dim, settings.flow_layers, self.generator
        )

    def encode(self, features: Features | Tensor) -> Tensor:
        """Latent points [n, latent_dim] of the nodes."""
        hidden = torch.relu(features @ self.weight1 + self.bias1)
        noise = self.generator if self.training else None
        return drop(hidden, self.settings.dropout, noise) @ self.weight2 + self.bias2

    def feature_evidence(self, latent: Tensor) -> Tensor:
        """Evidence [n, K] for every class from the features alone."""
        # A flow that has drifted may overflow far from the data; no density is the honest answer.
        log_density = self.flows.log_prob(latent).nan_to_num(nan=-math.inf)
        budget = 0.5 * self.settings.latent_dim * math.log(4 * math.pi)
        if self.settings.class_budget:
            budget += math.log(self.log_prior.numel())
        scaled = log_density + self.log_prior + budget
        return scaled.clamp(-_LOG_EVIDENCE_LIMIT, _LOG_EVIDENCE_LIMIT).exp()

    def forward(self, features: Features | Tensor, adjacency: Csr) -> GPNPrediction:
        """Predict every node of a graph, the training graph or another one."""
        own = self.feature_evidence(self.encode(features))
        spread = personalised_pagerank(
            own, adjacency, teleport=self.settings.teleport, steps=self.settings.steps
        )
        return GPNPrediction(alpha=1.0 + spread, feature_evidence=own.sum(dim=1))


def personalised_pagerank(values: Tensor, adjacency: Csr, *, teleport: float, steps: int) -> Tensor:
    """``steps`` rounds of x ← (1 - teleport) Â x + teleport · values, started at ``values``."""
    if not 0.0 < teleport <= 1.0:
        raise ValueError(f"teleport must be in (0, 1], got {teleport}")
    if steps < 0:
        raise ValueError(f"steps must not be negative, got {steps}")
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
    """Differential entropy of Dirichlet distributions [n].

    Above a total of 10,000 the exact terms are large and cancel, so Stirling's form is used.
    """
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


def _linear(rows: int, columns: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    def draw(*shape: int) -> nn.Parameter:
        return nn.Parameter(fan_in_uniform(shape, rows, generator))

    return draw(rows, columns), draw(columns)
