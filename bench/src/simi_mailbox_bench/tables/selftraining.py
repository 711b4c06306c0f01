"""Self-training as in Wang et al. (2021): label rates, stages and thresholds as data."""

import hashlib
import time
import warnings
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import torch

from simi_mailbox import metrics
from simi_mailbox._arrays import Ints
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox_bench import paper_tables
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, graph_size, kept
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import train
from simi_mailbox_bench.calibration import versions
from simi_mailbox_bench.datasets import NodeDataset, Split, load, make_split
from simi_mailbox_bench.label_rivals import train_on_both
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.runner import Durations, Unit
from simi_mailbox_bench.self_training import Stage, self_train
from simi_mailbox_bench.store import ResultStore, Row
from simi_mailbox_bench.tables.base import (
    SEEDS_ARE_UNITS,
    Cell,
    Selection,
    Table,
    counted,
    selected,
)

# (stages, threshold) by backbone, labels per class and graph: those of BUPT-GAMMA/CaGCN @6c42db0,
# which its authors tuned for CaGCN. They are not tuned again for any other method.
PLANS: dict[tuple[str, int], dict[str, tuple[int, float]]] = {
    ("gcn", 20): {"Cora": (4, 0.8), "Citeseer": (5, 0.9), "Pubmed": (6, 0.8)},
    ("gcn", 40): {"Cora": (2, 0.8), "Citeseer": (2, 0.85), "Pubmed": (4, 0.8)},
    ("gcn", 60): {"Cora": (4, 0.8), "Citeseer": (2, 0.8), "Pubmed": (3, 0.6)},
    ("gat", 20): {"Cora": (6, 0.8), "Citeseer": (3, 0.7), "Pubmed": (2, 0.8)},
    ("gat", 40): {"Cora": (4, 0.9), "Citeseer": (2, 0.8), "Pubmed": (2, 0.8)},
    ("gat", 60): {"Cora": (2, 0.8), "Citeseer": (6, 0.8), "Pubmed": (3, 0.85)},
}
RATES = (20, 40, 60)
DATASETS = ("Cora", "Citeseer", "Pubmed")
SEEDS = 5

PLAIN, BOTH = "plain GNN", "plain GNN, validation labels too"
# Label of each column, the calibrator behind it, and the paper's column.
COLUMNS: dict[str, tuple[str | None, str | None]] = {
    PLAIN: (None, "UnCal."),
    BOTH: (None, None),
    "uncalibrated": ("uncalibrated", None),
    "temperature": ("temperature", None),
    "cagcn": ("cagcn", "CaGCN"),
    "gats": ("gats", None),
    "simi-mailbox": ("simi-mailbox", "Simi-Mailbox"),
}


def backbone_settings(backbone: str, dataset: str) -> Settings:
    """Training of the backbones in Wang et al.'s experiments.

    Two things differ from their code: training stops by this package's rule, and GAT has no ELU
    behind its last layer.
    """
    if backbone == "gat":
        decay = 1e-3 if dataset == "Pubmed" else 5e-4
        return Settings(dropout=0.6, attention_dropout=0.6, lr=0.005, weight_decay=decay)
    return Settings()


