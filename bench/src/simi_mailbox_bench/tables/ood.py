"""Detection of out-of-distribution nodes as in GNNSafe (Wu et al., 2023)."""

import functools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from simi_mailbox._arrays import Ints
from simi_mailbox.calibrators.simi_mailbox.paper import GroupedTemperatures
from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood, paper_tables
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, kept
from simi_mailbox_bench.backbones.features import row_normalised
from simi_mailbox_bench.backbones.gpn import GPNPrediction, GPNSettings, train_gpn
from simi_mailbox_bench.datasets import Split, load, make_split
from simi_mailbox_bench.methods import NOTES, Method
from simi_mailbox_bench.oracle import ORACLE, SOURCE, SimiMailboxOracle
from simi_mailbox_bench.runner import Unit
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
SEEDS = 10
PAPER, OURS = "simi-mailbox-paper", "Simi-Mailbox"
SEARCHED = f"{PAPER} searched"
CALIBRATED = {
    "temperature": Method.of("temperature"),
    "simi-mailbox": Method.of("simi-mailbox"),
    PAPER: Method.of(PAPER),
    SEARCHED: Method.of(PAPER, search=True),
    ORACLE: Method.of(ORACLE),
}
OF_GPN = ("gpn-probability", "gpn-evidence")
# Label of each score and the paper's column.
SCORES: dict[str, str | None] = {
    "max-probability": None,
    "energy": None,
    "gnnsafe": "GNNSafe",
    "gpn-probability": "GPN",
    "gpn-evidence": None,
    "temperature": None,
    "simi-mailbox": OURS,
    PAPER: OURS,
    SEARCHED: OURS,
    ORACLE: OURS,
}


@dataclass(frozen=True, eq=False)
class DetectionProblem:
    """A graph to train on, and the nodes ``ood_nodes`` to tell its test nodes from."""

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
    """Outputs of one run's models; feature and structure share what they are trained on."""

    def __init__(self, run: RunKey) -> None:
        self.run = run
        self.problem = functools.cache(lambda kind: problem(run.dataset, kind))
        self._trained = functools.cache(self._train)

    def outputs(self, kind: str, *, gpn: bool) -> tuple[Tensor, Tensor]:
        """Logits of the classifier, or α of the GPN: on the training graph and the foreign one."""

        def make() -> tuple[dict[str, Tensor], dict[str, Any]]:
            given = self.problem(kind)
            trained = self._trained("label" if kind == "label" else "feature", gpn)
            graphs = {"own": (given.x, given.graph), "foreign": (given.ood_x, given.ood_graph)}
            if gpn:
                found = {name: trained.predict(*graph).alpha for name, graph in graphs.items()}
                return found, {"epochs": trained.epochs}
            found = {name: trained.logits(*graph) for name, graph in graphs.items()}
            return found, {"epoch": trained.best_epoch}

        identity = {
            **vars(self.run),
            "kind": kind,
            "perturbation_seed": PERTURBATION_SEED,
            "version": CODE_VERSION,
            **asdict(GPN if gpn else CLASSIFIER),
            **({} if gpn else {"classes": "label" if kind == "label" else "all"}),
        }
        tensors, _ = kept("ood-gpn" if gpn else "ood", identity, make)
        return tensors["own"], tensors["foreign"]

    def _train(self, kind: str, gpn: bool) -> Any:
        given = self.problem(kind)
        train: Any = train_gpn if gpn else ood.train_classifier
        how = {"num_classes": given.num_classes, "settings": GPN if gpn else CLASSIFIER}
        return train(given.x, given.graph, given.y, given.split, **how, seed=self.run.init)


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
            **vars(self.run),
            "model": asdict(GPN if score in OF_GPN else CLASSIFIER),
            "version": CODE_VERSION,
        }
        if score in CALIBRATED:
            return {**base, **CALIBRATED[score].identity(self.run)}
        return {**base, "method": score}

    def ready(self) -> bool:
        return False

    def prepare(self) -> Models:
        return Models(self.run)

    def measure(self, item: tuple[str, str], prepared: Models) -> Row:
        kind, score = item
        given, gpn = prepared.problem(kind), score in OF_GPN
        started = time.perf_counter()
        own, other = prepared.outputs(kind, gpn=gpn)
        score_of = _scorer(score, self.run, own, given)
        test = given.split.test
        right = own.argmax(dim=1).numpy()[test] == given.y[test]
        found = ood.evaluate(
            score_of(own, given.graph)[torch.tensor(test)],
            score_of(other, given.ood_graph)[torch.tensor(given.ood_nodes)],
        )
        values = {**asdict(found), "accuracy": float(right.mean())}
        return {
            "metrics": {name: round(value, 8) for name, value in values.items()},
            "seconds": {"total": round(time.perf_counter() - started, 3)},
            "seed": self.run.init,
            # A GPN is another model than the one behind the other scores.
            **({} if gpn else {"logits": digest(own)}),
        }


