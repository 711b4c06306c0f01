"""Detection of foreign nodes as in GNNSafe (Wu et al., 2023): one classifier, several scores."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from simi_mailbox_bench import ood, paper_tables
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, graph_size
from simi_mailbox_bench.backbones.gpn import GPNPrediction
from simi_mailbox_bench.calibration import versions
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.store import Row
from simi_mailbox_bench.tables import ood_models
from simi_mailbox_bench.tables.base import SEEDS_ARE_UNITS, Cell, Selection, Table, selected
from simi_mailbox_bench.unit import Durations, Unit

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
            "perturbation_seed": ood_models.PERTURBATION_SEED,
            **asdict(self.run),
            "model": asdict(ood_models.GPN if score in OF_GPN else ood_models.CLASSIFIER),
            "version": ood_models.CODE_VERSION,
        }
        if score in CALIBRATED:
            return {**base, **Method.of(score).identity(self.run)}
        return {**base, "method": score}

    def seconds(self, durations: Durations) -> float:
        once = durations.training(self.run.dataset, "gcn", graph_size(self.run.dataset))
        return once * len({kind for kind, _ in self.items})

    def ready(self) -> bool:
        return False

    def prepare(self) -> ood_models.Models:
        return ood_models.Models(self.run)

    def measure(self, item: tuple[str, str], prepared: ood_models.Models) -> Row:
        kind, score = item
        given = prepared.problem(kind)
        started = time.perf_counter()
        if score in OF_GPN:
            own, foreign, accuracy = _of_gpn(score, *prepared.posteriors(kind), given)
            seen = {}  # a GPN is another model than the one behind the other scores
        else:
            logits = prepared.logits(kind)
            own, foreign = _of_logits(score, self.run, *logits, given)
            accuracy = ood_models.accuracy(logits[0], given)
            seen = {"logits": digest(logits[0])}
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
            **seen,
            "versions": versions(),
        }


def _of_gpn(
    score: str, known: GPNPrediction, strange: GPNPrediction, given: ood_models.OODProblem
) -> tuple[Tensor, Tensor, float]:
    accuracy = ood_models.accuracy(known.alpha, given)
    if score == "gpn-evidence":
        return known.evidence, strange.evidence, accuracy
    return known.probs.amax(dim=1), strange.probs.amax(dim=1), accuracy


def _of_logits(
    score: str, run: RunKey, own: Tensor, foreign: Tensor, given: ood_models.OODProblem
) -> tuple[Tensor, Tensor]:
    if score == "max-probability":
        return ood.max_probability(own), ood.max_probability(foreign)
    if score == "energy":
        return ood.energy(own), ood.energy(foreign)
    if score == "gnnsafe":
        return (
            ood.propagated_energy(own, given.graph),
            ood.propagated_energy(foreign, given.foreign_graph),
        )
    calibrator = Method.of(score).build(run)
    calibrator.fit(own, given.y, mask=given.split.val, graph=given.graph)
    return (
        ood.calibrated_confidence(calibrator, own, given.graph),
        ood.calibrated_confidence(calibrator, foreign, given.foreign_graph),
    )


class OODTable(Table):
    """One metric of detection, by graph and kind of foreign nodes."""

    baseline = "max-probability"
    datasets = DATASETS
    backbones = ("gcn",)
    caption = (
        "Positives are the test nodes of the training graph, negatives the foreign nodes. "
        "feature: mixtures of two nodes' features; structure: edges of a block model; label: "
        "classes that training did not see (GNNSafe has no such task on Physics: here classes 3 "
        "and 4 are known, 0 and 1 foreign).",
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
        return tuple(product(ood_models.KINDS, scores))

    def _runs(self, dataset: str, selection: Selection) -> list[RunKey]:
        count = SEEDS if selection.runs is None else selection.runs
        return [RunKey(dataset, "gcn", "gnnsafe", init=seed) for seed in range(count)]


TABLES = (
    OODTable("ood", "auroc", "detection of foreign nodes: AUROC", compare=True),
    OODTable("ood-aupr", "aupr", "AUPR, on the rows of ood (higher is better)"),
    OODTable("ood-fpr95", "fpr95", "false positives at 95 % recall, on the rows of ood (lower)"),
)
