"""Everything a report shows, as numbers; nothing is drawn or worded here."""

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox import __version__, analysis, metrics
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators import SimiMailbox
from simi_mailbox.mailbox import mailbox
from simi_mailbox.metrics.calibration_error import width_index
from simi_mailbox.monitor import Check, Monitor
from simi_mailbox.report.deciding import Decisions, decisions
from simi_mailbox.report.methods import (
    Methods,
    Outcome,
    ReportInputs,
    node_temperatures,
    run_methods,
)
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


@dataclass(frozen=True)
class MethodView:
    """The test nodes as one method predicts them; the first view is the uncalibrated model.

    ``key`` is what elements of the page call it, ``histogram`` counts nodes by confidence,
    ``changed`` test nodes whose predicted class is not the uncalibrated one.
    """

    key: str
    name: str
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
        """Mean confidence."""
        return float(self.judged.confidence.mean())

    @property
    def accuracy(self) -> float:
        """Share of test nodes that are right; NaN without labels."""
        return float(self.judged.correct.mean())


@dataclass(frozen=True)
class Content:
    """A whole report.

    Examples
    --------
    >>> from simi_mailbox.report import gather, read_inputs
    >>> logits, y = [[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [3.0, 0.0]], [0, 1, 1, 0]
    >>> content = gather(read_inputs(logits, y=y, test=range(4)), [], title="Mine")
    >>> content.title, [view.name for view in content.views]
    ('Mine', ['uncalibrated'])
    """

    title: str
    inputs: ReportInputs
    views: tuple[MethodView, ...]
    missing: tuple[str, ...]
    positive: str = ""
    of_class: tuple[OneClass, ...] = ()
    check: Check | None = None
    """Whether the test nodes look like the calibration nodes, if a `SimiMailbox` was fitted."""

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
    """Run the methods and compute every number of the report.

    Examples
    --------
    >>> from simi_mailbox.report import read_inputs
    >>> content = gather(read_inputs([[2.0, 0.0], [0.0, 1.0]]), [], title="No labels")
    >>> content.has_labels, content.missing[0][:21]
    (False, 'No labels were given.')
    """
    outcomes, missing = run_methods(inputs, methods, used_for_selection=used_for_selection)
    gatherer = _Gatherer(inputs, outcomes[0].probs, seed, used_for_selection)
    views = tuple(gatherer.view(f"v{k}", outcome) for k, outcome in enumerate(outcomes))
    missing, check = [*_missing(inputs), *missing], _check(inputs, outcomes, seed)
    if positive is None:
        return Content(title, inputs, views, tuple(missing), check=check)
    column = read_positive(positive, inputs.num_classes, inputs.class_names)
    name = f"class {column}" if inputs.class_names is None else str(inputs.class_names[column])
    y, nodes = inputs.test_labels, inputs.shown
    if y is None:
        return Content(title, inputs, views, tuple(missing), name, check=check)
    names = nodes if node_names is None else np.asarray(node_names)[nodes]
    found = [
        one_class(outcome.name, outcome.probs[nodes, column], y == column, names, costs)
        for outcome in outcomes
    ]
    return Content(title, inputs, views, tuple(missing), name, tuple(found), check)


def _check(inputs: ReportInputs, outcomes: list[Outcome], seed: int) -> Check | None:
    """The monitor's, of the last `SimiMailbox`; no label of a test node is read for it."""
    fitted = [one.calibrator for one in outcomes if isinstance(one.calibrator, SimiMailbox)]
    if not fitted or inputs.test is None or hasattr(fitted[-1], "hidden_"):
        return None
    return Monitor(fitted[-1], seed=seed).check(
        inputs.logits, graph=inputs.graph, nodes=inputs.test, input_type="logits"
    )


