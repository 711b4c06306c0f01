"""What the numbers say, in sentences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simi_mailbox.analysis import CoverageBreakdown, Judged
from simi_mailbox.plots.picture import count, nodes, percent
from simi_mailbox.report.content import (
    COVERAGE,
    Acceptance,
    Content,
    Decisions,
    MethodView,
    OneClass,
)

BINS = ((0.55, 0.65), (0.65, 0.75), (0.75, 0.85), (0.85, 0.95))
"""Confidence bins that sentences are about."""
ENOUGH = 30


class Bin(NamedTuple):
    """Nodes with a confidence between two numbers: how many, mean confidence, accuracy."""

    low: float
    high: float
    size: int
    confidence: float
    accuracy: float

    def __str__(self) -> str:
        return f"{nodes(self.size)} with confidence {100 * self.low:.0f} to {percent(self.high, 0)}"


def in_bin(judged: Judged, low: float, high: float) -> Bin:
    """The nodes of a bin."""
    inside = (judged.confidence >= low) & (judged.confidence < high)
    size = max(int(inside.sum()), 1)
    mean = [float(part[inside].sum()) / size for part in (judged.confidence, judged.correct)]
    return Bin(low, high, int(inside.sum()), *mean)


def fullest_bin(before: Judged, after: Judged) -> tuple[float, float] | None:
    """The bin with the most nodes, before and after; None if all of them hold few."""
    sizes = [min(in_bin(view, *ends).size for view in (before, after)) for ends in BINS]
    return BINS[int(np.argmax(sizes))] if max(sizes) >= ENOUGH else None


def by_chance(found: Bin) -> str:
    """Where the accuracy of a calibrated model lies 95 times in 100."""
    spread = 2 * float(np.sqrt(found.confidence * (1 - found.confidence) / found.size))
    low, high = max(found.confidence - spread, 0.0), min(found.confidence + spread, 1.0)
    return f"{percent(low, 0)} to {percent(high, 0)} if calibrated"


def verdict(content: Content) -> list[tuple[str, str]]:
    """The first sentence: what a confidence of this model is worth.

    In pieces, each with its tone: "over", "under", "after" or nothing.
    """
    before, after = content.before, content.after
    if content.of_class:
        return [(_of_class(content.positive, content.of_class[0], content.of_class[-1]), "")]
    mean = percent(before.confidence, 0)
    if not content.has_labels:
        return [(f"The mean confidence is {mean}. The accuracy is not known here.", "")]
    ends = fullest_bin(before.judged, after.judged)
    if ends is None:
        tone = "under" if before.accuracy > before.confidence else "over"
        pieces = [("The mean confidence is ", ""), (mean, tone)]
        pieces.append((f", the accuracy {percent(before.accuracy, 0)}.", ""))
        told, now, end = " the mean confidence is ", percent(after.confidence, 0), "."
    else:
        first, second = in_bin(before.judged, *ends), in_bin(after.judged, *ends)
        tone = "under" if first.accuracy > first.confidence else "over"
        pieces = [(f"Of {first}, ", ""), (percent(first.accuracy, 0), tone), (" were right.", "")]
        told, now = ": ", percent(second.accuracy, 0)
        end = f" of {nodes(second.size)} in this bin ({by_chance(second)})."
    more = [(f" After {after.name}{told}", ""), (now, "after"), (end, "")]
    return pieces if after is before else pieces + more


def _of_class(what: str, before: OneClass, after: OneClass) -> str:
    """Caught, missed and workload, before and after; accuracy is not what counts here."""

    def caught(view: OneClass) -> str:
        return (
            f"{view.at.hits:,.0f} are caught by {count(view.at.alerts)} alerts (P ≥ "
            f"{percent(view.threshold, 0)}) and {count(view.missed)} missed"
        )

    top = after.top
    told = f"Of {count(before.at.positives)} {what} among {nodes(before.at.nodes)}, "
    told += f"{caught(before)}."
    if after is not before:
        told += f" After {after.name}: {caught(after)}."
    told += (
        f" The {nodes(top.alerts)} of highest probability, as many as are expected to be {what}, "
        f"hold {top.hits:,.0f} of them and miss {top.positives - top.hits:,.0f}."
    )
    if before.cost is not None and after.cost is not None:
        told += f" Misses and reviews cost {before.cost:,.4g} before and {after.cost:,.4g} after."
    return told


def platt_is_as_good(views: Sequence[OneClass]) -> str:
    """Whether Platt scaling predicts the class as well as the last method, by log-loss."""
    platt = next((view for view in views[:-1] if view.name == "platt"), None)
    if platt is None:
        return ""
    gap = platt.nll - views[-1].nll
    if gap.mean() > 2 * gap.std() / np.sqrt(len(gap)):
        return ""
    return f"Platt scaling is as good here as {views[-1].name}, by the log-loss of P(class)."


def standing(view: MethodView) -> str:
    """How far a view is from calibrated, compared with the noise floor."""
    assert view.scores is not None
    ece, floor = view.scores.values["ece"], view.scores.floor
    judged, noise = nodes(len(view.judged)), f"the noise floor of {percent(floor.mean)}"
    if ece <= floor.mean + 2 * floor.std:
        return f"On {judged} this cannot be told from perfect calibration, by {noise}."
    return f"The ECE of {percent(ece)} is above {noise} on {judged}: the model is miscalibrated."


def direction(view: MethodView) -> str:
    """Over- or under-confident on average."""
    residual = view.judged.correct - view.judged.confidence
    noise = 2 * float(residual.std()) / np.sqrt(len(view.judged))
    gap = view.accuracy - view.confidence
    both = f"Mean confidence {percent(view.confidence)}, accuracy {percent(view.accuracy)}"
    if abs(gap) <= noise:
        return f"{both}: calibrated on average."
    return f"{both}: {'under' if gap > 0 else 'over'}-confident on average."


def examples(view: MethodView) -> list[str]:
    """One sentence for each confidence bin with enough nodes."""
    found = [in_bin(view.judged, *ends) for ends in reversed(BINS)]
    found = [part for part in found if part.size >= ENOUGH]
    return [f"Of {part}, {percent(part.accuracy, 0)} were right." for part in found]


def change(before: MethodView, after: MethodView) -> str:
    """What a method did to the predictions."""
    judged, moved = len(after.judged), after.confidence - before.confidence
    now = percent(after.confidence)
    if round(100 * abs(moved), 1) == 0:
        text = f"It leaves the mean confidence at {now}"
    else:
        verb = "raises" if moved > 0 else "lowers"
        text = f"It {verb} the mean confidence from {percent(before.confidence)} to {now}"
    if after.changed == 0:
        return f"{text}. No predicted class changes."
    verb = "changes" if after.changed == 1 else "change"
    return f"{text}. The predicted class of {count(after.changed)} of {nodes(judged)} {verb}."


def corners(view: MethodView) -> list[str]:
    """The four corners of the heat map: low and high confidence and neighbour agreement."""
    table = view.heat
    if table is None or view.scores is None:
        return []
    rows, columns = table.counts.shape
    high = np.arange(rows)[:, None] >= round(0.7 * rows)
    agreed = np.arange(columns)[None, :] >= round(0.5 * columns)
    made = []
    for one, two in (("High", "low"), ("High", "high"), ("Low", "high"), ("Low", "low")):
        size = table.counts * (high == (one == "High")) * (agreed == (two == "high"))
        n = int(size.sum())
        if n >= ENOUGH:
            c, a = (np.nansum(size * v) / n for v in (table.confidence, table.accuracy))
            both = f"confidence {percent(c, 0)}, accuracy {percent(a, 0)}"
            made.append(f"{one} confidence, {two} neighbour agreement: {both} ({nodes(n)}).")
    return made


def worst_groups(view: MethodView, most: int = 3) -> list[str]:
    """The groups that hold the most error after calibration."""
    groups = view.groups
    if groups is None:
        return []
    made = []
    for k in groups.worst(most):
        beyond_noise = abs(groups.gap_after[k]) > 2 * groups.gap_error[k]
        labels = int(groups.calibration_labels[k])
        made.append(
            f"Group {k + 1}, {nodes(groups.judged[k])}: confidence "
            f"{percent(groups.confidence_after[k], 0)}, accuracy {percent(groups.accuracy[k], 0)}"
            f"{'' if beyond_noise else ', which may be chance'}. It had {count(labels)} "
            f"calibration label{'' if labels == 1 else 's'}."
        )
    return made


def accepted(step: Acceptance) -> str:
    """What becomes of the nodes at one allowed error rate."""
    if not step.accepted:
        return (
            "These labels are too few, or the model errs too often, to guarantee this error rate: "
            f"nothing is accepted, and all {nodes(step.shown)} need review."
        )
    verb = "needs" if step.deferred == 1 else "need"
    told = (
        f"{percent(step.share)} of the nodes ({count(step.accepted)}) are accepted, those with "
        f"confidence of at least {percent(step.threshold)}; {nodes(step.deferred)} {verb} review."
    )
    if step.wrong is not None:
        share, low, high = map(percent, step.wrong)
        told += f" Of the accepted {share} were wrong ({low} to {high}, 95\u202f% interval)."
    for name, missed, of in step.hidden:
        told += f" Of {nodes(of)} of {name}, {count(missed)} are accepted as another class."
    return told


def guarantee(found: Decisions) -> str:
    """What the numbers of accepted nodes rest on."""
    told = f"Each holds with 90\u202f% probability over the draw of {nodes(found.labels)}"
    if found.error_weight != 1.0:
        told += "; these are taken to have chosen the model, too, so that an error among them "
        told += f"counts for {found.error_weight:.2f}"
    return f"{told}."


def sets(found: Decisions) -> str:
    """How large prediction sets are, and how often they hold the class."""
    told = (
        f"Prediction sets with a target coverage of {percent(COVERAGE, 0)} have "
        f"{found.size:.2f} classes on average; {percent(found.single)} of them are a single class."
    )
    if found.covered is not None:
        share, low, high = map(percent, found.covered)
        told += f" Their coverage is {share} ({low} to {high})."
    return told


def undercoverage(table: CoverageBreakdown) -> str:
    """Whether the least coverage of the slices is more than chance."""
    found = table.found
    if len(table.labels) < 2 or table.by == "size":  # an empty set holds nothing, by design
        return ""
    verb = "is" if table.significant else "is not"
    return (
        f"Least: {table.worst}, {percent(found.worst)}; by chance the least of them is "
        f"{percent(found.worst_by_chance)} on average. Undercoverage {verb} significant."
    )
