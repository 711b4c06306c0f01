"""The training loop of backbones, graph posterior networks and the classifier for detection."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from simi_mailbox.graph import as_graph
from simi_mailbox.sparse import Csr
from simi_mailbox.validation import Labelled
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.plan import symmetric_normalised
from simi_mailbox_bench.datasets.dataset import Split, split_labels

Progress = Callable[..., None]
"""Told after every epoch: its number and the validation scores."""


def read_graph(x: Any, graph: Any, *, row_normalise: bool) -> tuple[Features, Csr]:
    """Features and normalised adjacency of a graph as a user passes them."""
    features = Features(x, row_normalise=row_normalise)
    return features, symmetric_normalised(as_graph(graph, features.shape[0]))


def check_width(features: Features, width: int, model: str) -> None:
    """Refuse a graph whose features cannot mean what the trained ones meant."""
    if features.shape[1] != width:
        raise ValueError(
            f"the graph has {features.shape[1]} features per node, but the {model} was trained on "
            f"{width}; features must mean the same, column by column"
        )


def read_labels(
    y: Any, split: Split, n: int, num_classes: int | None
) -> tuple[Labelled, Labelled, int]:
    """Labels of the training and the validation nodes, no others, and the number of classes."""
    labels, classes = split_labels(y, split.check(n), n, num_classes)
    train, val = (
        Labelled(torch.tensor(nodes), torch.from_numpy(labels[nodes]))
        for nodes in (split.train, split.val)
    )
    return train, val, classes


class StoppingRule(Protocol):
    """Says after each epoch whether to keep its weights, and when to stop."""

    def update(self, *scores: float) -> bool:
        """Take the validation scores of one epoch; true where its weights are to be kept."""

    @property
    def stopped(self) -> bool:
        """Whether patience has run out."""


class LowestLoss:
    """Keep the epoch with the lowest loss; stop ``patience`` epochs after it (None: never)."""

    def __init__(self, patience: int | None = None) -> None:
        self.patience, self.best, self.waited = patience, float("inf"), 0

    def update(self, *scores: float) -> bool:
        """Whether the loss is the lowest so far."""
        lower = scores[0] < self.best
        self.best, self.waited = min(self.best, scores[0]), 0 if lower else self.waited + 1
        return lower

    @property
    def stopped(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.waited >= self.patience


@dataclass(frozen=True)
class Best:
    """How a training went: epochs that were run, the epoch kept, its scores and weights."""

    epochs: int
    epoch: int
    scores: tuple[float, ...]
    weights: dict[str, Tensor]


def step(model: nn.Module, optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    """One step in training mode; weights that the optimiser does not have stay as they are."""
    model.train()
    model.zero_grad(set_to_none=True)
    loss().backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def train_loop(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor],
    validate: Callable[[], tuple[float, ...]],
    rule: StoppingRule,
    *,
    epochs: int,
    progress: Progress | None = None,
) -> Best:
    """Train a model in place, and leave it frozen, in evaluation mode, at its best epoch.

    ``loss`` is the training loss, ``validate`` the validation scores of the model as it is now.
    """
    kept, best_epoch, epoch = _copy(model), 0, 0
    scores: tuple[float, ...] = ()
    while epoch < epochs and not rule.stopped:
        epoch += 1
        step(model, optimiser, loss)
        model.eval()
        found = validate()
        if rule.update(*found):
            kept, scores, best_epoch = _copy(model), found, epoch
        if progress is not None:
            progress(epoch, *found)
    model.load_state_dict(kept)
    model.eval().requires_grad_(False)
    return Best(epoch, best_epoch, scores, kept)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