@dataclass(frozen=True)
class SelfTrainingUnit(Unit):
    """Self-training of one backbone with one seed, once for each way of measuring confidence."""

    run: RunKey
    items: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"self-training {self.run}"

    def identity(self, item: str) -> dict[str, Any]:
        base = {
            "experiment": "self-training",
            **asdict(self.run),
            "backbone_settings": self._settings.digest(),
        }
        name, _ = COLUMNS[item]
        if name is None:
            return {**base, "method": "plain" if item == PLAIN else "plain-on-both"}
        stages, threshold = self._plan
        return {
            **base,
            **Method.of(name).identity(self.run),
            "stages": stages,
            "threshold": threshold,
        }

    def seconds(self, durations: Durations) -> float:
        once = durations.training(self.run.dataset, self.run.backbone, graph_size(self.run.dataset))
        stages = sum(1 if COLUMNS[item][0] is None else self._plan[0] - 1 for item in self.items)
        return once * max(1, stages)

    def ready(self) -> bool:
        return False

    def prepare(self) -> NodeDataset:
        return load(self.run.dataset)

    @property
    def _settings(self) -> Settings:
        return backbone_settings(self.run.backbone, self.run.dataset)

    @property
    def _plan(self) -> tuple[int, float]:
        return PLANS[self.run.backbone, rate_of(self.run)][self.run.dataset]

    def measure(self, item: str, prepared: NodeDataset) -> Row:
        name, _ = COLUMNS[item]
        if item == BOTH:
            return self._trained_on_both(prepared)
        stages, threshold = (1, 0.5) if name is None else self._plan
        split = make_split(prepared, self.run.protocol)
        trained: list[torch.Tensor] = []

        def backbone(y: Ints, split: Split, seed: int) -> torch.Tensor:
            trained.append(_train(self.run, self._settings, prepared, y, split, seed))
            return trained[-1]

        started = time.perf_counter()
        with warnings.catch_warnings():  # the row tells what happened in every stage
            warnings.filterwarnings("ignore", "self-training: ", CalibrationWarning)
            result = self_train(
                prepared,
                split,
                backbone=backbone,
                calibrator=None if name is None else Method.of(name).build(self.run),
                stages=stages,
                threshold=threshold,
                seed=self.run.init,
            )
        error = metrics.ece(result.probs[split.test], prepared.y[split.test])
        return {
            "metrics": {
                "accuracy": result.test_accuracy,
                "val_accuracy": result.stages[-1].val_accuracy,
            },
            "stage_records": [_plain(stage) for stage in result.stages],
            "probs": {"ece": round(error, 8)},  # of the last stage
            "seconds": {"total": round(time.perf_counter() - started, 3)},
            "seed": self.run.init,
            "logits": digest(trained[0]),  # of the first stage, which all columns share
            "versions": versions(),
        }

    def _trained_on_both(self, prepared: NodeDataset) -> Row:
        """The GNN with validation labels among its training labels, for the epochs kept without."""
        split, settings = make_split(prepared, self.run.protocol), self._settings
        given = {"seed": self.run.init, "settings": settings}
        first = train(prepared, split, self.run.backbone, **given)  # type: ignore[arg-type]
        logits = train_on_both(prepared, split, self.run.backbone, **given, epochs=first.best_epoch)  # type: ignore[arg-type]
        right = logits.argmax(dim=1).numpy() == prepared.y
        return {
            "metrics": {"accuracy": float(right[split.test].mean())},
            "stage_records": [],
            "seed": self.run.init,
            "logits": digest(first.logits),
            "versions": versions(),
        }


def rate_of(run: RunKey) -> int:
    """Labels per class of a run's protocol ("rate20" → 20)."""
    return int(run.protocol.removeprefix("rate"))


def _plain(stage: Stage) -> dict[str, Any]:
    return {
        "labels": stage.train_nodes,
        "added": int(stage.added.size),
        "right": stage.right,
        "val_accuracy": stage.val_accuracy,
        "test_accuracy": stage.test_accuracy,
    }


def _train(
    run: RunKey, settings: Settings, dataset: NodeDataset, y: Ints, split: Split, seed: int
) -> torch.Tensor:
    """Train one stage; stages that several columns share are trained once and kept."""
    labels = np.where(y >= 0, y, 0)
    seen = hashlib.sha256(split.train.tobytes() + labels[split.train].tobytes()).hexdigest()
    identity = {**asdict(run), "settings": settings.digest(), "seed": seed, "labels": seen}

    def make() -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        without = replace(dataset, y=labels)
        made = train(without, split, run.backbone, seed=seed, settings=settings)
        return {"logits": made.logits}, {"seconds": made.seconds, "epochs": made.epochs}

    tensors, _ = kept("self-training", identity, make)
    return tensors["logits"]