def _scorer(
    score: str, run: RunKey, own: Tensor, given: DetectionProblem
) -> Callable[[Tensor, Graph], Tensor]:
    """Scores of the nodes of a graph, by what a model says of them."""
    if score in CALIBRATED:
        return partial(ood.calibrated_confidence, _fitted(CALIBRATED[score], run, own, given))
    scorers: dict[str, Callable[[Tensor, Graph], Tensor]] = {
        "max-probability": lambda z, _: ood.max_probability(z),
        "energy": lambda z, _: ood.energy(z),
        "gnnsafe": ood.propagated_energy,
        "gpn-probability": lambda alpha, _: GPNPrediction(alpha).probs.amax(dim=1),
        "gpn-evidence": lambda alpha, _: GPNPrediction(alpha).evidence,
    }
    return scorers[score]


class _ForOtherGraphs(SimiMailboxOracle):
    """The released method for nodes that it was not fitted on: in the group of their centroid."""

    _temperatures = GroupedTemperatures._temperatures


def _fitted(method: Method, run: RunKey, logits: Tensor, given: DetectionProblem) -> Any:
    """The calibrator, fitted on the validation nodes; the oracle reads all labels of the graph."""
    inputs: dict[str, Any] = {"mask": given.split.val, "graph": given.graph}
    if method.name != ORACLE:
        return method.build(run).fit(logits, given.y, **inputs)
    others = np.setdiff1d(np.flatnonzero(given.y >= 0), given.split.val)
    inputs |= {"early_stopping_mask": others, "train_mask": given.split.train}
    return _ForOtherGraphs(**method.settings(run)).fit(logits, given.y, **inputs)


@dataclass(frozen=True, kw_only=True)
class OODTable(Table):
    """One metric of detection, by graph and kind of OOD nodes."""

    baseline: str | None = "max-probability"
    datasets: tuple[str, ...] = tuple(LABEL_THRESHOLDS)
    backbones: tuple[str, ...] = ("gcn",)
    caption: tuple[str, ...] = (
        "Positives are the test nodes of the training graph, negatives the OOD nodes. "
        "feature: mixtures of two nodes' features; structure: edges of a block model; label: "
        "classes that training did not see (GNNSafe has no such task on Physics: here classes 3 "
        "and 4 are known, 0 and 1 foreign).",
        "The paper's caption calls a lower AUROC better; it is the other way round.",
        "gpn-probability, gpn-evidence: largest probability and evidence of a GPN; the paper does "
        "not say which of them its GPN column is.",
        "temperature, simi-mailbox and its forms: largest calibrated probability; fitted on "
        "the validation nodes of the training graph and applied to the OOD nodes. "
        f"{PAPER}: as described, N = 15, λ = 50; searched: N and λ by validation ECE. {ORACLE}: "
        f"as released ({SOURCE}), OOD nodes in the group of the nearest centroid.",
    )
    notes: tuple[str, ...] = (SEEDS_ARE_UNITS,)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(SCORES)

    def cells(self, selection: Selection) -> list[Cell]:
        numbers = paper_tables.cells(self.name)
        seeds = range(SEEDS if selection.runs is None else selection.runs)
        made = []
        for dataset, backbone in self.places(selection):
            runs = [RunKey(dataset, backbone, "gnnsafe", init=seed) for seed in seeds]
            units = {(run.init, 0, 0): OODUnit(run, ()) for run in runs}
            for item in product(KINDS, selected(selection.methods, self.methods)):
                kind, score = item
                printed = numbers.get((dataset, backbone, SCORES[score] or "", kind.capitalize()))
                where = f"{dataset} {kind}", backbone, score
                made.append(Cell(*where, item, units, printed, NOTES.get(score, "")))
        return made


TABLES = tuple(
    OODTable(name=name, metric=metric, shows=shows)
    for name, metric, shows in (
        ("ood", "auroc", "detection of OOD nodes: AUROC"),
        ("ood-aupr", "aupr", "AUPR, on the rows of ood (higher is better)"),
        ("ood-fpr95", "fpr95", "false positives at 95 % recall, on the rows of ood (lower)"),
    )
)
