"""The table of decisions: coverage and size of sets, and errors among the accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from simi_mailbox_bench.backbones.cached_runs import RunKey, runs
from simi_mailbox_bench.compare import Place, paired
from simi_mailbox_bench.deciding import ACCEPT, DRAWS, FOLDS, SCORES, DecideUnit, Question
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables.base import (
    Cell,
    Line,
    Selection,
    Table,
    TableResult,
    runs_per_cell,
    selected,
)
from simi_mailbox_bench.tables.paper import FEW_RUNS, HOMOPHILOUS

METHODS = ("uncalibrated", "temperature", "gats", "simi-mailbox")
BEST_OF = ("lac", "aps", "daps", "snaps")
"""What users have today, on uncalibrated probabilities."""
USES_NEIGHBOURING_LABELS = "simi-mailbox"
"""The method that uses labels of neighbouring nodes."""
BY_DEGREE = " by degree"
GAP = 2.0
"""Points of coverage that the worst group lacks, if there is a gap."""

Values = Mapping[str, Mapping[tuple[str, str], Mapping[Place, float]]]
"""By column, by (graph, backbone), by run."""

HOW = (
    "probabilities/score. Calibrators are fitted on the validation nodes. Unselected: thresholds "
    f"from as many test nodes, drawn at random ({DRAWS} times), and judged on the others."
)
CROSSFIT = (
    "probabilities/score. Each calibration node is looked at where its own label was not known: "
    f"probabilities of all nodes from {FOLDS} fits, each without a part of the labels."
)
KINDS = {
    "corrected": "thresholds from the nodes that chose the checkpoint, selection bias counted",
    "crossfit": "the same, no node's own label known",
    "plain": "thresholds from the nodes that chose the checkpoint, selection bias forgotten",
    "unselected": "thresholds from other nodes",
}
"""Which nodes the thresholds come from; part of a metric's name."""
MEASURES = {
    "coverage": "coverage of {level} % sets",
    "size": "mean size of {level} % sets",
    "worst": "coverage of {level} % sets in the worst quarter by degree",
    "accepted": "share accepted with at most 5 % errors at 90 % confidence",
    "broken": "how often more than 5 % of the accepted are wrong (10 % are allowed)",
    "aurc": "area under the risk–coverage curve: mean error rate of the surest, over all shares",
}
METRICS = (
    *(f"coverage_{kind}_{level}" for level in (90, 95) for kind in KINDS),
    *(f"{measure}_unselected_{level}" for level in (90, 95) for measure in ("size", "worst")),
    *("aurc", "accepted_unselected", *(f"broken_{kind}" for kind in KINDS)),
)
"""Metrics of a row that the table can show: measure, nodes, level."""


