"""Full-batch training of a node classifier that is no backbone: what goes in, and the loop.

The graph posterior network and the classifier of the detection table are trained by it. The loop
keeps the weights of the epoch with the lowest validation loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from simi_mailbox.graph import as_graph
from simi_mailbox.sparse import Csr
from simi_mailbox.validation import Labelled
from simi_mailbox_bench.backbones.features import Features
from simi_mailbox_bench.backbones.plan import symmetric_normalised
from simi_mailbox_bench.datasets.split import Split, split_labels

Progress = Callable[[int, float], None]
"""Told after every epoch: its number and the validation loss."""


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


@dataclass(frozen=True)
class Best:
    """How a training went: epochs that were run, the epoch kept, and its validation loss."""

    epochs: int
    epoch: int
    loss: float


def step(model: nn.Module, optimiser: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    """One step in training mode; weights that the optimiser does not have stay as they are."""
    model.train()
    model.zero_grad(set_to_none=True)
    loss().backward()  # type: ignore[no-untyped-call]
    optimiser.step()


def keep_best(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    loss: Callable[[], Tensor],
    validation: Callable[[], Tensor],
    *,
    epochs: int,
    patience: int | None = None,
    progress: Progress | None = None,
) -> Best:
    """Train a model in place, and leave it frozen, in evaluation mode, at its best epoch.

    Parameters
    ----------
    model, optimiser
        What is trained, and how.
    loss, validation
        Training loss (differentiable) and validation loss of the model as it is now.
    epochs
        Most epochs.
    patience
        Epochs without a lower validation loss after which training stops; None: never.
    progress
        Called after every epoch.

    Examples
    --------
    >>> model = nn.Linear(1, 1, bias=False)
    >>> x, weight = torch.ones(1, 1), model.weight
    >>> optimiser = torch.optim.SGD([weight], lr=0.5)
    >>> _ = nn.init.constant_(weight, 4.0)
    >>> best = keep_best(model, optimiser, lambda: model(x).sum(), lambda: (weight - 2.4).abs(),
    ...                  epochs=10, patience=2)
    >>> best.epoch, best.epochs, model.weight.item()
    (3, 5, 2.5)
    """
    best, kept, epoch = Best(0, 0, float("inf")), _copy(model), 0
    for epoch in range(1, epochs + 1):
        step(model, optimiser, loss)
        model.eval()
        with torch.no_grad():
            value = float(validation())
        if progress is not None:
            progress(epoch, value)
        if value < best.loss:
            best, kept = Best(epoch, epoch, value), _copy(model)
        elif patience is not None and epoch - best.epoch >= patience:
            break
    model.load_state_dict(kept)
    model.eval().requires_grad_(False)
    return Best(epoch, best.epoch, best.loss)


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
