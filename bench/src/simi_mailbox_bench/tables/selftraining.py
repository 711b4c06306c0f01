"""Self-training as in Wang et al. (2021): label rates, stages and thresholds as data."""

import hashlib
import time
import warnings
from dataclasses import asdict, dataclass, replace
from itertools import product
from statistics import fmean
from typing import Any

import numpy as np
import torch

from simi_mailbox import metrics
from simi_mailbox._arrays import Ints
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox_bench import paper_tables
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, kept
from simi_mailbox_bench.backbones.settings import Settings
from simi_mailbox_bench.backbones.training import train
from simi_mailbox_bench.datasets import NodeDataset, Split, load, make_split
from simi_mailbox_bench.methods import NOTES, Method
from simi_mailbox_bench.oracle import ORACLE, SOURCE
from simi_mailbox_bench.rivals import train_on_both
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.self_training import self_train
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
# Label of each column, the method behind it, and the paper's column.
PAPER, OURS = "simi-mailbox-paper", "Simi-Mailbox"
SEARCHED = f"{PAPER} searched"
COLUMNS: dict[str, tuple[Method | None, str | None]] = {
    PLAIN: (None, "UnCal."),
    BOTH: (None, None),
    "plain GNN + correct-and-smooth": (Method.of("correct-and-smooth"), None),
    "plain GNN + simi-mailbox-free": (Method.of("simi-mailbox-free"), None),
    "uncalibrated": (Method.of("uncalibrated"), None),
    "temperature": (Method.of("temperature"), None),
    "cagcn": (Method.of("cagcn"), "CaGCN"),
    "gats": (Method.of("gats"), None),
    "correct-and-smooth": (Method.of("correct-and-smooth"), None),
    "simi-mailbox": (Method.of("simi-mailbox"), OURS),
    PAPER: (Method.of(PAPER), OURS),
    SEARCHED: (Method.of(PAPER, search=True), OURS),
    ORACLE: (Method.of(ORACLE), OURS),
}


def backbone_settings(backbone: str, dataset: str) -> Settings:
    """Wang et al.'s, but for our rule of stopping and no ELU behind the last layer of a GAT."""
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
            **vars(self.run),
            "backbone_settings": self._settings.digest(),
        }
        method, _ = COLUMNS[item]
        if method is None:
            return {**base, "method": "plain" if item == PLAIN else "plain-on-both"}
        stages, threshold = self._stages_and_threshold(item)
        return {**base, **method.identity(self.run), "stages": stages, "threshold": threshold}

    def ready(self) -> bool:
        return False

    def prepare(self) -> NodeDataset:
        return load(self.run.dataset)

    @property
    def _settings(self) -> Settings:
        return backbone_settings(self.run.backbone, self.run.dataset)

    def _stages_and_threshold(self, item: str) -> tuple[int, float]:
        """Of a column; one stage is the plain GNN."""
        rate = int(self.run.protocol.removeprefix("rate"))
        plan = PLANS[self.run.backbone, rate][self.run.dataset]
        return (1, 0.5) if item.startswith(PLAIN) else plan

    def measure(self, item: str, prepared: NodeDataset) -> Row:
        method, _ = COLUMNS[item]
        if item == BOTH:
            return self._trained_on_both(prepared)
        stages, threshold = self._stages_and_threshold(item)
        split = make_split(prepared, self.run.protocol)
        calibrator: Any = method and method.build(self.run)
        if method and method.name in (ORACLE, "correct-and-smooth"):
            calibrator = _FurtherLabels(method, self.run, prepared, split)
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
                calibrator=calibrator,
                stages=stages,
                threshold=threshold,
                seed=self.run.init,
            )
        error = metrics.ece(result.probs[split.test], prepared.y[split.test])
        moved = method is not None and item.startswith(PLAIN)
        right = result.probs.argmax(axis=1) == prepared.y
        return {
            "metrics": {
                "accuracy": float(right[split.test].mean()) if moved else result.test_accuracy,
                "val_accuracy": result.stages[-1].val_accuracy,
            },
            "stage_records": [
                {
                    "labels": stage.train_nodes,
                    "added": int(stage.added.size),
                    "right": stage.right,
                    "val_accuracy": stage.val_accuracy,
                    "test_accuracy": stage.test_accuracy,
                }
                for stage in result.stages
            ],
            "probs": {"ece": round(error, 8)},  # of the last stage
            "seconds": {"total": round(time.perf_counter() - started, 3)},
            "seed": self.run.init,
            "logits": digest(trained[0]),  # of the first stage, which all columns share
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
        }


