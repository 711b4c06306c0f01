"""The table of decisions: coverage and size of sets, and errors among the accepted."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from simi_mailbox import decide, metrics
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import leave_out, resolve
from simi_mailbox.decide.scores import (
    APS,
    DAPS,
    LAC,
    RAPS,
    SNAPS,
    Score,
    ScoredNodes,
    similar_nodes,
)
from simi_mailbox.decide.sets import degree_groups, group_quantiles, node_weights, quantile_edges
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.validation import read_features
from simi_mailbox_bench.backbones.cached_runs import RunKey, digest, load_logits, runs
from simi_mailbox_bench.calibration import (
    CachedRunUnit,
    probabilities,
    probabilities_cross_fitted,
    rounded,
)
from simi_mailbox_bench.datasets import load
from simi_mailbox_bench.methods import Method, find
from simi_mailbox_bench.runner import Unit
from simi_mailbox_bench.store import ResultStore, Row
from simi_mailbox_bench.tables.base import Cell, Selection, Table, TableResult, selected
from simi_mailbox_bench.tables.calibration import DATA

REVISION = 2
"""Raised when what a row holds is computed in another way."""
LEVELS = (0.9, 0.95)
DRAWS = 20
"""Samples of unselected calibration nodes; one of 134 moves the coverage by 2.6 points."""
FOLDS = 5
"""Parts of the validation nodes, each looked at where its labels are not known."""
DEGREE_GROUPS = 4
MAX_ERROR, CONFIDENCE = 0.05, 0.9
ACCEPT = "accept"
SCORES: dict[str, Score] = {score.name: score for score in (LAC(), APS(), RAPS(), DAPS(), SNAPS())}
DIGITS = 5


@dataclass(frozen=True)
class Question:
    """A method's probabilities, and what is made of them: sets by a score, or acceptance."""

    method: Method
    rule: str

    def __str__(self) -> str:
        return f"{self.method}/{self.rule}"


@dataclass(frozen=True)
class DecideUnit(CachedRunUnit):
    """Decide on the probabilities of one run in several ways, and judge on its test nodes.

    *Plain*: thresholds from the validation nodes, which have also chosen the checkpoint.
    *Corrected*: the same, an error counting for as much as graphs of other families have shown.
    *Crossfit*: corrected, and each of these nodes as a fit without its label sees the graph.
    *Unselected*: as many test nodes, drawn at random, `DRAWS` times; judged are the others.
    """

    items: tuple[Question, ...]

    def identity(self, item: Question) -> dict[str, Any]:
        return {
            **self.run_identity(),
            **item.method.identity(self.run),
            "measure": "decide",
            "rule": item.rule if item.rule == ACCEPT else SCORES[item.rule].to_dict(),
            "measure_revision": REVISION,
            "error_free_labels": rounded(_error_free_labels(self.run.dataset), DIGITS),
        }

    def prepare(self) -> Prepared:
        return Prepared(self.run, load_logits(self.run))

    def measure(self, item: Question, prepared: Prepared) -> Row:
        with warnings.catch_warnings():  # too few labels show in what is measured
            warnings.simplefilter("ignore", CalibrationWarning)
            probs = prepared.probabilities(item.method)
            rule = _acceptance if item.rule == ACCEPT else _sets
            found = rule(item, probs, prepared)
        source = prepared.source
        return {
            **found,
            "nodes": {"calibration": len(source.split.val), "test": len(source.split.test)},
            "logits": digest(source.logits),
        }


class Prepared:
    """A run, and the probabilities that were made of it so far."""

    def __init__(self, run: RunKey, source: Any) -> None:
        self.run, self.source = run, source
        self.y: Ints = source.dataset.y
        self.prior = leave_out(run.dataset)
        self.probabilities = functools.cache(lambda method: probabilities(run, method, source))
        self.cross_fitted = functools.cache(self._cross_fitted)
        self.redrawn: list[tuple[str, Ints, Ints]] = []

    def _cross_fitted(self, method: Method) -> list[tuple[Ints, Floats]] | None:
        """Parts of the validation nodes, each with probabilities of a fit without its labels."""
        if "known" not in find(method.name).optional_inputs:
            return None
        return probabilities_cross_fitted(self.run, method, self.source, FOLDS)

    def samples(self, method: Method) -> Iterator[tuple[str, Ints, Ints]]:
        """Kind of calibration nodes, these nodes, and the nodes to judge on."""
        split = self.source.split
        yield "plain", split.val, split.test
        yield "corrected", split.val, split.test
        if self.cross_fitted(method) is not None:
            yield "crossfit", split.val, split.test
        if not self.redrawn:
            rng = np.random.default_rng([16, self.run.split, self.run.fold])
            for _ in range(DRAWS):
                drawn = rng.permutation(split.test)
                count = len(split.val)
                self.redrawn.append(("unselected", np.sort(drawn[:count]), np.sort(drawn[count:])))
        yield from self.redrawn