class SelfTrainingTable(Table):
    """Test accuracy after self-training, by label rate and by how confidence was measured."""

    metric = "accuracy"
    baseline = PLAIN
    datasets = DATASETS
    caption = (
        "Accuracy: higher is better. The number behind a graph's name is its labels per class.",
        "plain GNN: no pseudo-labels (the paper's UnCal. column). uncalibrated: self-training on "
        "plain softmax confidence. The last stage counts, whichever stage was best.",
        "Stages and thresholds are those that the authors of CaGCN published for CaGCN; every "
        "calibrator is fitted on the validation nodes in every stage. simi-mailbox also takes "
        "their labels as evidence on neighbouring nodes, and so on pseudo-labels, which the "
        f"others do not. {BOTH}: no pseudo-labels, but the GNN itself is trained on them.",
    )
    notes = (
        SEEDS_ARE_UNITS,
        "From stage to stage, mean over seeds: accuracy → nodes added (share of them rightly "
        "labelled) → accuracy of the next stage. A seed stops when it adds nothing, and then "
        "counts with its last accuracy.",
    )

    def __init__(self, backbone: str) -> None:
        self.name = f"self-training-{backbone}"
        self.shows = f"test accuracy of self-training, {backbone.upper()}"
        self.backbones = (backbone,)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(COLUMNS)

    def units(self, selection: Selection) -> list[Unit]:
        columns = tuple(selected(selection.methods, self.methods))
        return [SelfTrainingUnit(run, columns) for runs in self._groups(selection) for run in runs]

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = paper_tables.cells(self.name)
        cells = []
        for runs in self._groups(selection):
            dataset, backbone, rate = runs[0].dataset, runs[0].backbone, rate_of(runs[0])
            units = {(run.init, 0, 0): SelfTrainingUnit(run, ()) for run in runs}
            for column in selected(selection.methods, self.methods):
                shown = numbers.get((dataset, backbone, COLUMNS[column][1] or "", str(rate)))
                where = f"{dataset} {rate}", backbone, column
                cells.append(Cell.of(*where, column, units, printed=shown))
        return cells

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        remarks = []
        for cell in self.cells(selection):
            rows = [store[key] for key in cell.keys.values() if key in store]
            if cell.method in ("uncalibrated", "simi-mailbox") and rows:
                stages = _stages([row["stage_records"] for row in rows])
                made = counted(len(rows), "seed")
                remarks.append(f"{cell.dataset}, {cell.method}, {made}: {stages}")
        return remarks

    def _groups(self, selection: Selection) -> list[list[RunKey]]:
        """Runs of every (rate, graph); low rates first, so that the first rows tell most."""
        count = SEEDS if selection.runs is None else selection.runs
        return [
            [RunKey(dataset, backbone, f"rate{rate}", init=seed) for seed in range(count)]
            for rate in RATES
            for dataset in selected(selection.datasets, self.datasets)
            for backbone in selected(selection.backbones, self.backbones)
        ]


def _stages(records: list[list[dict[str, Any]]]) -> str:
    """What happened from stage to stage, averaged over all seeds.

    A seed stops where it adds nothing, because a further stage would train the same model again:
    in the stages behind, it counts with its last accuracy.
    """
    parts = []
    for number in range(max(len(stages) for stages in records)):
        here = [stages[min(number, len(stages) - 1)] for stages in records]
        parts.append(f"{100 * fmean(stage['test_accuracy'] for stage in here):.2f}")
        added = sum(stage["added"] for stage in here)
        if added:
            right = 100 * sum(stage["right"] for stage in here) / added
            parts.append(f"+{added / len(here):.0f} nodes ({right:.1f} % right)")
    return " → ".join(parts) + "."


TABLES = (SelfTrainingTable("gcn"), SelfTrainingTable("gat"))
