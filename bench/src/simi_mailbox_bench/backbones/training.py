"""Full-batch training with the protocol's early stopping."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from simi_mailbox.graph import Graph
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.full_batch import LowestLoss, Progress, train_loop
from simi_mailbox_bench.backbones.networks import GAT, GCN, GIN, MLP, SAGE, Backbone
from simi_mailbox_bench.backbones.plan import split_targets
from simi_mailbox_bench.backbones.settings import Settings, settings_for

if TYPE_CHECKING:
    from simi_mailbox_bench.datasets import NodeDataset, Split

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


@dataclass
class EarlyStopping:
    """The protocol's rule: accuracy *or* NLL must hold up to go on, both for a checkpoint.

    Ties count as holding up. The reference values are the best of each score seen so far, not
    those of the checkpoint.
    """

    patience: int
    best_accuracy: float = field(default=0.0, init=False)
    best_nll: float = field(default=float("inf"), init=False)
    waited: int = field(default=0, init=False)

    def update(self, *scores: float) -> bool:
        """Take accuracy and NLL of one epoch; true when it is to be the new checkpoint."""
        accuracy, nll = scores
        accurate, likely = accuracy >= self.best_accuracy, nll <= self.best_nll
        self.waited = 0 if accurate or likely else self.waited + 1
        self.best_accuracy = max(self.best_accuracy, accuracy)
        self.best_nll = min(self.best_nll, nll)
        return accurate and likely

    @property
    def stopped(self) -> bool:
        """Whether patience has run out."""
        return self.waited >= self.patience


def build(
    backbone: str, in_dim: int, num_classes: int, settings: Settings | None = None, *, seed: int = 0
) -> Backbone:
    """Make a backbone with fresh weights."""
    if backbone not in BACKBONES:
        raise ValueError(f"unknown backbone {backbone!r}; choose one of {', '.join(BACKBONES)}")
    generator = torch.Generator().manual_seed(seed)
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
    """Train a backbone on the training nodes, watched on the validation nodes.

    Test labels are never read.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from simi_mailbox.graph import Graph
    >>> toy = SimpleNamespace(name="toy", graph=Graph.from_edges([[0, 2], [1, 3]], 4),
    ...                       x=np.eye(4, dtype=np.float32), y=np.array([0, 0, 1, 1]),
    ...                       num_classes=2)
    >>> halves = SimpleNamespace(train=np.array([0, 2]), val=np.array([1, 3]), test=np.array([]))
    >>> run = train(toy, halves, "gcn", seed=0, settings=Settings(epochs=30))
    >>> run.logits.argmax(1).tolist()
    [0, 0, 1, 1]
    """
    settings = settings or settings_for(dataset.name)
    train_nodes, val_nodes = (_nodes(split, part, dataset) for part in ("train", "val"))
    model = build(backbone, dataset.x.shape[1], dataset.num_classes, settings, seed=seed)
    features = Features(dataset.x, row_normalise=settings.row_normalise)
    labels = torch.from_numpy(np.array(dataset.y, dtype=np.int64))
    generator = torch.Generator().manual_seed(seed + 1)
    start = time.perf_counter()
    given = (model, features, dataset.graph, train_nodes, val_nodes, generator)
    steps = _SharedStem(*given) if model.shares_stem else _Separate(*given)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay, fused=True
    )
    train_labels, val_labels = labels[train_nodes], labels[val_nodes]
    weights = _class_weights(settings.class_weight, train_labels)
    plain = weights is None
    best = train_loop(
        model,
        optimiser,
        lambda: F.cross_entropy(steps.training_logits(), train_labels, weights),
        lambda: _scores(steps.validation_logits(), val_labels, weights),
        EarlyStopping(settings.patience) if plain else _LowestNll(settings.patience),
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


@dataclass
class _TrainingSteps:
    """What logits to train on and logits to watch are made of."""

    model: Backbone
    features: Features
    graph: Graph
    train_nodes: Tensor
    val_nodes: Tensor
    generator: torch.Generator


@dataclass
class _SharedStem(_TrainingSteps):
    """Logits for backbones whose first layer is free of dropout.

    The first layer that evaluates one epoch is the one the next epoch trains on: the weights are
    the same. It is computed once, at the rows that either of the two needs.
    """

    def __post_init__(self) -> None:
        both = self.model.plan(self.graph, torch.cat([self.train_nodes, self.val_nodes]))
        self.training, self.validation = split_targets(both, self.train_nodes.numel())
        self.features = self.features.rows(both.inputs)
        self.stem: Tensor | None = None

    def training_logits(self) -> Tensor:
        stem = self.stem
        if stem is None:
            stem = self.model.stem(self.features, self.training)
        return self.model.finish(stem, self.training, self.generator)

    def validation_logits(self) -> Tensor:
        self.stem = self.model.stem(self.features, self.validation)
        with torch.no_grad():
            return self.model.finish(self.stem, self.validation)


@dataclass
class _Separate(_TrainingSteps):
    """Logits for backbones that drop features: training and evaluation have nothing in common."""

    def __post_init__(self) -> None:
        self.training = self.model.plan(self.graph, self.train_nodes)
        self.validation = self.model.plan(self.graph, self.val_nodes)
        self.training_features = self.features.rows(self.training.inputs)
        self.validation_features = self.features.rows(self.validation.inputs)

    def training_logits(self) -> Tensor:
        stem = self.model.stem(self.training_features, self.training, self.generator)
        return self.model.finish(stem, self.training, self.generator)

    @torch.no_grad()
    def validation_logits(self) -> Tensor:
        stem = self.model.stem(self.validation_features, self.validation)
        return self.model.finish(stem, self.validation)


class _LowestNll(LowestLoss):
    """The lowest loss, whatever the accuracy."""

    def update(self, *scores: float) -> bool:
        return super().update(scores[1])


def _class_weights(weight: float, labels: Tensor) -> Tensor | None:
    """Weights of the two classes in the loss; None if they are equal."""
    if weight == 1.0:
        return None
    if weight == 0.0:
        return labels.numel() / (2.0 * labels.bincount(minlength=2))
    return torch.tensor([1.0, weight])


def _scores(logits: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[float, float]:
    correct = int((logits.argmax(1) == labels).sum())
    return correct / labels.numel(), float(F.cross_entropy(logits, labels, weights))


def _nodes(split: Split, part: str, dataset: NodeDataset) -> Tensor:
    index = np.array(getattr(split, part), dtype=np.int64)
    if index.size == 0:
        raise ValueError(f"the split has no {part} nodes; training needs some of each")
    if index.min() < 0 or index.max() >= dataset.graph.num_nodes:
        raise ValueError(
            f"the split's {part} nodes reach {index.max()}, but {dataset.name} has "
            f"{dataset.graph.num_nodes} nodes; is it a split of another graph?"
        )
    return torch.from_numpy(index)
