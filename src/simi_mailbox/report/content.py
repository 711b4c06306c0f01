"""Everything a report shows, as numbers; nothing is drawn or worded here."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox import analysis, metrics
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.mailbox import mailbox
from simi_mailbox.metrics.calibration_error import width_index
from simi_mailbox.monitor import Check, Monitor
from simi_mailbox.report.deciding import Decisions, decisions
from simi_mailbox.report.methods import Methods, Outcome, ReportInputs, run_methods
from simi_mailbox.report.one_class import OneClass, one_class
from simi_mailbox.validation import read_positive

BINS = 15
FEW_NODES = 20_000
"""Up to so many test nodes intervals come from 1,000 draws, above from 200: they are narrow."""


@dataclass(frozen=True)
class Scores:
    """Numbers of one view on the test nodes."""

    values: dict[str, float]
    ece: metrics.Interval
    nll: metrics.Interval
    floor: metrics.NoiseFloor


@dataclass(frozen=True, kw_only=True)
class MethodView:
    """The test nodes as one method predicts them; the first view is the uncalibrated model.

    ``key`` is what elements of the page call it, ``label`` what readers do. ``histogram`` counts
    nodes by confidence, ``changed`` test nodes whose predicted class is not the uncalibrated one.
    """

    key: str
    name: str
    label: str
    settings: str
    warnings: tuple[str, ...]
    histogram: Ints
    changed: int
    scores: Scores | None
    curve: metrics.Reliability | None
    heat: analysis.SimilarityConfidence | None
    classes: analysis.Breakdown
    slices: tuple[analysis.Breakdown, ...]
    temperatures: analysis.TemperatureHistogram | None
    groups: analysis.GroupMap | None
    judged: analysis.Judged
    decisions: Decisions | None

    @property
    def confidence(self) -> float:
        return float(self.judged.confidence.mean())

    @property
    def accuracy(self) -> float:
        """Share of test nodes that are right; NaN without labels."""
        return float(self.judged.correct.mean())


@dataclass(frozen=True)
class Content:
    """A whole report; ``check`` tells whether test nodes look like calibration nodes."""

    title: str
    inputs: ReportInputs
    views: tuple[MethodView, ...]
    missing: tuple[str, ...]
    check: Check | None = None
    positive: str = ""
    of_class: tuple[OneClass, ...] = ()

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
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the methods, each with the names of those that gave it."""
        told: dict[str, list[str]] = {}
        for view in self.views:
            for line in view.warnings:
                told.setdefault(line, []).append(view.name)
        return tuple(f"{', '.join(names)}: {line}" for line, names in told.items())


def gather(
    inputs: ReportInputs,
    methods: Methods,
    *,
    title: str,
    seed: int = 0,
    used_for_selection: bool = True,
    positive: int | str | None = None,
    costs: tuple[float, float] | None = None,
    node_names: Any = None,
) -> Content:
    """Run the methods and compute every number of the report."""
    outcomes, left_out = run_methods(inputs, methods, used_for_selection=used_for_selection)
    first, agreement = outcomes[0].probs, None
    if inputs.graph is not None:
        # Predictions before calibration: columns hold the same nodes in every view.
        agreement = analysis.neighbour_agreement(first, inputs.graph)
    views = tuple(
        MethodView(
            key=f"v{k}",
            label="model" if len(outcomes) == 1 else outcome.name,
            decisions=decisions(outcome.probs, inputs, used_for_selection=used_for_selection),
            **_judged(outcome, inputs, first, agreement, seed),
        )
        for k, outcome in enumerate(outcomes)
    )
    name, found = "", []
    if positive is not None:
        column = read_positive(positive, inputs.num_classes, inputs.class_names)
        name, nodes = str(inputs.class_names[column]), inputs.shown
        if inputs.test_labels is not None:
            truth = inputs.test_labels == column
            names = nodes if node_names is None else np.asarray(node_names)[nodes]
            found = [
                one_class(o.name, o.probs[nodes, column], truth, names, costs) for o in outcomes
            ]
    missing, check = (*_missing(inputs), *left_out), _check(inputs, outcomes, seed)
    return Content(title, inputs, views, missing, check, name, tuple(found))


