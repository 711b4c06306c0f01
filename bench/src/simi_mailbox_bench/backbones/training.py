"""The training loop of all networks here, and full-batch training with early stopping."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from simi_mailbox.graph import Graph, as_graph
from simi_mailbox.plain_text import unknown
from simi_mailbox.sparse import Csr
from simi_mailbox.validation import Labelled
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.networks import (
    GAT,
    GCN,
    GIN,
    MLP,
    SAGE,
    Backbone,
    split_targets,
    symmetric_normalised,
)
from simi_mailbox_bench.backbones.settings import Settings, settings_for
from simi_mailbox_bench.datasets.dataset import Split, split_labels

if TYPE_CHECKING:
    from simi_mailbox_bench.datasets import NodeDataset, Split


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


class LowestLoss:
    """Keep the epoch with the lowest loss; stop ``patience`` epochs after it (None: never)."""

    def __init__(self, patience: int | None = None) -> None:
        self.patience, self.best, self.waited = patience, float("inf"), 0

    def update(self, *scores: float) -> bool:
        """Take the scores of one epoch, the loss last; true where its weights are to be kept."""
        lower = scores[-1] < self.best
        self.best, self.waited = min(self.best, scores[-1]), 0 if lower else self.waited + 1
        return lower

    @property
    def stopped(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.waited >= self.patience


class EarlyStopping(LowestLoss):
    """The protocol's rule: accuracy *or* NLL must hold up to go on, both for a checkpoint.

    Ties count as holding up; the reference values are the best of each score seen so far.
    """

    best_accuracy = 0.0

    def update(self, *scores: float) -> bool:
        """Take accuracy and NLL of one epoch; true when it is to be the new checkpoint."""
        accuracy, nll = scores
        accurate, likely = accuracy >= self.best_accuracy, nll <= self.best
        self.waited = 0 if accurate or likely else self.waited + 1
        self.best_accuracy, self.best = max(self.best_accuracy, accuracy), min(self.best, nll)
        return accurate and likely


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
    rule: LowestLoss,
    *,
    epochs: int,
    progress: Progress | None = None,
) -> Best:
    """Train a model in place, and leave it frozen, in evaluation mode, at its best epoch."""
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


BACKBONES: dict[str, type[Backbone]] = {kind.name: kind for kind in (GCN, GAT, SAGE, GIN, MLP)}


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """What one training leaves behind."""

    logits: Tensor
    hidden: Tensor
    weights: dict[str, Tensor]
    epochs: int
    best_epoch: int
    seconds: float
    val_accuracy: float
    val_nll: float


def build(
    backbone: str, in_dim: int, num_classes: int, settings: Settings | None = None, *, seed: int = 0
) -> Backbone:
    """Make a backbone with new weights."""
    if backbone not in BACKBONES:
        raise ValueError(unknown("backbone", backbone, BACKBONES))
    generator = Generator().manual_seed(seed)
    return BACKBONES[backbone](in_dim, num_classes, settings or Settings(), generator)


def restore(
    backbone: str, weights: dict[str, Tensor], dataset: NodeDataset, settings: Settings
) -> Backbone:
    """The backbone that a training on ``dataset`` left behind, frozen."""
    model = build(backbone, dataset.x.shape[1], dataset.num_classes, settings)
    model.load_state_dict(weights)
    return model.requires_grad_(False)


def train(
    dataset: NodeDataset,
    split: Split,
    backbone: str,
    *,
    seed: int,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> TrainedRun:
    """Train a backbone, watched on the validation nodes; test labels are never read."""
    settings = settings or settings_for(dataset.name)
    split.check(dataset.num_nodes)
    train_nodes, val_nodes = torch.tensor(split.train), torch.tensor(split.val)
    model = build(backbone, dataset.x.shape[1], dataset.num_classes, settings, seed=seed)
    features = Features(dataset.x, row_normalise=settings.row_normalise)
    labels = torch.from_numpy(np.array(dataset.y, dtype=np.int64))
    noise = Generator().manual_seed(seed + 1)
    start = time.perf_counter()
    steps = (_SharedStem if model.shares_stem else _Separate)(
        model, features, dataset.graph, train_nodes, val_nodes, noise=noise
    )
    optimiser = torch.optim.Adam(
        model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
    )
    train_labels, val_labels = labels[train_nodes], labels[val_nodes]
    weights = _class_weights(settings.class_weight, train_labels)
    rule = EarlyStopping if weights is None else LowestLoss
    best = train_loop(
        model,
        optimiser,
        lambda: F.cross_entropy(steps.training_logits(), train_labels, weights),
        lambda: _scores(steps.validation_logits(), val_labels, weights),
        rule(settings.patience),
        epochs=settings.epochs,
        progress=progress,
    )
    seconds = time.perf_counter() - start
    with torch.no_grad():
        whole = model.plan(dataset.graph)
        stem = model.stem(features, whole)
        logits, hidden = model.finish(stem, whole), model.penultimate(stem, whole)
    accuracy, nll = best.scores or (0.0, float("inf"))
    return TrainedRun(logits, hidden, best.weights, best.epochs, best.epoch, seconds, accuracy, nll)


class _SharedStem:
    """Logits for backbones whose first layer is free of dropout.

    The first layer that evaluates one epoch is the one the next trains on: it is computed once.
    """

    def __init__(
        self, model: Backbone, features: Features, graph: Graph, *nodes: Tensor, noise: Generator
    ) -> None:
        self.model, self.noise = model, noise
        both = model.plan(graph, torch.cat(nodes))
        self.training, self.validation = split_targets(both, nodes[0].numel())
        self.features = features.rows(both.inputs)
        self.stem: Tensor | None = None

    def training_logits(self) -> Tensor:
        stem = self.stem
        if stem is None:
            stem = self.model.stem(self.features, self.training)
        return self.model.finish(stem, self.training, self.noise)

    def validation_logits(self) -> Tensor:
        self.stem = self.model.stem(self.features, self.validation)
        with torch.no_grad():
            return self.model.finish(self.stem, self.validation)


class _Separate:
    """Logits for backbones that drop features: training and evaluation have nothing in common."""

    def __init__(
        self, model: Backbone, features: Features, graph: Graph, *nodes: Tensor, noise: Generator
    ) -> None:
        self.model, self.noise = model, noise
        plans = [model.plan(graph, part) for part in nodes]
        self.training, self.validation = ((features.rows(p.inputs), p) for p in plans)

    def training_logits(self) -> Tensor:
        stem = self.model.stem(*self.training, self.noise)
        return self.model.finish(stem, self.training[1], self.noise)

    @torch.no_grad()
    def validation_logits(self) -> Tensor:
        return self.model.finish(self.model.stem(*self.validation), self.validation[1])


def _class_weights(weight: float, labels: Tensor) -> Tensor | None:
    """Weights of the two classes in the loss; None if they are equal."""
    if weight == 0.0:
        return labels.numel() / (2.0 * labels.bincount(minlength=2))
    return None if weight == 1.0 else torch.tensor([1.0, weight])


def _scores(logits: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[float, float]:
    correct = int((logits.argmax(1) == labels).sum())
    return correct / labels.numel(), float(F.cross_entropy(logits, labels, weights))
