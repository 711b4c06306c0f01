"""Everything a report shows, as numbers; nothing is drawn or worded here."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from simi_mailbox import __version__, analysis, metrics
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis.cells import counts_of, unit_bins
from simi_mailbox.mailbox import mailbox
from simi_mailbox.report.deciding import Decisions, decisions
from simi_mailbox.report.inputs import ReportInputs
from simi_mailbox.report.methods import Methods, Outcome, node_temperatures, run_methods

BINS = 15
FEW_NODES = 20_000
"""Up to so many judged nodes intervals come from 1,000 draws, above from 200: they are narrow."""


@dataclass(frozen=True)
class Scores:
    """Numbers of one view on the judged nodes."""

    values: dict[str, float]
    ece: metrics.Interval
    nll: metrics.Interval
    floor: metrics.NoiseFloor


@dataclass(frozen=True)
class View:
    """The judged nodes as one method sees them; the first view is the model as it is.

    Attributes
    ----------
    key : str
        What elements of the page call it.
    said : float
        Mean confidence.
    histogram : int64 [bins]
        Nodes by confidence.
    changed : int
        Judged nodes whose predicted class differs from the uncalibrated one.
    uniform_weight : float
        What the method mixes in besides dividing by temperatures: temperatures are not all of it.
    """

    key: str
    name: str
    settings: str
    warnings: tuple[str, ...]
    said: float
    histogram: Ints
    changed: int
    scores: Scores | None
    curve: metrics.Reliability | None
    heat: analysis.SimilarityConfidence | None
    bar: analysis.SimilarityBar | None
    classes: analysis.Breakdown
    slices: tuple[analysis.Breakdown, ...]
    temperatures: analysis.TemperatureHistogram | None
    uniform_weight: float
    groups: analysis.GroupMap | None
    judged: analysis.Judged
    decisions: Decisions | None


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
    views: tuple[View, ...]
    missing: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    labelled: str

    @property
    def has_labels(self) -> bool:
        return self.views[0].scores is not None

    @property
    def before(self) -> View:
        return self.views[0]

    @property
    def wrong(self) -> tuple[str, ...]:
        """What methods complained of, each with the methods that did."""
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
    facts = _GraphFacts.of(inputs, outcomes[0].probs)
    views = tuple(
        _view(f"v{k}", outcome, outcomes[0], inputs, facts, seed, used_for_selection)
        for k, outcome in enumerate(outcomes)
    )
    return Content(
        title=title,
        inputs=inputs,
        views=views,
        missing=tuple([*_missing(inputs), *missing]),
        versions=_versions(),
        labelled="training" if inputs.train is not None else "calibration",
    )


@dataclass(frozen=True)
class _GraphFacts:
    """What the graph says of the nodes; the same for every view."""

    agreement: Floats | None
    mailbox: Floats | None

    @classmethod
    def of(cls, inputs: ReportInputs, probs: Any) -> _GraphFacts:
        if inputs.graph is None:
            return cls(None, None)
        # Predictions before calibration: cells then hold the same columns of nodes in every view.
        return cls(
            analysis.neighbour_agreement(probs, inputs.graph),
            mailbox(inputs.logits, inputs.graph).double().numpy(),
        )


def _view(
    key: str,
    outcome: Outcome,
    first: Outcome,
    inputs: ReportInputs,
    facts: _GraphFacts,
    seed: int,
    used_for_selection: bool,
) -> View:
    probs, y, nodes = outcome.probs, inputs.test_labels, inputs.shown
    judged = analysis.judge(probs, y, nodes)
    heat = bar = None
    if facts.agreement is not None:
        heat = analysis.similarity_confidence(probs, y, facts.agreement, nodes=nodes, cell="own")
        bar = analysis.similarity_bar(probs, y, facts.agreement, nodes=nodes)
    temperatures = node_temperatures(outcome, inputs)
    return View(
        key=key,
        name=outcome.name,
        settings=outcome.settings,
        warnings=outcome.warnings,
        said=float(judged.confidence.mean()),
        histogram=counts_of(unit_bins(judged.confidence, BINS), BINS),
        changed=int((judged.predicted != first.probs[nodes].argmax(1)).sum()),
        scores=None if y is None else _scores(probs[nodes], y, seed),
        curve=None
        if y is None
        else analysis.reliability_curve(probs, y, nodes=nodes, bins=BINS, seed=seed),
        heat=heat,
        bar=bar,
        classes=analysis.by_class(probs, y, nodes=nodes, class_names=inputs.class_names),
        slices=_slices(probs, inputs, facts),
        temperatures=None if temperatures is None else analysis.temperature_histogram(temperatures),
        uniform_weight=getattr(outcome.calibrator, "uniform_weight", 0.0),
        groups=_groups(outcome, first, inputs, facts, temperatures),
        judged=judged,
        decisions=decisions(probs, inputs, used_for_selection=used_for_selection),
    )


def _scores(probs: Any, y: Ints, seed: int) -> Scores:
    draws = 1000 if len(y) <= FEW_NODES else 200
    ece, nll = (
        metrics.bootstrap_interval(metric, probs, y, draws=draws, seed=seed)
        for metric in (metrics.ece, metrics.nll)
    )
    return Scores(metrics.evaluate(probs, y), ece, nll, metrics.noise_floor(probs, seed=seed))


def _slices(probs: Any, inputs: ReportInputs, facts: _GraphFacts) -> tuple[analysis.Breakdown, ...]:
    if inputs.graph is None or facts.agreement is None:
        return ()
    y, nodes = inputs.test_labels, inputs.shown
    made = [
        analysis.by_agreement(probs, y, facts.agreement, nodes=nodes),
        analysis.by_degree(probs, y, inputs.graph, nodes=nodes),
    ]
    labelled = inputs.calibration if inputs.train is None else inputs.train
    if labelled is not None:
        made.append(analysis.by_distance(probs, y, inputs.graph, labelled, nodes=nodes))
    return tuple(made)


def _groups(
    outcome: Outcome,
    first: Outcome,
    inputs: ReportInputs,
    facts: _GraphFacts,
    temperatures: Floats | None,
) -> analysis.GroupMap | None:
    groups = getattr(outcome.calibrator, "groups_", None)
    if groups is None or temperatures is None or facts.mailbox is None:
        return None
    if len(groups) != inputs.num_nodes:
        return None  # fitted on another graph: its groups are not groups of these nodes
    return analysis.group_map(
        groups,
        first.probs,
        outcome.probs,
        similarity=getattr(outcome.calibrator, "similarity_", facts.mailbox),
        temperatures=temperatures,
        calibration=inputs.calibration,
        y=inputs.test_labels,
        nodes=inputs.shown,
    )


def _missing(inputs: ReportInputs) -> list[str]:
    """What the report cannot say, and what to pass so that it can."""
    said = []
    if inputs.labels is None:
        said.append(
            "No labels were given. How often the model is right, its calibration error and every "
            "gap are unknown; what is shown needs no label. Pass y (--labels)."
        )
    elif inputs.test is None:
        said.append(
            "No nodes to judge on were named, so that no label was read for judging: accuracy and "
            "calibration error are unknown, and confidences are those of all nodes. Pass test "
            "(--test): labelled nodes that neither training nor calibration has seen."
        )
    if inputs.graph is None:
        said.append(
            "No edges were given. Nothing is said about neighbours, degree or distance. Pass "
            "graph (--edges)."
        )
    elif inputs.calibration is None and inputs.train is None:
        said.append(
            "No labelled nodes were named: distance to them is unknown. Pass calibration "
            "(--calibration)."
        )
    return said


def _versions() -> tuple[tuple[str, str], ...]:
    return (
        ("simi-mailbox", __version__),
        ("Python", platform.python_version()),
        ("PyTorch", str(torch.__version__)),
        ("NumPy", np.__version__),
    )
