"""Everything a report shows, as numbers; nothing is drawn or worded here."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simi_mailbox import analysis, metrics
from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.decide import PredictionSets
from simi_mailbox.decide.thresholds import candidate_thresholds, count_errors, lowest_threshold
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.mailbox import mailbox
from simi_mailbox.metrics.calibration_error import width_index
from simi_mailbox.metrics.sets import binomial_interval, covered
from simi_mailbox.monitor import Check, Monitor
from simi_mailbox.report.methods import Methods, Outcome, ReportInputs, run_methods
from simi_mailbox.validation import read_positive

Costs = tuple[float, float]
BINS = 15
FEW_NODES = 20_000
"""Up to so many test nodes intervals come from 1,000 draws, above from 200: they are narrow."""
ALLOWED = tuple(k / 100 for k in range(1, 31))
"""Error rates that the slider stops at."""
CONFIDENCE = COVERAGE = 0.9
MOST_SLICES = 12
TOP, CURVE = 10, 400
"""Nodes of highest probability that are listed; points of a precision–recall curve."""


class Scores(NamedTuple):
    """Numbers of one view on the test nodes."""

    values: dict[str, float]
    ece: metrics.Interval
    nll: metrics.Interval
    floor: metrics.NoiseFloor


class Share(NamedTuple):
    """A share of nodes with its exact 95 % interval."""

    value: float
    low: float
    high: float


def share_of(hits: Bools) -> Share | None:
    """Share of a boolean array that is true; None if it is empty."""
    if not hits.size:
        return None
    low, high = binomial_interval(np.array(hits.sum()), np.array(hits.size))
    return Share(float(hits.mean()), float(low), float(high))


class MethodView:
    """The test nodes as one method predicts them; the first view is the uncalibrated model.

    ``key`` and ``label`` are its names for the page and for readers; ``histogram`` counts nodes by
    confidence, ``changed`` those whose predicted class is not the uncalibrated one.
    """

    def __init__(
        self,
        k: int,
        outcomes: list[Outcome],
        inputs: ReportInputs,
        used_for_selection: bool,
        seed: int,
    ) -> None:
        outcome, first, y, nodes = outcomes[k], outcomes[0].probs, inputs.test_labels, inputs.shown
        probs, temperatures = outcome.probs, outcome.temperatures
        given: Any = {"nodes": nodes}
        self.key, self.name = f"v{k}", outcome.name
        self.label = "model" if len(outcomes) == 1 else outcome.name
        self.settings, self.warnings = outcome.settings, outcome.warnings
        self.judged = analysis.judge(probs, y, nodes)
        self.histogram = np.bincount(width_index(self.judged.confidence, BINS), minlength=BINS)
        self.changed = int((self.judged.predicted != first[nodes].argmax(1)).sum())
        self.classes = analysis.by_class(probs, y, class_names=inputs.class_names, **given)
        self.heat: analysis.SimilarityConfidence | None = None
        self.slices: list[analysis.Breakdown] = []
        if inputs.graph is not None:
            # Of predictions before calibration: columns hold the same nodes in every view.
            agreement = analysis.neighbour_agreement(first, inputs.graph)
            near = (probs, y, inputs.graph)
            self.heat = analysis.similarity_confidence(probs, y, agreement, cell="own", **given)
            self.slices.append(analysis.by_agreement(probs, y, agreement, **given))
            self.slices.append(analysis.by_degree(*near, **given))
            if inputs.labelled is not None:
                self.slices.append(analysis.by_distance(*near, inputs.labelled, **given))
        self.curve: metrics.Reliability | None = None
        self.scores: Scores | None = None
        if y is not None:
            self.curve = analysis.reliability_curve(probs, y, bins=BINS, seed=seed, **given)
            draws, shown = 1000 if len(y) <= FEW_NODES else 200, probs[nodes]
            often: Any = {"draws": draws, "seed": seed}
            ece = metrics.bootstrap_interval(metrics.ece, shown, y, **often)
            nll = metrics.bootstrap_interval(metrics.nll, shown, y, **often)
            floor = metrics.noise_floor(shown, seed=seed)
            self.scores = Scores(metrics.evaluate(shown, y), ece, nll, floor)
        self.temperatures: analysis.TemperatureHistogram | None = None
        if temperatures is not None:
            self.temperatures = analysis.temperature_histogram(temperatures)
        self.groups = _groups(outcome, inputs, first)
        self.decisions: Decisions | None = None
        if inputs.calibration is not None and inputs.labels is not None:
            self.decisions = Decisions(probs, inputs, used_for_selection=used_for_selection)

    @property
    def confidence(self) -> float:
        return float(self.judged.confidence.mean())

    @property
    def accuracy(self) -> float:
        """Share of test nodes that are right; NaN without labels."""
        return float(self.judged.correct.mean())


def _groups(outcome: Outcome, inputs: ReportInputs, first: Any) -> analysis.GroupMap | None:
    cal: Any = outcome.calibrator
    groups, temperatures = getattr(cal, "groups_", None), outcome.temperatures
    if groups is None or inputs.graph is None or len(groups) != inputs.num_nodes:
        return None  # groups of another graph are not groups of these nodes
    similarity = getattr(cal, "similarity_", None)
    if similarity is None:
        similarity = mailbox(inputs.logits, inputs.graph).double().numpy()
    return analysis.group_map(
        groups,
        first,
        outcome.probs,
        similarity=similarity,
        temperatures=cal.temperatures_[groups] if temperatures is None else temperatures,
        calibration=inputs.calibration,
        y=inputs.test_labels,
        nodes=inputs.shown,
    )


@dataclass(frozen=True)
class Acceptance:
    """What an error rate of at most ``allowed`` lets accept, of the nodes shown.

    ``threshold`` is infinite where nothing is guaranteed. ``hidden`` are classes rarer than the
    allowed errors: name, calibration nodes of it accepted as another class, and of how many.
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