def _sets(item: Question, probs: Floats, prepared: Prepared) -> Row:
    """Thresholds as `PredictionSets` finds them, of scores that are worked out once."""
    graph, y = prepared.source.dataset.graph, prepared.y
    scores = _scores(item.rule, probs, prepared)
    own = scores[np.arange(len(y)), y.clip(min=0)]
    group = degree_groups(graph, quantile_edges(graph.degree.numpy(), DEGREE_GROUPS))
    wrong = probs.argmax(axis=1) != y
    own_crossfit, wrong_crossfit = own.copy(), wrong.copy()
    for nodes, seen in prepared.cross_fitted(item.method) or ():
        own_crossfit[nodes] = _scores(item.rule, seen, prepared)[nodes, y[nodes]]
        wrong_crossfit[nodes] = seen[nodes].argmax(axis=1) != y[nodes]
    prior = resolve(prepared.prior)
    hits: dict[str, list[Floats]] = {}
    numbers: dict[str, list[float]] = {}
    for (kind, nodes, judged), level in product(prepared.samples(item.method), LEVELS):
        weights = None
        crossfit = kind == "crossfit"
        shown = own_crossfit if crossfit else own
        if crossfit or kind == "corrected":
            errors = (wrong_crossfit if crossfit else wrong)[nodes]
            weights = node_weights(errors, prior.error_weight(len(nodes)))
        there = np.bincount(group[judged], minlength=DEGREE_GROUPS)
        for by_degree in (False,) if kind == "plain" else (False, True):
            part = group[nodes] if by_degree else np.zeros(len(nodes), dtype=np.int64)
            parts = DEGREE_GROUPS if by_degree else 1
            limits = group_quantiles(shown[nodes], part, parts, level, weights)
            limit = np.broadcast_to(limits, DEGREE_GROUPS)[group[judged]]
            inside = own[judged] <= limit
            covered = np.bincount(group[judged], inside, minlength=DEGREE_GROUPS)
            where = f"{kind}_{level * 100:.0f}" + ("_by_degree" if by_degree else "")
            with np.errstate(invalid="ignore"):
                hits.setdefault(where, []).append(covered / there)
            classes = np.count_nonzero(scores[judged] <= limit[:, None])
            numbers.setdefault(f"coverage_{where}", []).append(float(inside.mean()))
            numbers.setdefault(f"size_{where}", []).append(classes / len(judged))
    values = {name: float(np.mean(found)) for name, found in numbers.items()}
    # Over the draws first: the least of several noisy groups would else be least by chance.
    for where, found in hits.items():
        values[f"worst_{where}"] = float(np.nanmin(np.mean(found, axis=0)))
    return {"metrics": {name: rounded(value, DIGITS) for name, value in values.items()}}


def _acceptance(item: Question, probs: Floats, prepared: Prepared) -> Row:
    y, test = prepared.y, prepared.source.split.test
    curve = metrics.risk_coverage(probs[test], y[test])
    values = {"aurc": curve.aurc, "excess_aurc": curve.excess_aurc}
    values["error_at_80"] = curve.risk_at(0.8)
    numbers: dict[str, list[float]] = {}
    for kind, nodes, judged in prepared.samples(item.method):
        rule = decide.Accept(
            max_error=MAX_ERROR,
            confidence=CONFIDENCE,
            prior=prepared.prior if kind in ("corrected", "crossfit") else None,
        )
        parts = prepared.cross_fitted(item.method) if kind == "crossfit" else None
        rule.fit(probs, y, mask=nodes, used_for_selection=kind != "unselected", cross_fitted=parts)
        taken = rule.accepts(probs)[judged]
        wrong = (probs[judged].argmax(axis=1) != y[judged])[taken]
        error = float(wrong.mean()) if wrong.size else 0.0
        numbers.setdefault(f"accepted_{kind}", []).append(float(taken.mean()))
        numbers.setdefault(f"broken_{kind}", []).append(float(error > MAX_ERROR))
    values |= {name: float(np.mean(found)) for name, found in numbers.items()}
    return {"metrics": {name: rounded(value, DIGITS) for name, value in values.items()}}