class _Gatherer:
    """Makes views; holds what is the same for all of them."""

    def __init__(self, inputs: ReportInputs, first: Any, seed: int, selected: bool) -> None:
        self.inputs, self.first, self.seed, self.selected = inputs, first, seed, selected
        self.agreement: Floats | None = None
        if inputs.graph is not None:
            # Predictions before calibration: columns hold the same nodes in every view.
            self.agreement = analysis.neighbour_agreement(first, inputs.graph)

    def view(self, key: str, outcome: Outcome) -> MethodView:
        probs, y, nodes = outcome.probs, self.inputs.test_labels, self.inputs.shown
        judged = analysis.judge(probs, y, nodes)
        heat = curve = scores = None
        if self.agreement is not None:
            about = {"nodes": nodes, "cell": "own"}
            heat = analysis.similarity_confidence(probs, y, self.agreement, **about)  # type: ignore[arg-type]
        if y is not None:
            scores = _scores(probs[nodes], y, self.seed)
            curve = analysis.reliability_curve(probs, y, nodes=nodes, bins=BINS, seed=self.seed)
        temperatures = node_temperatures(outcome, self.inputs)
        names = self.inputs.class_names
        return MethodView(
            key=key,
            name=outcome.name,
            settings=outcome.settings,
            warnings=outcome.warnings,
            histogram=np.bincount(width_index(judged.confidence, BINS), minlength=BINS),
            changed=int((judged.predicted != self.first[nodes].argmax(1)).sum()),
            scores=scores,
            curve=curve,
            heat=heat,
            classes=analysis.by_class(probs, y, nodes=nodes, class_names=names),
            slices=self._slices(probs),
            temperatures=None
            if temperatures is None
            else analysis.temperature_histogram(temperatures),
            groups=self._groups(outcome, temperatures),
            judged=judged,
            decisions=decisions(probs, self.inputs, used_for_selection=self.selected),
        )

    def _slices(self, probs: Any) -> tuple[analysis.Breakdown, ...]:
        graph, y, nodes = self.inputs.graph, self.inputs.test_labels, self.inputs.shown
        if graph is None:
            return ()
        made = [
            analysis.by_agreement(probs, y, self.agreement, nodes=nodes),
            analysis.by_degree(probs, y, graph, nodes=nodes),
        ]
        if self.inputs.labelled is not None:
            labelled = self.inputs.labelled
            made.append(analysis.by_distance(probs, y, graph, labelled, nodes=nodes))
        return tuple(made)

    def _groups(self, outcome: Outcome, temperatures: Floats | None) -> analysis.GroupMap | None:
        inputs, groups = self.inputs, getattr(outcome.calibrator, "groups_", None)
        if groups is None or inputs.graph is None or len(groups) != inputs.num_nodes:
            return None  # groups of another graph are not groups of these nodes
        if temperatures is None:
            temperatures = outcome.calibrator.temperatures_[groups]  # type: ignore[union-attr]
        similarity = getattr(outcome.calibrator, "similarity_", None)
        if similarity is None:
            similarity = mailbox(inputs.logits, inputs.graph).double().numpy()
        return analysis.group_map(
            groups,
            self.first,
            outcome.probs,
            similarity=similarity,
            temperatures=temperatures,
            calibration=inputs.calibration,
            y=inputs.test_labels,
            nodes=inputs.shown,
        )


def _scores(probs: Any, y: Ints, seed: int) -> Scores:
    draws = 1000 if len(y) <= FEW_NODES else 200
    ece, nll = (
        metrics.bootstrap_interval(metric, probs, y, draws=draws, seed=seed)
        for metric in (metrics.ece, metrics.nll)
    )
    return Scores(metrics.evaluate(probs, y), ece, nll, metrics.noise_floor(probs, seed=seed))


def _missing(inputs: ReportInputs) -> list[str]:
    """What the report cannot tell, and what to pass so that it can."""
    lines = []
    if inputs.labels is None:
        lines.append(
            "No labels were given. Accuracy, calibration error and every gap are unknown; what is "
            "shown needs no label. Pass y (--labels)."
        )
    elif inputs.test is None:
        lines.append(
            "No test nodes were named, and no label was read for evaluation: accuracy and "
            "calibration error are unknown, and confidences are those of all nodes. Pass test "
            "(--test): labelled nodes that neither training nor calibration has seen."
        )
    if inputs.graph is None:
        lines.append(
            "No edges were given. Nothing is shown by neighbours, degree or distance. Pass graph "
            "(--edges)."
        )
    elif inputs.labelled is None:
        lines.append(
            "No labelled nodes were named: distance to them is unknown. Pass calibration "
            "(--calibration)."
        )
    return lines


def versions() -> list[tuple[str, str]]:
    """Software that the numbers were made with."""
    return [
        ("simi-mailbox", __version__),
        ("Python", platform.python_version()),
        ("PyTorch", str(torch.__version__)),
        ("NumPy", np.__version__),
    ]
