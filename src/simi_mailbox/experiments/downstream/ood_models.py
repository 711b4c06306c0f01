"""Problems of detection, and what the trained models say about them."""

from __future__ import annotations

import functools
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox import ood
from simi_mailbox._arrays import Ints
from simi_mailbox.data import Split, load, make_split
from simi_mailbox.experiments.downstream.keep import kept
from simi_mailbox.experiments.protocol import Run
from simi_mailbox.graph import Graph
from simi_mailbox.models.features import row_normalised
from simi_mailbox.models.gpn import GPNPrediction, GPNSettings, TrainedGPN, train_gpn

KINDS = ("feature", "structure", "label")
# GNNSafe's thresholds t: classes above t are known, t itself is used for exposure, those below
# are to be detected. It defines none for Physics.
LABEL_THRESHOLDS = {"Cora": 3, "Photo": 4}
PERTURBATION_SEED = 123
# Raised when the code changes what the same settings compute.
CODE_VERSION = 1

CLASSIFIER = ood.ClassifierSettings()
GPN = GPNSettings.latent16()


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph to train on, and the nodes to tell its test nodes from.

    ``foreign_x`` and ``foreign_graph`` hold the nodes ``foreign``; the same features or graph as
    in training where only the other is perturbed.
    """

    x: Any
    graph: Graph
    y: Ints
    split: Split
    num_classes: int
    foreign_x: Any
    foreign_graph: Graph
    foreign: Ints


def kinds_of(dataset: str) -> tuple[str, ...]:
    """Perturbations that are defined on a graph.

    Examples
    --------
    >>> kinds_of("Physics")
    ('feature', 'structure')
    """
    return KINDS if dataset in LABEL_THRESHOLDS else KINDS[:2]


@functools.lru_cache(maxsize=3)
def problem(name: str, kind: str) -> Problem:
    """Make the problem; the same for all seeds, as in GNNSafe."""
    dataset = load(name)
    split = make_split(dataset, "public" if dataset.public is not None else "random-10-10-80")
    # Before the mixture, as in GNNSafe: a mixture of raw counts would favour long documents.
    x, graph, y = row_normalised(sp.csr_array(dataset.x)), dataset.graph, dataset.y
    plain = Problem(x, graph, y, split, dataset.num_classes, x, graph, np.arange(y.size))
    if kind == "feature":
        return replace(plain, foreign_x=ood.interpolated_features(x, seed=PERTURBATION_SEED))
    if kind == "structure":
        blocks = ood.random_blocks(graph, dataset.num_classes, seed=PERTURBATION_SEED)
        return replace(plain, foreign_graph=blocks)
    threshold = LABEL_THRESHOLDS[name]
    left = ood.leave_out_classes(y, split, unknown=range(threshold), drop=[threshold])
    return replace(
        plain, y=left.y, split=left.split, num_classes=len(left.classes), foreign=left.unknown
    )


def logits(run: Run, kind: str, given: Problem) -> tuple[Tensor, Tensor]:
    """Logits of the training graph and of the foreign one.

    Perturbed features or edges do not change what is trained on, so those two kinds share one
    classifier.
    """
    identity = {
        **run.identity(),
        "classes": "label" if kind == "label" else "all",
        "kind": kind,
        "perturbation_seed": PERTURBATION_SEED,
        "version": CODE_VERSION,
        **asdict(CLASSIFIER),
    }

    def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
        trained = _train_classifier(run, _trained_on(kind))
        tensors = {
            "own": trained.logits(given.x, given.graph),
            "foreign": trained.logits(given.foreign_x, given.foreign_graph),
        }
        return tensors, {"epoch": trained.best_epoch}

    tensors, _ = kept("ood", identity, make)
    return tensors["own"], tensors["foreign"]


def _trained_on(kind: str) -> str:
    """A kind with the same training graph and classes: one model serves both."""
    return "label" if kind == "label" else "feature"


@functools.lru_cache(maxsize=2)
def _train_classifier(run: Run, kind: str) -> ood.TrainedClassifier:
    given = problem(run.dataset, kind)
    return ood.train_classifier(
        given.x,
        given.graph,
        given.y,
        given.split,
        num_classes=given.num_classes,
        settings=CLASSIFIER,
        seed=run.init,
    )


def posteriors(run: Run, kind: str, given: Problem) -> tuple[GPNPrediction, GPNPrediction]:
    """What a GPN says of the training graph and of the foreign one."""
    identity = {
        **run.identity(),
        "kind": kind,
        "perturbation_seed": PERTURBATION_SEED,
        "version": CODE_VERSION,
        **asdict(GPN),
    }

    def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
        trained = _train_posterior(run, _trained_on(kind))
        tensors = {
            "own": trained.predict(given.x, given.graph).alpha,
            "foreign": trained.predict(given.foreign_x, given.foreign_graph).alpha,
        }
        return tensors, {"epochs": trained.epochs}

    tensors, _ = kept("ood-gpn", identity, make)
    own, foreign = (GPNPrediction(tensors[name], torch.zeros(0)) for name in ("own", "foreign"))
    return own, foreign


@functools.lru_cache(maxsize=2)
def _train_posterior(run: Run, kind: str) -> TrainedGPN:
    given = problem(run.dataset, kind)
    return train_gpn(
        given.x,
        given.graph,
        given.y,
        given.split,
        num_classes=given.num_classes,
        settings=GPN,
        seed=run.init,
    )


def accuracy(scores: Tensor, given: Problem) -> float:
    """Accuracy on the test nodes."""
    predicted = scores.argmax(dim=1).numpy()[given.split.test]
    return round(float((predicted == given.y[given.split.test]).mean()), 8)