def _scores(name: str, probs: Floats, prepared: Prepared) -> Floats:
    dataset = prepared.source.dataset
    score, rows = SCORES[name], slice(0, len(probs))
    nodes = ScoredNodes(probs, dataset.graph)
    if isinstance(score, SNAPS):
        matrix = _similar(dataset.name, score.k)
        own = score.base.prepare(nodes)(rows)
        return score.mixed(own, dataset.graph, lambda part: matrix[part])(rows)
    return score.prepare(nodes)(rows)


@functools.lru_cache(maxsize=1)
def _similar(dataset: str, k: int) -> Any:
    """Nodes of similar features; a minute's work on some graphs, and the same for all runs."""
    x = load(dataset).x
    return similar_nodes(read_features(x, x.shape[0]), k)(slice(0, x.shape[0]))


def _error_free_labels(dataset: str) -> float:
    """Calibration nodes that could not be wrong, by the prior without the dataset's family."""
    return resolve(leave_out(dataset)).error_free_labels


METHODS = ("uncalibrated", "temperature", "gats", "simi-mailbox")
USES_NEIGHBOURING_LABELS = "simi-mailbox"
"""The method that uses labels of neighbouring nodes."""
BY_DEGREE = " by degree"

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


@dataclass(frozen=True, kw_only=True)
class DecideTable(Table):
    """A grid (graph, backbone) × (probabilities, rule) of one number of the rows."""

    questions: tuple[Question, ...]
    datasets: tuple[str, ...] = tuple(DATA["shared"]["seven"])
    metrics: tuple[str, ...] = METRICS
    tells_runs: bool = True

    def with_metric(self, metric: str) -> DecideTable:
        return decide_table(metric)

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(map(str, self.questions))

    def units(self, selection: Selection) -> list[Unit]:
        """The rows of all metrics, if no column is named: they share their fits."""
        every = selection.methods is None
        table = replace(self, questions=_questions(METHODS, (*SCORES, ACCEPT))) if every else self
        return Table.units(table, selection)

    def cells(self, selection: Selection) -> list[Cell]:
        chosen = selected(selection.methods, self.methods)
        ways = {"": self.metric}
        if self.metric.startswith("worst"):
            ways[BY_DEGREE] = f"{self.metric}_by_degree"
        made = []
        for place in self.places(selection):
            found = runs(*place, "folds", selection.runs or DATA["default"]["default_runs"])
            units = {run.place: DecideUnit(run, ()) for run in found}
            made += [
                Cell(*place, f"{question}{suffix}", question, units, metric=metric)
                for question in self.questions
                if str(question) in chosen
                for suffix, metric in ways.items()
            ]
        return made

    def result(self, store: ResultStore, selection: Selection) -> TableResult:
        return replace(super().result(store, selection), name=f"{self.name}/{self.metric}")


def decide_table(metric: str = METRICS[0]) -> DecideTable:
    """The table of one metric: what it shows, and of which probabilities and rules."""
    measure, kind, level, *_ = (*metric.split("_"), "", "")
    crossfit = kind == "crossfit"
    scores = ("lac", "aps", "daps") if measure == "worst" else tuple(SCORES)
    return DecideTable(
        name="decide",
        metric=metric,
        shows=MEASURES[measure].format(level=level) + (f", {KINDS[kind]}" if kind else ""),
        caption=(CROSSFIT,) if crossfit else (HOW,) if kind else (),
        target=float(level) if measure == "coverage" else None,
        digits={"size": 3, "aurc": 2}.get(measure, 1),
        unit="classes" if measure == "size" else "percent",
        baseline=f"uncalibrated/{ACCEPT}" if measure in ("aurc", "accepted") else None,
        questions=_questions(
            (USES_NEIGHBOURING_LABELS,) if crossfit else METHODS, scores if level else (ACCEPT,)
        ),
    )


def _questions(probabilities: Sequence[str], rules: Sequence[str]) -> tuple[Question, ...]:
    return tuple(Question(Method.of(name), rule) for name, rule in product(probabilities, rules))


TABLES = (decide_table(),)
