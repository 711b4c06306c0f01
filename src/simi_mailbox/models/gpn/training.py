"""Training of a GPN: flows first, then everything, stopped on the validation cross-entropy."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from simi_mailbox.data.split import Split
from simi_mailbox.graph import as_graph
from simi_mailbox.models.features import Features
from simi_mailbox.models.gpn.network import GPN, GPNPrediction, GPNSettings, posterior_loss
from simi_mailbox.models.gpn.propagation import symmetric_adjacency
from simi_mailbox.models.ops import Csr

Progress = Callable[[int, float], None]


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
    y_train, y_val, classes = _labels(y, split, num_classes)
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
    for _ in range(settings.warmup_epochs):
        _step(model, warmup, x, adjacency, train, y_train)

    best, best_state, waited, epoch = float("inf"), deepcopy(model.state_dict()), 0, 0
    for epoch in range(1, settings.max_epochs + 1):
        _step(model, main, x, adjacency, train, y_train)
        loss = _cross_entropy(model, x, adjacency, val, y_val)
        if progress is not None:
            progress(epoch, loss)
        if loss < best:
            best, best_state, waited = loss, deepcopy(model.state_dict()), 0
        else:
            waited += 1
            if waited >= settings.patience:
                break
    model.load_state_dict(best_state)
    model.eval().requires_grad_(False)
    return TrainedGPN(model, epoch, time.perf_counter() - started, best)


def _step(
    model: GPN,
    optimiser: torch.optim.Optimizer,
    x: Features,
    adjacency: Csr,
    nodes: Tensor,
    y: Tensor,
) -> None:
    model.train()
    model.zero_grad(set_to_none=True)
    prediction: GPNPrediction = model(x, adjacency)
    loss = posterior_loss(prediction.alpha[nodes], y, model.settings.entropy_weight)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


@torch.no_grad()
def _cross_entropy(model: GPN, x: Features, adjacency: Csr, nodes: Tensor, y: Tensor) -> float:
    model.eval()
    prediction: GPNPrediction = model(x, adjacency)
    return float(F.nll_loss(prediction.log_probs[nodes], y))


def _labels(y: Any, split: Split, num_classes: int | None) -> tuple[Tensor, Tensor, int]:
    labels = torch.as_tensor(np.array(y), dtype=torch.int64)
    y_train, y_val = labels[torch.tensor(split.train)], labels[torch.tensor(split.val)]
    known = torch.cat([y_train, y_val])
    classes = int(known.max()) + 1 if num_classes is None else num_classes
    if int(known.min()) < 0 or int(known.max()) >= classes:
        raise ValueError(
            f"labels of training and validation nodes range over {int(known.min())}.."
            f"{int(known.max())}; expected 0..{classes - 1}"
        )
    absent = torch.bincount(y_train, minlength=classes) == 0
    if bool(absent.any()):
        raise ValueError(
            f"class {int(absent.nonzero()[0])} has no training node; a GPN fits one density to "
            "each class and "
            "needs at least one node of every class in split.train"
        )
    return y_train, y_val, classes
