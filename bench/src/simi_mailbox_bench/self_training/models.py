"""What is trained and calibrated in every stage, and what calibrators need of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox import calibrators
from simi_mailbox._arrays import Array, Ints
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.graph import Graph
from simi_mailbox.validation import Forward, read_logits
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.datasets.dataset import NodeDataset
from simi_mailbox_bench.datasets.split import Split
from simi_mailbox_bench.self_training.problem import Problem

Trainer = Callable[[Ints, Split, int], Any]
"""``train(y, split, seed) -> logits``: ``y`` is -1 wherever the label may not be used."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Logits of one stage's GNN; ``forward()`` is the GNN as a function of edge weights."""

    logits: Array
    forward: Callable[[], Forward] | None = None


def trainer(
    backbone: str | Trainer, problem: Problem, settings: Settings | None
) -> Callable[[Ints, Split, int], Trained]:
    """The training of one stage, by a backbone of this package or a function of the user's."""
    if isinstance(backbone, str):
        return _named(backbone, problem, settings or Settings())
    if not callable(backbone):
        raise TypeError(
            "backbone must be the name of one or a function train(y, split, seed) -> logits, "
            f"got {type(backbone).__name__}"
        )

    def fit(y: Ints, split: Split, seed: int) -> Trained:
        logits = read_logits(backbone(y, split, seed)).numpy()
        if logits.shape[0] != problem.num_nodes:
            raise ValueError(
                f"the trainer must return logits of shape [{problem.num_nodes}, classes], "
                f"got {list(logits.shape)}"
            )
        return Trained(logits)

    return fit


def _named(
    name: str, problem: Problem, settings: Settings
) -> Callable[[Ints, Split, int], Trained]:
    from simi_mailbox_bench.backbones.training import build, restore, train

    if problem.x is None:
        raise TypeError(f"backbone {name!r} needs features: pass x, an array [nodes, features]")
    in_dim, num_classes = int(problem.x.shape[1]), problem.num_classes
    build(name, in_dim, num_classes, settings)  # an unknown name is refused before any training

    def fit(y: Ints, split: Split, seed: int) -> Trained:
        # Where there is no label a class is needed to fill the array; training never reads it.
        filled = np.where(y >= 0, y, 0)
        dataset = NodeDataset("self-training", problem.graph, problem.x, filled, num_classes)
        run = train(dataset, split, name, seed=seed, settings=settings)
        restored = restore(name, run.weights, dataset, settings)
        return Trained(run.logits.numpy(), lambda: restored.on(dataset))

    return fit


def unfitted(
    given: str | Calibrator | None, backbone: str | Trainer, problem: Problem
) -> Calibrator:
    """The calibrator by name or as given, if everything it needs can be handed to it."""
    if given is None:
        given = "uncalibrated"
    calibrator = calibrators.get(given)() if isinstance(given, str) else given
    if not isinstance(calibrator, Calibrator):
        raise TypeError(
            "calibrator must be a name, an unfitted calibrator or None, got "
            f"{calibrator!r}; choose from: {', '.join(calibrators.names())}"
        )
    if "features" in calibrator.required_inputs and problem.x is None:
        raise TypeError(f"{calibrator.name} needs features: pass x, an array [nodes, features]")
    if "forward" in calibrator.required_inputs:
        try:
            _try_edge_weights(backbone)
        except ValueError as error:
            raise ValueError(
                f"{calibrator.name} runs the trained GNN again with other edge weights: {error}"
            ) from None
    return calibrator


def _try_edge_weights(backbone: str | Trainer) -> None:
    """Raise unless the backbone can run with edge weights: a graph of one node shows it."""
    from simi_mailbox_bench.backbones.features import Features
    from simi_mailbox_bench.backbones.training import build

    if not isinstance(backbone, str):
        raise ValueError(
            "a function that returns logits cannot; name a backbone (gcn or sage), "
            "or choose another calibrator"
        )
    build(backbone, 1, 2)(Features(np.ones((1, 1))), Graph.empty(1), torch.ones(0))


def calibrated(calibrator: Calibrator, trained: Trained, problem: Problem) -> Array:
    """Probabilities [n, K], by a fresh fit on the validation nodes."""
    fresh = copy.copy(calibrator)  # each stage has its own fit; the caller's stays unfitted
    inputs: dict[str, Any] = {"graph": problem.graph}
    if "features" in fresh.required_inputs:
        inputs["features"] = problem.x
    if "forward" in fresh.required_inputs and trained.forward is not None:
        inputs["forward"] = trained.forward()
    fresh.fit(trained.logits, problem.y, mask=problem.split.val, **inputs)
    return np.asarray(fresh.predict_proba(trained.logits, **inputs))
