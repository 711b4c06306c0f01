"""Training of a GPN: flows first, then everything, stopped on the validation cross-entropy."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from simi_mailbox.data.split import Split, split_labels
from simi_mailbox.graph import as_graph
from simi_mailbox.models.best_epoch import Progress, keep_best, step
from simi_mailbox.models.features import Features
from simi_mailbox.models.gpn.network import GPN, GPNPrediction, GPNSettings, posterior_loss
from simi_mailbox.models.gpn.propagation import symmetric_adjacency


@dataclass(frozen=True)
class TrainedGPN:
    """A trained GPN, ready for its own graph or another one with the same features.

    Attributes
    ----------
    model : GPN
        The network with its best weights, in evaluation mode.
    epochs : int
        Epochs that were run.
    seconds : float
        Time that training took.
    val_loss : float
        Validation cross-entropy of the weights kept.
    """

    model: GPN
    epochs: int
    seconds: float
    val_loss: float

    @torch.no_grad()
    def predict(self, features: Any, graph: Any) -> GPNPrediction:
        """Predict every node of a graph; features must be as wide as those trained on."""
        x = Features(features, row_normalise=self.model.settings.row_normalise)
        expected = self.model.weight1.shape[0]
        if x.shape[1] != expected:
            raise ValueError(
                f"the graph has {x.shape[1]} features per node, but the GPN was trained on "
                f"{expected}; features must mean the same, column by column"
            )
        prediction: GPNPrediction = self.model(x, symmetric_adjacency(as_graph(graph, x.shape[0])))
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
    x = Features(features, row_normalise=settings.row_normalise)
    neighbourhoods = as_graph(graph, x.shape[0])
    split.check(x.shape[0])
    y_train, y_val, classes = _labels(y, split, x.shape[0], num_classes)
    train, val = torch.tensor(split.train), torch.tensor(split.val)
    counts = torch.bincount(y_train, minlength=classes).to(torch.float32)
    adjacency = symmetric_adjacency(neighbourhoods)
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
        return posterior_loss(prediction.alpha[train], y_train, settings.entropy_weight)

    def validation() -> Tensor:
        prediction: GPNPrediction = model(x, adjacency)
        return F.nll_loss(prediction.log_probs[val], y_val)

    for _ in range(settings.warmup_epochs):
        step(model, warmup, loss)
    best = keep_best(
        model,
        main,
        loss,
        validation,
        epochs=settings.max_epochs,
        patience=settings.patience,
        progress=progress,
    )
    return TrainedGPN(model, best.epochs, time.perf_counter() - started, best.loss)


def _labels(y: Any, split: Split, n: int, num_classes: int | None) -> tuple[Tensor, Tensor, int]:
    found, classes = split_labels(y, split, n, num_classes)
    y_train, y_val = torch.from_numpy(found[split.train]), torch.from_numpy(found[split.val])
    absent = torch.bincount(y_train, minlength=classes) == 0
    if bool(absent.any()):
        raise ValueError(
            f"class {int(absent.nonzero()[0])} has no training node; a GPN fits one density to "
            "each class and "
            "needs at least one node of every class in split.train"
        )
    return y_train, y_val, classes
