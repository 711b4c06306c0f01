"""The classifier behind the detection table: a GCN with batch normalisation, as GNNSafe trains it.

Any model's logits can be scored; this one is here to reproduce the table and to have something
that works on a new graph in one call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from simi_mailbox.parameters import Count, NonNegative, Positive, check_parameters
from simi_mailbox.sparse import Csr
from simi_mailbox.validation import Labelled
from simi_mailbox_bench.backbones.backbones import glorot
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.full_batch import (
    Progress,
    check_width,
    keep_best,
    read_graph,
    read_labels,
)
from simi_mailbox_bench.datasets.split import Split


@dataclass(frozen=True)
class ClassifierSettings:
    """Training of the classifier; the defaults are GNNSafe's.

    Examples
    --------
    >>> ClassifierSettings().epochs
    200
    """

    hidden: Count = 64
    lr: Positive = 0.01
    weight_decay: NonNegative = 1e-2
    epochs: Count = 200
    row_normalise: bool = True

    def __post_init__(self) -> None:
        check_parameters(self)


class _Network(nn.Module):
    def __init__(self, in_dim: int, hidden: int, classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight0 = nn.Parameter(glorot((in_dim, hidden), generator))
        self.bias0 = nn.Parameter(torch.zeros(hidden))
        self.norm = nn.BatchNorm1d(hidden)
        self.weight1 = nn.Parameter(glorot((hidden, classes), generator))
        self.bias1 = nn.Parameter(torch.zeros(classes))

    def forward(self, x: Features, adjacency: Csr) -> Tensor:
        hidden = adjacency @ (x @ self.weight0) + self.bias0
        hidden = F.relu(self.norm(hidden))
        return adjacency @ (hidden @ self.weight1) + self.bias1


@dataclass(frozen=True, eq=False)
class TrainedClassifier:
    """A trained classifier that can be asked about its own graph or another one.

    Attributes
    ----------
    best_epoch : int
        Epoch with the lowest validation loss, whose weights are kept.
    val_loss : float
        That loss.

    Examples
    --------
    >>> from simi_mailbox_bench.datasets import load
    >>> digits = load("Digits")
    >>> trained = train_classifier(
    ...     digits.x, digits.graph, digits.y, digits.official[0], seed=0,
    ...     settings=ClassifierSettings(epochs=2),
    ... )
    >>> trained.best_epoch
    2
    """

    model: nn.Module
    settings: ClassifierSettings
    in_dim: int
    best_epoch: int
    val_loss: float

    @torch.no_grad()
    def logits(self, x: Any, graph: Any) -> Tensor:
        """Logits [n, K] of every node of a graph whose features mean the same."""
        features, adjacency = read_graph(x, graph, row_normalise=self.settings.row_normalise)
        check_width(features, self.in_dim, "classifier")
        result: Tensor = self.model(features, adjacency)
        return result


def train_classifier(
    x: Any,
    graph: Any,
    y: Any,
    split: Split,
    *,
    num_classes: int | None = None,
    settings: ClassifierSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> TrainedClassifier:
    """Train the classifier on the training nodes; the validation loss chooses the epoch.

    Parameters
    ----------
    x, graph, y, split, num_classes, progress
        As `models.gpn.train_gpn` takes features and the rest.
    settings
        Width and training; GNNSafe's by default.
    seed
        Of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.graph import Graph
    >>> x, y = np.repeat(np.eye(2), 5, axis=0), np.repeat([0, 1], 5)
    >>> split = Split([0, 1, 5, 6], [2, 7], [3, 8])
    >>> trained = train_classifier(x, Graph.empty(10), y, split)
    >>> trained.logits(x, Graph.empty(10)).argmax(dim=1).tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """
    settings = settings or ClassifierSettings()
    features, adjacency = read_graph(x, graph, row_normalise=settings.row_normalise)
    n, in_dim = features.shape
    train, val, classes = read_labels(y, split, n, num_classes)
    model = _Network(in_dim, settings.hidden, classes, seed)
    optimiser = torch.optim.Adam(
        model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )

    def loss(nodes: Labelled) -> Tensor:
        return F.cross_entropy(model(features, adjacency)[nodes.index], nodes.y)

    best = keep_best(
        model,
        optimiser,
        lambda: loss(train),
        lambda: loss(val),
        epochs=settings.epochs,
        progress=progress,
    )
    return TrainedClassifier(model, settings, in_dim, best.epoch, best.loss)
