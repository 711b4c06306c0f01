"""Detection of foreign nodes as in GNNSafe (Wu et al., 2023): one classifier, several scores."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from simi_mailbox import ood
from simi_mailbox.experiments import printed
from simi_mailbox.experiments.calibration import versions
from simi_mailbox.experiments.downstream import ood_models
from simi_mailbox.experiments.downstream.grid import SEEDS_ARE_UNITS, Cell, GridTable
from simi_mailbox.experiments.durations import Durations
from simi_mailbox.experiments.logits import graph_size
from simi_mailbox.experiments.methods import Method
from simi_mailbox.experiments.outcome import Failure, Outcome, Unit
from simi_mailbox.experiments.protocol import Run
from simi_mailbox.experiments.store import row_key
from simi_mailbox.experiments.tables.base import Selection, selected
from simi_mailbox.experiments.tables.registry import register

DATASETS = ("Cora", "Photo", "Physics")
SEEDS = {"Cora": 5, "Photo": 5, "Physics": 2}

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
            "perturbation_seed": ood_models.PERTURBATION_SEED,
            **self.run.identity(),
            "model": asdict(ood_models.GPN if score in OF_GPN else ood_models.CLASSIFIER),
            "version": ood_models.CODE_VERSION,
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
        given = ood_models.problem(self.run.dataset, self.kind)
        started = time.perf_counter()
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


def _score(
    score: str, run: Run, kind: str, given: ood_models.Problem
) -> tuple[Tensor, Tensor, float]:
    if score in OF_GPN:
        known, strange = ood_models.posteriors(run, kind, given)
        accuracy = ood_models.accuracy(known.alpha, given)
        if score == "gpn-evidence":
            return ood.evidence(known), ood.evidence(strange), accuracy
        return known.probs.amax(dim=1), strange.probs.amax(dim=1), accuracy
    own, foreign = ood_models.logits(run, kind, given)
    accuracy = ood_models.accuracy(own, given)
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
        "gpn-probability, gpn-evidence: largest probability and evidence of a GPN; the paper does "
        "not say which of them its GPN column is.",
        "temperature, simi-mailbox: largest calibrated probability; the calibrator is fitted on "
        "the validation nodes of the training graph and applied to the foreign nodes.",
    )
    notes = (SEEDS_ARE_UNITS,)

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
            for kind in ood_models.kinds_of(dataset)
        ]

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = printed.cells(self.name) if self.compare else {}
        cells = []
        for dataset in selected(selection.datasets, self.datasets):
            for kind in ood_models.kinds_of(dataset):
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
