"""What can be decided with a method's probabilities, as numbers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox import analysis, metrics
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


@dataclass(frozen=True)
class Share:
    """A share of nodes with its exact 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, hits: Any) -> Share | None:
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
    if inputs.calibration is None or inputs.labels is None or not inputs.calibration.size:
        return None
    rule = PredictionSets(coverage=COVERAGE, score=SCORE)
    with warnings.catch_warnings():  # too few labels are told in words
        warnings.simplefilter("ignore", CalibrationWarning)
        rule.fit(
            probs, inputs.labels, mask=inputs.calibration, used_for_selection=used_for_selection
        )
        made = _sets(rule.predict_sets(probs), probs, inputs)
    accepted = _acceptances(probs, inputs, rule.error_weight_)
    return Decisions(accepted, made, rule.error_weight_, inputs.calibration.size)


def _acceptances(probs: Any, inputs: ReportInputs, weight: float) -> tuple[Acceptance, ...]:
    """What `Accept` accepts at every error rate; nodes are sorted and counted once for all."""
    assert inputs.calibration is not None
    assert inputs.labels is not None
    nodes, y, calibration = inputs.shown, inputs.test_labels, inputs.calibration
    top, predicted = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1)
    others = np.delete(top, calibration)
    limits = candidate_thresholds(others if others.size else top)
    missed = predicted[calibration] != inputs.labels[calibration]
    counted = count_errors(top[calibration], missed, limits)
    wrong = None if y is None else predicted[nodes] != y
    made = []
    for allowed in ALLOWED:
        best, _ = lowest_threshold(*counted, allowed / weight, 1.0 - CONFIDENCE)
        limit = np.inf if best is None else float(limits[best])
        taken = top[nodes] >= limit
        found = None if wrong is None else Share.of(wrong[taken])
        hidden = _hidden(inputs, allowed, missed & (top[calibration] >= limit))
        made.append(Acceptance(allowed, limit, int(taken.sum()), len(nodes), found, hidden))
    return tuple(made)


def _hidden(inputs: ReportInputs, allowed: float, lost: Any) -> tuple[tuple[str, int, int], ...]:
    """Classes that could all be missed at an error rate: the two of which most are."""
    assert inputs.labels is not None
    y, k, names = inputs.labels[inputs.calibration], inputs.num_classes, inputs.class_names
    of, missed = np.bincount(y, minlength=k), np.bincount(y[lost], minlength=k)
    rare = np.flatnonzero((of > 0) & (of < allowed * len(y)) & (missed > 0))
    worst = rare[np.argsort(-missed[rare] / of[rare], kind="stable")][:2]
    told = [f"class {c}" if names is None else str(names[c]) for c in worst]
    return tuple(zip(told, missed[worst].tolist(), of[worst].tolist(), strict=True))


def opening_step(steps: tuple[Acceptance, ...]) -> int:
    """Where the slider starts: the least error rate that accepts half of the nodes.

    Where none does, the one that accepts the most.
    """
    half = [k for k, step in enumerate(steps) if step.share >= 0.5]
    return half[0] if half else int(np.argmax([step.share for step in steps]))


def _sets(sets: Any, probs: Any, inputs: ReportInputs) -> Sets:
    shown, y = inputs.shown, inputs.test_labels
    slices: list[analysis.CoverageBreakdown] = []
    if y is not None and y.size:
        if inputs.graph is not None:
            slices.append(analysis.covered_by_degree(sets, y, inputs.graph, nodes=shown))
            slices.append(analysis.covered_by_mailbox(sets, y, probs, inputs.graph, nodes=shown))
        if inputs.num_classes <= MOST_SLICES:
            names = inputs.class_names
            slices.append(analysis.covered_by_class(sets, y, nodes=shown, class_names=names))
            slices.append(analysis.covered_by_size(sets, y, nodes=shown))
    return Sets(
        target=COVERAGE,
        size=metrics.mean_set_size(sets[shown]),
        single=metrics.singleton_share(sets[shown]),
        covered=None if y is None else Share.of(metrics.sets.covered(sets[shown], y)),
        slices=tuple(slices),
    )
