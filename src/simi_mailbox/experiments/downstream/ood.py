"""Detection of foreign nodes as in GNNSafe (Wu et al., 2023): one classifier, several scores."""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox import ood
from simi_mailbox.data import NodeDataset, Split, load, make_split
from simi_mailbox.data.split import IntArray
from simi_mailbox.experiments import printed
from simi_mailbox.experiments.calibration import versions
from simi_mailbox.experiments.downstream.grid import SEEDS_ARE_UNITS, Cell, GridTable
from simi_mailbox.experiments.downstream.keep import kept
from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.logits import graph_size
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.outcome import Failure, Outcome, Unit
from simi_mailbox.experiments.protocol import Run
from simi_mailbox.experiments.store import row_key
from simi_mailbox.experiments.tables.base import Selection, selected
from simi_mailbox.experiments.tables.registry import register
from simi_mailbox.graph import Graph
from simi_mailbox.models.gpn import GPNPrediction, GPNSettings, train_gpn

DATASETS = ("Cora", "Photo", "Physics")
KINDS = ("feature", "structure", "label")
# GNNSafe's thresholds t: classes above t are known, t itself is used for exposure, those below
# are to be detected. It defines none for Physics.
LABEL_THRESHOLDS = {"Cora": 3, "Photo": 4}
PERTURBATION_SEED = 123
SEEDS = {"Cora": 5, "Photo": 5, "Physics": 2}
CODE_VERSION = 1

CALIBRATED = ("temperature", "simi-mailbox")
# Label of each score and the paper's column.
SCORES: dict[str, str | None] = {
    "max-probability": None,
    "energy": None,
    "gnnsafe": "GNNSafe",
    "gpn-evidence": "GPN",
    "temperature": None,
    "simi-mailbox": "Simi-Mailbox",
}


@dataclass(frozen=True, eq=False)
class Problem:
    """A graph to train on, and the nodes to tell its test nodes from.

    ``foreign_x`` and ``foreign_graph`` hold the nodes ``foreign``; the same features or graph as
    in training where only the other is perturbed.
    """

    x: Any
    graph: Graph
    y: IntArray
    split: Split
    num_classes: int
    foreign_x: Any
    foreign_graph: Graph
    foreign: IntArray


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
    x, graph, y = _row_normalised(dataset), dataset.graph, dataset.y
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


def _row_normalised(dataset: NodeDataset) -> Any:
    # Before the mixture, as in GNNSafe: a mixture of raw counts would favour long documents.
    x = sp.csr_array(dataset.x)
    sums = np.asarray(x.sum(axis=1)).reshape(-1)
    return sp.csr_array(sp.diags_array((1.0 / np.maximum(sums, 1.0)).astype(np.float32)) @ x)


@dataclass(frozen=True)
class OODUnit(Unit):
    """All scores of one trained classifier (and one GPN) on one kind of foreign nodes."""

    run: Run
    kind: str
    scores: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"ood {self.run.dataset} {self.kind} seed {self.run.init}"

    def identity(self, score: str) -> dict[str, Any]:
        """Everything that decides about one row."""
        base = {
            "experiment": "ood",
            "kind": self.kind,
            "perturbation_seed": PERTURBATION_SEED,
            **self.run.identity(),
            "model": asdict(GPN if score == "gpn-evidence" else CLASSIFIER),
            "version": CODE_VERSION,
        }
        if score in CALIBRATED:
            return {**base, **Method.of(score).identity(self.run)}
        return {**base, "method": score}

    def key(self, score: str) -> str:
        """Key of one row."""
        return row_key(self.identity(score))

    def keys(self) -> list[str]:
        return [self.key(score) for score in self.scores]

    def pending(self, done: Container[str]) -> OODUnit | None:
        left = tuple(score for score in self.scores if self.key(score) not in done)
        return replace(self, scores=left) if left else None

    def seconds(self, durations: Durations) -> float:
        return durations.training(self.run.dataset, "gcn", graph_size(self.run.dataset))

    def ready(self) -> bool:
        return False

    def execute(self, skip: Callable[[str], bool]) -> Iterator[Outcome]:
        for score in self.scores:
            identity = self.identity(score)
            if skip(row_key(identity)):
                continue
            try:
                yield {"key": row_key(identity), **identity, **self._measure(score)}
            except Exception as error:
                label = f"{self.label}: {score}"
                yield Failure(label, f"{type(error).__name__}: {error}", traceback.format_exc())

    def _measure(self, score: str) -> dict[str, Any]:
        given = problem(self.run.dataset, self.kind)
        started = time.perf_counter()
        if score == "gpn-evidence":
            own, foreign, accuracy = _evidence(self.run, self.kind, given)
        else:
            own, foreign, accuracy = _score(score, self.run, self.kind, given)
        found = ood.evaluate(
            own[torch.tensor(given.split.test)], foreign[torch.tensor(given.foreign)]
        )
        return {
            "metrics": {
                "auroc": round(found.auroc, 8),
                "aupr": round(found.aupr, 8),
                "fpr95": round(found.fpr95, 8),
                "accuracy": accuracy,
            },
            "seconds": {"total": round(time.perf_counter() - started, 3)},
            "seed": self.run.init,
            "versions": versions(),
        }


CLASSIFIER = ood.DetectorSettings()
GPN = GPNSettings.latent16()