class DecideTable(Table):
    """A grid (graph, backbone) × (probabilities, rule) of one number of the rows."""

    name = "decide"
    datasets = tuple(name for name in HOMOPHILOUS if name != "CoraFull")
    backbones = ("gcn", "gat")
    metrics = METRICS

    def __init__(self, metric: str = METRICS[0]) -> None:
        measure, kind, level, *_ = (*metric.split("_"), "", "")
        self.metric = metric
        self.shows = MEASURES[measure].format(level=level) + (f", {KINDS[kind]}" if kind else "")
        self.probabilities = (USES_NEIGHBOURING_LABELS,) if kind == "crossfit" else METHODS
        self.caption = (CROSSFIT,) if kind == "crossfit" else (HOW,) if kind else ()
        self.target = float(level) if measure == "coverage" else None
        self.conditioned = measure == "worst"
        self.digits = {"size": 3, "aurc": 2}.get(measure, 1)
        self.unit = "classes" if measure == "size" else "percent"
        self.rules = tuple(SCORES) if level else (ACCEPT,)
        if self.conditioned:
            self.rules = ("lac", "aps", "daps")
        if measure in ("aurc", "accepted"):
            self.baseline = f"uncalibrated/{ACCEPT}"

    def with_metric(self, metric: str) -> DecideTable:
        return DecideTable(metric)

    @property
    def questions(self) -> dict[str, Question]:
        """What each column asks."""
        return _questions(self.probabilities, self.rules)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(self.questions)

    def units(self, selection: Selection) -> list[Unit]:
        """The rows of all metrics, if no column is named: they share their fits."""
        every = _questions(METHODS, (*SCORES, ACCEPT))
        named = selection.methods
        items = tuple(every[label] for label in (every if named is None else named))
        return [
            DecideUnit(run, items)
            for dataset in selected(selection.datasets, self.datasets)
            for backbone in selected(selection.backbones, self.backbones)
            for run in self.runs_of(dataset, backbone, selection)
        ]

    def runs_of(self, dataset: str, backbone: str, selection: Selection) -> list[RunKey]:
        """Runs of one cell."""
        return runs(dataset, backbone, "folds", selection.runs or FEW_RUNS)

    def cells(self, selection: Selection) -> list[Cell]:
        made = []
        ways = (("", self.metric), (BY_DEGREE, f"{self.metric}_by_degree"))
        for dataset, backbone in product(
            selected(selection.datasets, self.datasets),
            selected(selection.backbones, self.backbones),
        ):
            there = self.runs_of(dataset, backbone, selection)
            for label in selected(selection.methods, self.methods):
                keys = {run.place: DecideUnit(run, ()).key(self.questions[label]) for run in there}
                made += [
                    Cell(dataset, backbone, label + suffix, keys, metric=metric)
                    for suffix, metric in (ways if self.conditioned else ways[:1])
                ]
        return made

    def captions(self, lines: Sequence[Line]) -> tuple[str, ...]:
        made = runs_per_cell(lines)
        return (*self.caption, *([f"{made}."] if made else []))

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        return replace(super().result(store, selection), name=f"{self.name}/{self.metric}")

    def remarks(self, store: ResultStore, selection: Selection) -> list[str]:
        """What the table says of each column, in one sentence."""
        values: dict[str, dict[tuple[str, str], Mapping[Place, float]]] = {}
        for cell in self.cells(selection):
            found = self._sample(store, cell).values
            if found:
                values.setdefault(cell.method, {})[cell.dataset, cell.backbone] = found
        if self.conditioned:
            return _raised(values, float(self.metric[-2:]))
        return _larger(values) if self.metric.startswith("size") else []


def _questions(probabilities: Sequence[str], rules: Sequence[str]) -> dict[str, Question]:
    asked = [Question(Method.of(name), rule) for name, rule in product(probabilities, rules)]
    return {str(question): question for question in asked}


def _raised(values: Values, target: float) -> list[str]:
    """What thresholds for each quarter of the degrees do to the worst, where it lacks coverage."""
    told = []
    for label in [name for name in values if name + BY_DEGREE in values]:
        pairs = zip(values[label].values(), values[label + BY_DEGREE].values(), strict=True)
        means = [[sum(found.values()) / len(found) for found in pair] for pair in pairs]
        gains = [each - one for one, each in means if one <= target - GAP]
        by = f", by {min(gains):.1f} to {max(gains):.1f} points" if gains else ""
        told.append(f"{label} {len(gains)} of {len(means)}{by}")
    if not told:
        return []
    return [
        f"Settings where the worst quarter lacks {GAP:.0f} points or more, and by how much a "
        f"threshold for each quarter raises it: {'; '.join(told)}."
    ]


def _larger(values: Values) -> list[str]:
    """In how many settings sets are larger than the smallest of uncalibrated probabilities."""
    rivals = [label for label in (f"uncalibrated/{name}" for name in BEST_OF) if label in values]
    told = []
    for label, settings in values.items():
        if label in rivals or not rivals:
            continue
        behind = []
        for place, found in settings.items():
            there = [values[rival][place] for rival in rivals if place in values[rival]]
            if there:
                best = min(there, key=lambda sizes: sum(sizes.values()) / len(sizes))
                difference = paired(found, best)
                behind.append(difference is not None and difference.low > 0)
        told.append(f"{label} {sum(behind)} of {len(behind)}")
    if not told:
        return []
    names = ", ".join(rival.split("/")[1] for rival in rivals)
    return [
        f"Larger, by more than noise (95 % interval over splits), than the smallest of {names} on "
        f"uncalibrated probabilities, in settings: {', '.join(told)}."
    ]


TABLES = (DecideTable(),)