class Decisions:
    """Accepted nodes by error rate, and prediction sets of the nodes shown: their mean ``size``,
    the share of single classes, and their coverage in ``slices``."""

    def __init__(self, probs: Any, inputs: ReportInputs, *, used_for_selection: bool) -> None:
        calibration: Any = inputs.calibration
        labels: Any = inputs.labels
        nodes, y, graph = inputs.shown, inputs.test_labels, inputs.graph
        rule = PredictionSets(coverage=COVERAGE, score="aps")
        with warnings.catch_warnings():  # too few labels are told in words
            warnings.simplefilter("ignore", CalibrationWarning)
            rule.fit(probs, labels, mask=calibration, used_for_selection=used_for_selection)
            sets = rule.predict_sets(probs)
        self.error_weight, self.labels = rule.error_weight_, calibration.size
        self.acceptances = _acceptances(probs, inputs, labels[calibration], self.error_weight)
        self.size = metrics.mean_set_size(sets[nodes])
        self.single = metrics.singleton_share(sets[nodes])
        self.covered = None if y is None else share_of(covered(sets[nodes], y))
        kinds: list[Any] = []
        if y is not None:
            kinds += ["degree", "mailbox"] if graph is not None else []
            kinds += ["class", "size"] if inputs.num_classes <= MOST_SLICES else []
        given: Any = {"nodes": nodes, "graph": graph, "class_names": inputs.class_names}
        self.slices = [analysis.covered_by(by, sets, y, probs=probs, **given) for by in kinds]


def _acceptances(probs: Any, inputs: ReportInputs, labels: Any, weight: float) -> list[Acceptance]:
    """What `Accept` accepts at every error rate; nodes are sorted and counted once for all."""
    nodes, y, k = inputs.shown, inputs.test_labels, inputs.num_classes
    calibration: Any = inputs.calibration
    top, predicted = probs.max(axis=1).astype(np.float64), probs.argmax(axis=1)
    others = np.delete(top, calibration)
    limits = candidate_thresholds(others if others.size else top)
    missed = predicted[calibration] != labels
    counted = count_errors(top[calibration], missed, limits)
    sizes, made = np.bincount(labels, minlength=k), []
    for allowed in ALLOWED:
        best, _ = lowest_threshold(*counted, allowed / weight, 1.0 - CONFIDENCE)
        limit = np.inf if best is None else float(limits[best])
        taken = top[nodes] >= limit
        found = None if y is None else share_of((predicted[nodes] != y)[taken])
        # Classes that could all be missed at this error rate: the two of which most are.
        lost = np.bincount(labels[missed & (top[calibration] >= limit)], minlength=k)
        rare = np.flatnonzero((sizes < allowed * len(labels)) & (lost > 0))
        worst = rare[np.argsort(-lost[rare] / sizes[rare], kind="stable")][:2]
        hidden = tuple((inputs.class_names[c], int(lost[c]), int(sizes[c])) for c in worst)
        made.append(Acceptance(allowed, limit, int(taken.sum()), len(nodes), found, hidden))
    return made


