"""Training of a GPN: flows first, then everything, stopped on the validation cross-entropy."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from simi_mailbox.validation import Labelled
from simi_mailbox_bench.backbones.full_batch import (
    LowestLoss,
    Progress,
    check_width,
    read_graph,
    read_labels,
    step,
    train_loop,
)
from simi_mailbox_bench.backbones.gpn.network import GPN, GPNPrediction, GPNSettings, posterior_loss
from simi_mailbox_bench.datasets.dataset import Split


@dataclass(frozen=True)
class TrainedGPN:
    """A trained GPN, ready for its own graph or another one with the same features."""

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
    """Train a graph posterior network on the training nodes of a split.

    Parameters
    ----------
    features : array or sparse matrix [n, d]
        Node features.
    graph
        A `Graph`, or anything `as_graph` reads.
    y : array [n]
        Labels; only those of ``split.train`` and ``split.val`` are read.
    split
        Training nodes, and the validation nodes that choose when to stop.
    num_classes
        Needed only if the highest class has no training node.
    settings
        Shape and training; `GPNSettings` has the authors' two.
    seed
        Of the initial weights and of dropout.
    progress
        Called after every epoch with its number and the validation cross-entropy.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.graph import Graph
    >>> x, y = np.repeat(np.eye(2, dtype=np.float32), 5, axis=0), np.repeat([0, 1], 5)
    >>> split = Split(train=[0, 1, 5, 6], val=[2, 7], test=[3, 8])
    >>> trained = train_gpn(x, Graph.empty(10), y, split, settings=GPNSettings(max_epochs=30))
    >>> trained.predict(x, Graph.empty(10)).probs.argmax(dim=1).tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """
    settings = settings or GPNSettings()
    x, adjacency = read_graph(features, graph, row_normalise=settings.row_normalise)
    train, val, classes = read_labels(y, split, x.shape[0], num_classes)
    counts = _class_counts(train, classes)
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


def _class_counts(train: Labelled, classes: int) -> Tensor:
    counts = torch.bincount(train.y, minlength=classes).to(torch.float32)
    absent = (counts == 0).nonzero()
    if absent.numel():
        raise ValueError(
            f"class {int(absent[0])} has no training node; a GPN fits one density to each class "
            "and needs at least one node of every class in split.train"
        )
    return counts
