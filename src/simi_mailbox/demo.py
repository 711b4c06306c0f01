"""The demonstration: a real graph, a classic GNN, and what calibration does to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox import calibrators, metrics
from simi_mailbox.data.dataset import NodeDataset
from simi_mailbox.data.digits import digits
from simi_mailbox.data.split import Split

METHODS = ("uncalibrated", "temperature", "simi-mailbox")


@dataclass(frozen=True)
class Outcome:
    """One row of the demonstration's table."""

    method: str
    accuracy: float
    ece: float
    noise_floor: float
    nll: float
    brier: float


@dataclass(frozen=True)
class Demonstration:
    """Everything the demonstration computed, for printing and drawing."""

    dataset: NodeDataset
    split: Split
    logits: Any
    probabilities: dict[str, Any]
    outcomes: list[Outcome]


def run_demo(seed: int = 0) -> Demonstration:
    """Train a GCN on the digits graph, calibrate it on 500 nodes, judge it on the others.

    Examples
    --------
    >>> from simi_mailbox.demo import run_demo
    >>> demo = run_demo()
    >>> before, after = demo.outcomes[0], demo.outcomes[-1]
    >>> before.accuracy == after.accuracy, after.ece < before.ece / 4
    (True, True)
    """
    dataset = digits()
    split = dataset.official[0]
    logits = train_gcn(dataset, split.train, seed=seed).numpy()
    probabilities = {}
    for method in METHODS:
        calibrator = calibrators.get(method)()
        calibrator.fit(logits, dataset.y, graph=dataset.graph, mask=split.val)
        probabilities[method] = calibrator.predict_proba(logits, graph=dataset.graph)
    outcomes = [
        judge(name, probs[split.test], dataset.y[split.test])
        for name, probs in probabilities.items()
    ]
    return Demonstration(dataset, split, logits, probabilities, outcomes)


def judge(method: str, probs: Any, y: Any) -> Outcome:
    """Measure one method on the test nodes."""
    return Outcome(
        method=method,
        accuracy=metrics.accuracy(probs, y),
        ece=metrics.ece(probs, y),
        noise_floor=metrics.noise_floor(probs).mean,
        nll=metrics.nll(probs, y),
        brier=metrics.brier(probs, y),
    )


def train_gcn(
    dataset: NodeDataset, train: Any, *, hidden: int = 16, epochs: int = 200, seed: int = 0
) -> Tensor:
    """Kipf and Welling's recipe, in plain PyTorch; returns the logits of all nodes.

    Two layers, row-normalised input, dropout 0.5, Adam with learning rate 0.01, weight decay 5e-4
    on the first layer, 200 epochs.
    """
    x = torch.from_numpy(np.array(dataset.x, dtype=np.float32))
    x = x / x.sum(dim=1, keepdim=True).clamp(min=1e-12)
    y = torch.from_numpy(np.array(dataset.y))
    nodes = torch.from_numpy(np.array(train))
    adjacency = _normalised(dataset)
    random = torch.Generator().manual_seed(seed)
    first = _glorot(x.shape[1], hidden, random)
    second = _glorot(hidden, dataset.num_classes, random)
    biases = [torch.zeros(width, requires_grad=True) for width in (hidden, dataset.num_classes)]
    optimiser = torch.optim.Adam(
        [
            {"params": [first, biases[0]], "weight_decay": 5e-4},
            {"params": [second, biases[1]], "weight_decay": 0.0},
        ],
        lr=0.01,
    )

    def drop(values: Tensor) -> Tensor:
        return values * (torch.rand(values.shape, generator=random) < 0.5) * 2

    def forward(training: bool) -> Tensor:
        h = drop(x) if training else x
        h = (adjacency @ (h @ first) + biases[0]).relu()
        h = drop(h) if training else h
        result: Tensor = adjacency @ (h @ second) + biases[1]
        return result

    for _ in range(epochs):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(forward(True)[nodes], y[nodes])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        return forward(False)


def _normalised(dataset: NodeDataset) -> Tensor:
    """D^(-1/2) (A + I) D^(-1/2)."""
    graph = dataset.graph
    n = graph.num_nodes
    loops = torch.arange(n)
    edges = torch.cat([graph.edge_index(), torch.stack([loops, loops])], dim=1)
    scale = (graph.degree + 1).float().rsqrt()
    values = scale[edges[0]] * scale[edges[1]]
    matrix: Tensor = torch.sparse_coo_tensor(edges.flip(0), values, (n, n)).to_sparse_csr()
    return matrix


def _glorot(rows: int, columns: int, random: torch.Generator) -> Tensor:
    bound = (6.0 / (rows + columns)) ** 0.5
    weight: Tensor = (torch.rand(rows, columns, generator=random) * 2 - 1) * bound
    weight.requires_grad_()
    return weight