class OneClass:
    """The test nodes by P(class) of one method; ``costs`` are of a miss and of a review.

    ``at`` is what nodes with P(class) ≥ ``threshold`` hold, ``top`` what the ``expected`` number of
    nodes of highest P hold; ``highest`` are names, P and truth of the first of these.
    """

    def __init__(
        self, name: str, p: Floats, is_class: Bools, names: Any, costs: Costs | None = None
    ) -> None:
        self.name, self.expected = name, float(p.sum())
        self.threshold = 0.5 if costs is None else min(costs[1] / costs[0], 1.0)
        self.at = at = metrics.alerts(p, is_class, threshold=self.threshold)
        self.missed = round(at.positives - at.hits)
        self.cost = None if costs is None else np.dot(costs, (at.positives - at.hits, at.alerts))
        most = min(max(round(self.expected), 1), len(p))
        self.top = metrics.alerts(p, is_class, top=most)
        self.ece = metrics.class_ece(p, is_class)
        self.precision = metrics.average_precision(p, is_class)
        self.nll = -np.log(np.maximum(np.where(is_class, p, 1 - p), 1e-300))
        order = np.argsort(-p, kind="stable")
        self.highest = [(str(names[k]), float(p[k]), bool(is_class[k])) for k in order[:TOP]]
        hits = np.cumsum(is_class[order])
        last = np.flatnonzero(np.r_[np.diff(p[order]) != 0, True])
        last = last[np.linspace(0, len(last) - 1, min(CURVE, len(last))).astype(int)]
        self.curve = hits[last] / max(hits[-1], 1), hits[last] / (last + 1)


@dataclass(frozen=True)
class Content:
    """A whole report; ``check`` tells whether test nodes look like calibration nodes."""

    title: str
    inputs: ReportInputs
    views: list[MethodView]
    missing: list[str]
    check: Check | None
    positive: str
    of_class: list[OneClass]

    @property
    def has_labels(self) -> bool:
        return self.before.scores is not None

    @property
    def before(self) -> MethodView:
        return self.views[0]

    @property
    def after(self) -> MethodView:
        """The last method: the page opens with it."""
        return self.views[-1]

    @property
    def warnings(self) -> list[str]:
        """Warnings of the methods, each with the names of those that gave it."""
        told: dict[str, list[str]] = {}
        for view in self.views:
            for line in view.warnings:
                told.setdefault(line, []).append(view.name)
        return [f"{', '.join(names)}: {line}" for line, names in told.items()]


def gather(
    inputs: ReportInputs,
    methods: Methods,
    *,
    title: str,
    seed: int = 0,
    used_for_selection: bool = True,
    positive: int | str | None = None,
    costs: Costs | None = None,
    node_names: Any = None,
) -> Content:
    """Run the methods and compute every number of the report."""
    outcomes, left_out = run_methods(inputs, methods, used_for_selection=used_for_selection)
    given = (outcomes, inputs, used_for_selection, seed)
    views = [MethodView(k, *given) for k in range(len(outcomes))]
    name, found, nodes = "", [], inputs.shown
    if positive is not None:
        column = read_positive(positive, inputs.num_classes, inputs.class_names)
        name = str(inputs.class_names[column])
        if inputs.test_labels is not None:
            truth = inputs.test_labels == column
            names = nodes if node_names is None else np.asarray(node_names)[nodes]
            shown = ((one.name, one.probs[nodes, column]) for one in outcomes)
            found = [OneClass(who, p, truth, names, costs) for who, p in shown]
    missing, check = [*_missing(inputs), *left_out], _check(inputs, outcomes, seed)
    return Content(title, inputs, views, missing, check, name, found)


def _check(inputs: ReportInputs, outcomes: list[Outcome], seed: int) -> Check | None:
    """The monitor's, of the last `SimiMailbox`; no label of a test node is read for it."""
    fitted = [one.calibrator for one in outcomes if isinstance(one.calibrator, SimiMailbox)]
    if not fitted or inputs.test is None or hasattr(fitted[-1], "hidden_"):
        return None
    given: Any = {"graph": inputs.graph, "nodes": inputs.test, "input_type": "logits"}
    return Monitor(fitted[-1], seed=seed).check(inputs.logits, **given)


def _missing(inputs: ReportInputs) -> Iterator[str]:
    """What the report cannot tell, and what to pass so that it can."""
    if inputs.labels is None:
        yield (
            "No labels were given. Accuracy, calibration error and every gap are unknown; what is "
            "shown needs no label. Pass y (--labels)."
        )
    elif inputs.test is None:
        yield (
            "No test nodes were named, and no label was read for evaluation: accuracy and "
            "calibration error are unknown, and confidences are those of all nodes. Pass test "
            "(--test): labelled nodes that neither training nor calibration has seen."
        )
    if inputs.graph is None:
        yield (
            "No edges were given. Nothing is shown by neighbours, degree or distance. Pass graph "
            "(--edges)."
        )
    elif inputs.labelled is None:
        yield (
            "No labelled nodes were named: distance to them is unknown. Pass calibration "
            "(--calibration)."
        )