def _judged(
    outcome: Outcome, inputs: ReportInputs, first: Any, agreement: Floats | None, seed: int
) -> dict[str, Any]:
    """What a view shows of the test nodes."""
    probs, y, nodes, graph = outcome.probs, inputs.test_labels, inputs.shown, inputs.graph
    judged = analysis.judge(probs, y, nodes)
    heat = curve = scores = None
    slices: list[analysis.Breakdown] = []
    if graph is not None:
        assert agreement is not None
        heat = analysis.similarity_confidence(probs, y, agreement, nodes=nodes, cell="own")
        slices.append(analysis.by_agreement(probs, y, agreement, nodes=nodes))
        slices.append(analysis.by_degree(probs, y, graph, nodes=nodes))
        if inputs.labelled is not None:
            slices.append(analysis.by_distance(probs, y, graph, inputs.labelled, nodes=nodes))
    if y is not None:
        curve = analysis.reliability_curve(probs, y, nodes=nodes, bins=BINS, seed=seed)
        draws, shown = 1000 if len(y) <= FEW_NODES else 200, probs[nodes]
        ece, nll = (
            metrics.bootstrap_interval(metric, shown, y, draws=draws, seed=seed)
            for metric in (metrics.ece, metrics.nll)
        )
        floor = metrics.noise_floor(shown, seed=seed)
        scores = Scores(metrics.evaluate(shown, y), ece, nll, floor)
    temperatures = outcome.temperatures
    return {
        "name": outcome.name,
        "settings": outcome.settings,
        "warnings": outcome.warnings,
        "histogram": np.bincount(width_index(judged.confidence, BINS), minlength=BINS),
        "changed": int((judged.predicted != first[nodes].argmax(1)).sum()),
        "scores": scores,
        "curve": curve,
        "heat": heat,
        "classes": analysis.by_class(probs, y, nodes=nodes, class_names=inputs.class_names),
        "slices": tuple(slices),
        "temperatures": None
        if temperatures is None
        else analysis.temperature_histogram(temperatures),
        "groups": _groups(outcome, inputs, first),
        "judged": judged,
    }


def _groups(outcome: Outcome, inputs: ReportInputs, first: Any) -> analysis.GroupMap | None:
    cal: Any = outcome.calibrator
    temperatures = outcome.temperatures
    groups = getattr(cal, "groups_", None)
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


def _check(inputs: ReportInputs, outcomes: list[Outcome], seed: int) -> Check | None:
    """The monitor's, of the last `SimiMailbox`; no label of a test node is read for it."""
    fitted = [one.calibrator for one in outcomes if isinstance(one.calibrator, SimiMailbox)]
    if not fitted or inputs.test is None or hasattr(fitted[-1], "hidden_"):
        return None
    given: Any = {"graph": inputs.graph, "nodes": inputs.test, "input_type": "logits"}
    return Monitor(fitted[-1], seed=seed).check(inputs.logits, **given)


NO_LABELS = (
    "No labels were given. Accuracy, calibration error and every gap are unknown; what is shown "
    "needs no label. Pass y (--labels)."
)
NO_TEST_NODES = (
    "No test nodes were named, and no label was read for evaluation: accuracy and calibration "
    "error are unknown, and confidences are those of all nodes. Pass test (--test): labelled "
    "nodes that neither training nor calibration has seen."
)
NO_GRAPH = (
    "No edges were given. Nothing is shown by neighbours, degree or distance. Pass graph (--edges)."
)
NOBODY_LABELLED = (
    "No labelled nodes were named: distance to them is unknown. Pass calibration (--calibration)."
)


def _missing(inputs: ReportInputs) -> list[str]:
    """What the report cannot tell, and what to pass so that it can."""
    labels = NO_LABELS if inputs.labels is None else NO_TEST_NODES
    graph = NO_GRAPH if inputs.graph is None else NOBODY_LABELLED
    judged = inputs.labels is not None and inputs.test is not None
    placed = inputs.graph is not None and inputs.labelled is not None
    return [*([] if judged else [labels]), *([] if placed else [graph])]
