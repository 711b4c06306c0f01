"""What can be decided with a method's probabilities, as numbers."""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simi_mailbox import analysis, metrics
from simi_mailbox._arrays import Ints
from simi_mailbox.decide import PredictionSets
from simi_mailbox.decide.accept import candidate_thresholds, count_errors, lowest_threshold
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.metrics.sets import binomial_interval
from simi_mailbox.report.methods import ReportInputs

ALLOWED = tuple(k / 100 for k in range(1, 31))
"""Error rates that the slider stops at."""
CONFIDENCE = 0.9
COVERAGE = 0.9
SCORE = "aps"
MOST_SLICES = 12


class Share(NamedTuple):
    """A share of nodes with its exact 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, hits: Any) -> "Share | None":
        """Of a boolean array; None if it is empty."""
        if not hits.size:
            return None
        low, high = binomial_interval(np.array([hits.sum()]), np.array([hits.size]))
        return cls(float(hits.mean()), float(low[0]), float(high[0]))


@dataclass(frozen=True)
class Acceptance:
    """What an error rate of at most ``allowed`` lets accept, of the nodes shown.

    ``threshold`` is infinite where nothing is guaranteed; ``wrong`` is None without labels.
    ``hidden`` are classes rarer than the allowed errors: name, how many of the calibration nodes of
    each are accepted as another class, and how many there are.
    """

    allowed: float
    threshold: float
    accepted: int
    shown: int
    wrong: Share | None
    hidden: tuple[tuple[str, int, int], ...] = ()

    @property
    def share(self) -> float:
        return self.accepted / self.shown

    @property
    def deferred(self) -> int:
        """Nodes that need review."""
        return self.shown - self.accepted


@dataclass(frozen=True)
class Sets:
    """Prediction sets of the nodes shown; ``covered`` and ``slices`` are for known labels."""

    target: float
    size: float
    single: float
    covered: Share | None
    slices: tuple[analysis.CoverageBreakdown, ...]


@dataclass(frozen=True)
class Decisions:
    """All of it, and what an error among the calibration nodes counted for."""

    acceptances: tuple[Acceptance, ...]
    sets: Sets
    error_weight: float
    labels: int


def decisions(probs: Any, inputs: ReportInputs, *, used_for_selection: bool) -> Decisions | None:
    """What can be decided; None without labels to calibrate with."""
    nodes, labels = inputs.calibration, inputs.labels
    if nodes is None or labels is None or not nodes.size:
        return None
    rule = PredictionSets(coverage=COVERAGE, score=SCORE)
    with warnings.catch_warnings():  # too few labels are told in words
        warnings.simplefilter("ignore", CalibrationWarning)
        rule.fit(probs, labels, mask=nodes, used_for_selection=used_for_selection)
        made = _sets(rule.predict_sets(probs), probs, inputs)
    accepted = _acceptances(probs, inputs, nodes, labels[nodes], rule.error_weight_)
    return Decisions(accepted, made, rule.error_weight_, nodes.size)


def _acceptances(
    probs: Any, inputs: ReportInputs, calibration: Ints, labels: Ints, weight: float
) -> tuple[Acceptance, ...]:
    """What `Accept` accepts at every error rate; nodes are sorted and counted once for all."""
    nodes, y, k = inputs.shown, inputs.test_labels, inputs.num_classes
    top, predicted = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1)
    others = np.delete(top, calibration)
    limits = candidate_thresholds(others if others.size else top)
    missed = predicted[calibration] != labels
    counted = count_errors(top[calibration], missed, limits)
    wrong = None if y is None else predicted[nodes] != y
    sizes, made = np.bincount(labels, minlength=k), []
    for allowed in ALLOWED:
        best, _ = lowest_threshold(*counted, allowed / weight, 1.0 - CONFIDENCE)
        limit = np.inf if best is None else float(limits[best])
        taken = top[nodes] >= limit
        found = None if wrong is None else Share.of(wrong[taken])
        # Classes that could all be missed at this error rate: the two of which most are.
        lost = np.bincount(labels[missed & (top[calibration] >= limit)], minlength=k)
        rare = np.flatnonzero((sizes < allowed * len(labels)) & (lost > 0))
        worst = rare[np.argsort(-lost[rare] / sizes[rare], kind="stable")][:2]
        hidden = tuple((inputs.class_names[c], int(lost[c]), int(sizes[c])) for c in worst)
        made.append(Acceptance(allowed, limit, int(taken.sum()), len(nodes), found, hidden))
    return tuple(made)


def opening_step(steps: tuple[Acceptance, ...]) -> int:
    """Where the slider starts: the least error rate that accepts half of the nodes, or the most."""
    return int(np.argmax([min(step.share, 0.5) for step in steps]))


def _sets(sets: Any, probs: Any, inputs: ReportInputs) -> Sets:
    shown, y = inputs.shown, inputs.test_labels
    kinds: list[Any] = []
    if y is not None and y.size:
        if inputs.graph is not None:
            kinds += ["degree", "mailbox"]
        if inputs.num_classes <= MOST_SLICES:
            kinds += ["class", "size"]
    given: dict[str, Any] = {
        "nodes": shown,
        "graph": inputs.graph,
        "class_names": inputs.class_names,
    }
    slices = tuple(analysis.covered_by(by, sets, y, probs=probs, **given) for by in kinds)
    return Sets(
        target=COVERAGE,
        size=metrics.mean_set_size(sets[shown]),
        single=metrics.singleton_share(sets[shown]),
        covered=None if y is None else Share.of(metrics.sets.covered(sets[shown], y)),
        slices=slices,
    )
