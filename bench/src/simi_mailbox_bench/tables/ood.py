"""Detection of out-of-distribution nodes as in GNNSafe (Wu et al., 2023)."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox._arrays import Ints
from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood, paper_tables
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, graph_size, kept
from simi_mailbox_bench.backbones.features import row_normalised
from simi_mailbox_bench.backbones.gpn import GPNPrediction, GPNSettings, train_gpn
from simi_mailbox_bench.calibration import versions
from simi_mailbox_bench.datasets import Split, load, make_split
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.runner import Durations, Unit
from simi_mailbox_bench.store import Row
from simi_mailbox_bench.tables.base import SEEDS_ARE_UNITS, Cell, Selection, Table, selected

KINDS = ("feature", "structure", "label")
# GNNSafe's thresholds t: classes above t are known, t itself is used for exposure, those below
# are to be detected. It has none for Physics; there it is half the classes, as on the other two.
LABEL_THRESHOLDS = {"Cora": 3, "Photo": 4, "Physics": 2}
PERTURBATION_SEED = 123
# Raised when the code changes what the same settings compute.
CODE_VERSION = 1

CLASSIFIER = ood.ClassifierSettings()
GPN = GPNSettings.latent16()


@dataclass(frozen=True, eq=False)
class DetectionProblem:
    """A graph to train on, and the nodes to tell its test nodes from.

    ``ood_x`` and ``ood_graph`` hold the nodes ``ood_nodes``; the same features or graph as
    in training where only the other is perturbed.
    """

    x: Any
    graph: Graph
    y: Ints
    split: Split
    num_classes: int
    ood_x: Any
    ood_graph: Graph
    ood_nodes: Ints


def problem(name: str, kind: str) -> DetectionProblem:
    """Make the problem; the same for all seeds, as in GNNSafe."""
    dataset = load(name)
    split = make_split(dataset, "public" if dataset.public is not None else "random-10-10-80")
    # Before the mixture, as in GNNSafe: a mixture of raw counts would favour long documents.
    x, graph, y = row_normalised(sp.csr_array(dataset.x)), dataset.graph, dataset.y
    plain = DetectionProblem(x, graph, y, split, dataset.num_classes, x, graph, np.arange(y.size))
    if kind == "feature":
        return replace(plain, ood_x=ood.interpolated_features(x, seed=PERTURBATION_SEED))
    if kind == "structure":
        blocks = ood.random_blocks(graph, dataset.num_classes, seed=PERTURBATION_SEED)
        return replace(plain, ood_graph=blocks)
    threshold = LABEL_THRESHOLDS[name]
    left = ood.leave_out_classes(y, split, unknown=range(threshold), drop=[threshold])
    return replace(
        plain, y=left.y, split=left.split, num_classes=len(left.classes), ood_nodes=left.unknown
    )


class Models:
    """What the models of one run say about each kind of OOD nodes; made when asked for.

    Perturbed features or edges do not change what is trained on, so those two kinds share one
    classifier and one GPN.
    """

    def __init__(self, run: RunKey) -> None:
        self.run = run
        self._problems: dict[str, DetectionProblem] = {}
        self._trained: dict[tuple[str, str], Any] = {}

    def problem(self, kind: str) -> DetectionProblem:
        """The problem of one kind."""
        if kind not in self._problems:
            self._problems[kind] = problem(self.run.dataset, kind)
        return self._problems[kind]

    def logits(self, kind: str) -> tuple[Tensor, Tensor]:
        """Logits of the training graph and of the foreign one."""

        def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
            given, trained = self.problem(kind), self._train(kind, ood.train_classifier, CLASSIFIER)
            tensors = {
                "own": trained.logits(given.x, given.graph),
                "foreign": trained.logits(given.ood_x, given.ood_graph),
            }
            return tensors, {"epoch": trained.best_epoch}

        classes = {"classes": "label" if kind == "label" else "all"}
        tensors, _ = kept("ood", self._identity(kind, CLASSIFIER) | classes, make)
        return tensors["own"], tensors["foreign"]

    def posteriors(self, kind: str) -> tuple[GPNPrediction, GPNPrediction]:
        """What a GPN says of the training graph and of the foreign one."""

        def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
            given, trained = self.problem(kind), self._train(kind, train_gpn, GPN)
            tensors = {
                "own": trained.predict(given.x, given.graph).alpha,
                "foreign": trained.predict(given.ood_x, given.ood_graph).alpha,
            }
            return tensors, {"epochs": trained.epochs}

        tensors, _ = kept("ood-gpn", self._identity(kind, GPN), make)
        own, foreign = (GPNPrediction(tensors[name], torch.zeros(0)) for name in ("own", "foreign"))
        return own, foreign

    def _identity(self, kind: str, settings: Any) -> dict[str, Any]:
        return {
            **asdict(self.run),
            "kind": kind,
            "perturbation_seed": PERTURBATION_SEED,
            "version": CODE_VERSION,
            **asdict(settings),
        }

    def _train(self, kind: str, train: Callable[..., Any], settings: Any) -> Any:
        """Train on the graph of a kind, unless a kind with the same one was trained on."""
        same = "label" if kind == "label" else "feature"
        if (same, train.__name__) not in self._trained:
            given = self.problem(same)
            self._trained[same, train.__name__] = train(
                given.x,
                given.graph,
                given.y,
                given.split,
                num_classes=given.num_classes,
                settings=settings,
                seed=self.run.init,
            )
        return self._trained[same, train.__name__]


def test_accuracy(scores: Tensor, given: DetectionProblem) -> float:
    """Accuracy on the test nodes."""
    predicted = scores.argmax(dim=1).numpy()[given.split.test]
    return round(float((predicted == given.y[given.split.test]).mean()), 8)


DATASETS = ("Cora", "Photo", "Physics")
SEEDS = 10

CALIBRATED = ("temperature", "simi-mailbox")
OF_GPN = ("gpn-probability", "gpn-evidence")
# Label of each score and the paper's column.
SCORES: dict[str, str | None] = {
    "max-probability": None,
    "energy": None,
    "gnnsafe": "GNNSafe",
    "gpn-probability": "GPN",
    "gpn-evidence": None,
    "temperature": None,
    "simi-mailbox": "Simi-Mailbox",
}


@dataclass(frozen=True)
class OODUnit(Unit):
    """Scores of one trained classifier (and one GPN); an item is a kind of nodes and a score."""

    run: RunKey
    items: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        return f"ood {self.run.dataset} seed {self.run.init}"

    def identity(self, item: tuple[str, str]) -> dict[str, Any]:
        kind, score = item
        base = {
            "experiment": "ood",
            "kind": kind,
            "perturbation_seed": PERTURBATION_SEED,
            **asdict(self.run),
            "model": asdict(GPN if score in OF_GPN else CLASSIFIER),
            "version": CODE_VERSION,
        }
        if score in CALIBRATED:
            return {**base, **Method.of(score).identity(self.run)}
        return {**base, "method": score}

    def seconds(self, durations: Durations) -> float:
        once = durations.training(self.run.dataset, "gcn", graph_size(self.run.dataset))
        return once * len({kind for kind, _ in self.items})

    def ready(self) -> bool:
        return False

    def prepare(self) -> Models:
        return Models(self.run)

    def measure(self, item: tuple[str, str], prepared: Models) -> Row:
        kind, score = item
        given = prepared.problem(kind)
        started = time.perf_counter()
        if score in OF_GPN:
            own, foreign, accuracy = _of_gpn(score, *prepared.posteriors(kind), given)
            seen = {}  # a GPN is another model than the one behind the other scores
        else:
            logits = prepared.logits(kind)
            own, foreign = _of_logits(score, self.run, *logits, given)
            accuracy = test_accuracy(logits[0], given)
            seen = {"logits": digest(logits[0])}
        found = ood.evaluate(
            own[torch.tensor(given.split.test)], foreign[torch.tensor(given.ood_nodes)]
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
            **seen,
            "versions": versions(),
        }


def _of_gpn(
    score: str, known: GPNPrediction, strange: GPNPrediction, given: DetectionProblem
) -> tuple[Tensor, Tensor, float]:
    accuracy = test_accuracy(known.alpha, given)
    if score == "gpn-evidence":
        return known.evidence, strange.evidence, accuracy
    return known.probs.amax(dim=1), strange.probs.amax(dim=1), accuracy


def _of_logits(
    score: str, run: RunKey, own: Tensor, other: Tensor, given: DetectionProblem
) -> tuple[Tensor, Tensor]:
    if score == "max-probability":
        return ood.max_probability(own), ood.max_probability(other)
    if score == "energy":
        return ood.energy(own), ood.energy(other)
    if score == "gnnsafe":
        return (
            ood.propagated_energy(own, given.graph),
            ood.propagated_energy(other, given.ood_graph),
        )
    calibrator = Method.of(score).build(run)
    calibrator.fit(own, given.y, mask=given.split.val, graph=given.graph)
    return (
        ood.calibrated_confidence(calibrator, own, given.graph),
        ood.calibrated_confidence(calibrator, other, given.ood_graph),
    )


class OODTable(Table):
    """One metric of detection, by graph and kind of OOD nodes."""

    baseline = "max-probability"
    datasets = DATASETS
    backbones = ("gcn",)
    caption = (
        "Positives are the test nodes of the training graph, negatives the OOD nodes. "
        "feature: mixtures of two nodes' features; structure: edges of a block model; label: "
        "classes that training did not see (GNNSafe has no such task on Physics: here classes 3 "
        "and 4 are known, 0 and 1 foreign).",
        "The paper's caption calls a lower AUROC better; it is the other way round.",
        "gpn-probability, gpn-evidence: largest probability and evidence of a GPN; the paper does "
        "not say which of them its GPN column is.",
        "temperature, simi-mailbox: largest calibrated probability; the calibrator is fitted on "
        "the validation nodes of the training graph and applied to the OOD nodes.",
    )
    notes = (SEEDS_ARE_UNITS,)

    def __init__(self, name: str, metric: str, shows: str, *, compare: bool = False) -> None:
        self.name, self.metric, self.shows, self.compare = name, metric, shows, compare

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(SCORES)

    def units(self, selection: Selection) -> list[Unit]:
        return [
            OODUnit(run, self._items(selection))
            for dataset in selected(selection.datasets, self.datasets)
            for run in self._runs(dataset, selection)
        ]

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = paper_tables.cells(self.name) if self.compare else {}
        cells = []
        for dataset in selected(selection.datasets, self.datasets):
            runs = self._runs(dataset, selection)
            units = {(run.init, 0, 0): OODUnit(run, ()) for run in runs}
            for item in self._items(selection):
                kind, score = item
                shown = numbers.get((dataset, "gcn", SCORES[score] or "", kind.capitalize()))
                cells.append(Cell.of(f"{dataset} {kind}", "gcn", score, item, units, printed=shown))
        return cells

    def _items(self, selection: Selection) -> tuple[tuple[str, str], ...]:
        scores = selected(selection.methods, self.methods)
        return tuple(product(KINDS, scores))

    def _runs(self, dataset: str, selection: Selection) -> list[RunKey]:
        count = SEEDS if selection.runs is None else selection.runs
        return [RunKey(dataset, "gcn", "gnnsafe", init=seed) for seed in range(count)]


TABLES = (
    OODTable("ood", "auroc", "detection of OOD nodes: AUROC", compare=True),
    OODTable("ood-aupr", "aupr", "AUPR, on the rows of ood (higher is better)"),
    OODTable("ood-fpr95", "fpr95", "false positives at 95 % recall, on the rows of ood (lower)"),
)