class _FurtherLabels:
    """Correct & Smooth with training labels, or the released Simi-Mailbox with all labels."""

    required_inputs = frozenset({"graph"})

    def __init__(self, method: Method, run: RunKey, dataset: NodeDataset, split: Split) -> None:
        self.method, self.run, self.dataset, self.split = method, run, dataset, split

    def fit(self, logits: Any, y: Ints, *, mask: Ints, graph: Any) -> None:
        self.calibrator = self.method.build(self.run)
        given: dict[str, Any] = {"mask": mask, "graph": graph}
        if getattr(self.calibrator, "reads_test_labels", False):
            y = self.dataset.y
            others = np.setdiff1d(np.arange(len(y)), mask)
            given |= {"early_stopping_mask": others, "train_mask": self.split.train}
        else:
            given["early_stopping_mask"] = self.split.train
        self.calibrator.fit(logits, y, **given)

    def predict_proba(self, logits: Any, *, graph: Any) -> Any:
        return self.calibrator.predict_proba(logits, graph=graph)


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


@dataclass(frozen=True, kw_only=True)
class SelfTrainingTable(Table):
    """Test accuracy after self-training, by label rate and by how confidence was measured."""

    metric: str = "accuracy"
    baseline: str | None = PLAIN
    datasets: tuple[str, ...] = DATASETS
    caption: tuple[str, ...] = (
        "Accuracy: higher is better. The number behind a graph's name is its labels per class.",
        "plain GNN: no pseudo-labels (the paper's UnCal. column). uncalibrated: self-training on "
        "plain softmax confidence. The last stage counts, whichever stage was best.",
        "Stages and thresholds are those that the authors of CaGCN published for CaGCN; every "
        "calibrator is fitted on the validation nodes in every stage. simi-mailbox also takes "
        "their labels as evidence on neighbouring nodes, and so on pseudo-labels, which the "
        f"others do not. {BOTH}: no pseudo-labels, but the GNN itself is trained on them, for the "
        "epochs that were kept without. plain GNN + correct-and-smooth, + simi-mailbox-free: no "
        "pseudo-labels, but predictions of the plain GNN that validation labels may change.",
        "correct-and-smooth (PyG's) uses training and validation labels. simi-mailbox-paper: as "
        "described, N = 15, λ = 50; searched: N and λ by validation ECE. simi-mailbox-oracle: as "
        f"released ({SOURCE}), which reads the labels of all nodes, pseudo-labelled ones included.",
    )
    notes: tuple[str, ...] = (
        SEEDS_ARE_UNITS,
        "From stage to stage, mean over seeds: accuracy → nodes added (share of them rightly "
        "labelled) → accuracy of the next stage. A seed stops when it adds nothing, and then "
        "counts with its last accuracy.",
    )

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(COLUMNS)

    def cells(self, selection: Selection) -> list[Cell]:
        """Low label rates first, so that the first rows tell most."""
        numbers = paper_tables.cells(self.name)
        seeds = range(SEEDS if selection.runs is None else selection.runs)
        made = []
        for rate, (dataset, backbone) in product(RATES, list(self.places(selection))):
            runs = [RunKey(dataset, backbone, f"rate{rate}", init=seed) for seed in seeds]
            units = {(run.init, 0, 0): SelfTrainingUnit(run, ()) for run in runs}
            for label in selected(selection.methods, self.methods):
                method, column = COLUMNS[label]
                printed = numbers.get((dataset, backbone, column or "", str(rate)))
                note = NOTES.get(method.name, "") if method else ""
                where = f"{dataset} {rate}", backbone, label
                made.append(Cell(*where, label, units, printed, note))
        return made

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        remarks = []
        for cell in self.cells(selection):
            rows = [store[key] for key in cell.keys.values() if key in store]
            if cell.method in ("uncalibrated", "simi-mailbox") and rows:
                stages = _stages([row["stage_records"] for row in rows])
                made = counted(len(rows), "seed")
                remarks.append(f"{cell.dataset}, {cell.method}, {made}: {stages}")
        return remarks


def _stages(records: list[list[dict[str, Any]]]) -> str:
    """What happened from stage to stage; a seed that stopped counts with its last accuracy."""
    parts = []
    for number in range(max(len(stages) for stages in records)):
        here = [stages[min(number, len(stages) - 1)] for stages in records]
        parts.append(f"{100 * fmean(stage['test_accuracy'] for stage in here):.2f}")
        added = sum(stage["added"] for stage in here)
        if added:
            right = 100 * sum(stage["right"] for stage in here) / added
            parts.append(f"+{added / len(here):.0f} nodes ({right:.1f} % right)")
    return " → ".join(parts) + "."


TABLES = tuple(
    SelfTrainingTable(
        name=f"self-training-{backbone}",
        shows=f"test accuracy of self-training, {backbone.upper()}",
        backbones=(backbone,),
    )
    for backbone in ("gcn", "gat")
)