def _score(score: str, run: Run, kind: str, given: Problem) -> tuple[Tensor, Tensor, float]:
    own, foreign = _logits(run, kind, given)
    accuracy = _accuracy(own, given)
    if score == "max-probability":
        return ood.max_probability(own), ood.max_probability(foreign), accuracy
    if score == "energy":
        return ood.energy(own), ood.energy(foreign), accuracy
    if score == "gnnsafe":
        return (
            ood.propagated_energy(own, given.graph),
            ood.propagated_energy(foreign, given.foreign_graph),
            accuracy,
        )
    calibrator = Method.of(score).build(run)
    calibrator.fit(own, given.y, mask=given.split.val, graph=given.graph)
    return (
        ood.calibrated_confidence(calibrator, own, given.graph),
        ood.calibrated_confidence(calibrator, foreign, given.foreign_graph),
        accuracy,
    )


def _logits(run: Run, kind: str, given: Problem) -> tuple[Tensor, Tensor]:
    """Logits of the training graph and of the foreign one.

    Perturbed features or edges do not change what is trained on, so those two kinds share one
    classifier.
    """
    trained_on = "label" if kind == "label" else "all"
    identity = {
        **run.identity(),
        "classes": trained_on,
        "kind": kind,
        "perturbation_seed": PERTURBATION_SEED,
        "version": CODE_VERSION,
        **asdict(CLASSIFIER),
    }

    def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
        trained = _classifier(run, kind)
        tensors = {
            "own": trained.logits(given.x, given.graph),
            "foreign": trained.logits(given.foreign_x, given.foreign_graph),
        }
        return tensors, {"epoch": trained.best_epoch}

    tensors, _ = kept("ood", identity, make)
    return tensors["own"], tensors["foreign"]


def _classifier(run: Run, kind: str) -> ood.TrainedDetector:
    return _train_classifier(run, "label" if kind == "label" else "feature")


@functools.lru_cache(maxsize=2)
def _train_classifier(run: Run, kind: str) -> ood.TrainedDetector:
    given = problem(run.dataset, kind)
    return ood.train_detector(
        given.x,
        given.graph,
        given.y,
        given.split,
        num_classes=given.num_classes,
        settings=CLASSIFIER,
        seed=run.init,
    )


def _evidence(run: Run, kind: str, given: Problem) -> tuple[Tensor, Tensor, float]:
    identity = {
        **run.identity(),
        "kind": kind,
        "perturbation_seed": PERTURBATION_SEED,
        "version": CODE_VERSION,
        **asdict(GPN),
    }

    def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
        trained = _train_posterior(run, "label" if kind == "label" else "feature")
        tensors = {
            "own": trained.predict(given.x, given.graph).alpha,
            "foreign": trained.predict(given.foreign_x, given.foreign_graph).alpha,
        }
        return tensors, {"epochs": trained.epochs}

    tensors, _ = kept("ood-gpn", identity, make)
    own, foreign = (
        ood.evidence(GPNPrediction(tensors[name], torch.zeros(0))) for name in ("own", "foreign")
    )
    return own, foreign, _accuracy(tensors["own"], given)


@functools.lru_cache(maxsize=2)
def _train_posterior(run: Run, kind: str) -> Any:
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


def _accuracy(scores: Tensor, given: Problem) -> float:
    predicted = scores.argmax(dim=1).numpy()[given.split.test]
    return round(float((predicted == given.y[given.split.test]).mean()), 8)


class OODTable(GridTable):
    """One metric of detection, by graph and kind of foreign nodes."""

    baseline = "max-probability"
    datasets = DATASETS
    backbones = ("gcn",)
    caption = (
        "Positives are the test nodes of the training graph, negatives the foreign nodes. "
        "feature: mixtures of two nodes' features; structure: edges of a block model; label: "
        "classes that training did not see.",
        "The paper's caption calls a lower AUROC better; it is the other way round.",
        "temperature, simi-mailbox: largest calibrated probability; the calibrator is fitted on "
        "the validation nodes of the training graph and applied to the foreign nodes.",
        SEEDS_ARE_UNITS,
    )

    def __init__(self, name: str, metric: str, shows: str, *, compare: bool = False) -> None:
        self.name, self.metric, self.shows, self.compare = name, metric, shows, compare

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(SCORES)

    def units(self, selection: Selection) -> list[Unit]:
        scores = tuple(selected(selection.methods, self.methods))
        # Kinds of one seed follow each other: they share a trained model, which is kept meanwhile.
        return [
            OODUnit(run, kind, scores)
            for dataset in selected(selection.datasets, self.datasets)
            for run in self._runs(dataset, selection)
            for kind in kinds_of(dataset)
        ]

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = printed.cells(self.name) if self.compare else {}
        cells = []
        for dataset in selected(selection.datasets, self.datasets):
            for kind in kinds_of(dataset):
                for score in selected(selection.methods, self.methods):
                    keys = {
                        (run.init, 0, 0): OODUnit(run, kind, (score,)).key(score)
                        for run in self._runs(dataset, selection)
                    }
                    shown = numbers.get((dataset, "gcn", SCORES[score] or "", kind.capitalize()))
                    cells.append(Cell(f"{dataset} {kind}", "gcn", score, keys, shown))
        return cells

    def _runs(self, dataset: str, selection: Selection) -> list[Run]:
        count = SEEDS[dataset] if selection.runs is None else selection.runs
        return [Run(dataset, "gcn", "gnnsafe", init=seed) for seed in range(count)]


AUROC = register(OODTable("ood", "auroc", "detection of foreign nodes: AUROC", compare=True))
AUPR = register(OODTable("ood-aupr", "aupr", "AUPR, on the rows of ood (higher is better)"))
FPR95 = register(
    OODTable("ood-fpr95", "fpr95", "false positives at 95 % recall, on the rows of ood (lower)")
)
