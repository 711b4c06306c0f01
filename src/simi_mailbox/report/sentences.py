"""What the numbers say, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simi_mailbox.analysis import CoverageBreakdown, Judged
from simi_mailbox.report.content import Content, View
from simi_mailbox.report.deciding import Acceptance, Decisions, Sets
from simi_mailbox.report.formatting import count, nodes, percent

LEVELS = (0.6, 0.7, 0.8, 0.9)
HALF_WIDTH = 0.05
ENOUGH = 30


@dataclass(frozen=True)
class Said:
    """Nodes said to be about ``level`` sure: how sure, how many, how often right."""

    confidence: float
    accuracy: float
    count: int

    @property
    def gap(self) -> float:
        return self.accuracy - self.confidence


def said_at(judged: Judged, level: float) -> Said:
    """What became of the nodes whose confidence is within five points of ``level``.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.analysis import judge
    >>> judged = judge(np.array([[0.9, 0.1], [0.92, 0.08], [0.6, 0.4]]), np.array([0, 1, 0]))
    >>> said_at(judged, 0.9)
    Said(confidence=0.91, accuracy=0.5, count=2)
    """
    inside = np.abs(judged.confidence - level) <= HALF_WIDTH
    number = int(inside.sum())
    if number == 0:
        return Said(float("nan"), float("nan"), 0)
    return Said(
        float(judged.confidence[inside].mean()), float(judged.correct[inside].mean()), number
    )


def telling_level(before: Judged, after: Judged) -> float | None:
    """The level with the most nodes behind it, before and after: chance blurs it least."""
    behind = {
        level: min(said_at(before, level).count, said_at(after, level).count) for level in LEVELS
    }
    level = max(LEVELS, key=behind.__getitem__)
    return level if behind[level] >= ENOUGH else None


def by_chance(said: Said) -> str:
    """Where the share of right ones lies 95 times in 100, if what is said is true.

    Examples
    --------
    >>> by_chance(Said(0.9, 0.85, 100)).replace("\u202f", " ")
    'chance alone: 84 % to 96 %'
    """
    spread = 2 * float(np.sqrt(said.confidence * (1 - said.confidence) / said.count))
    low, high = max(said.confidence - spread, 0.0), min(said.confidence + spread, 1.0)
    return f"chance alone: {percent(low, 0)} to {percent(high, 0)}"


@dataclass(frozen=True)
class Piece:
    """Some words of the first sentence; ``tone`` is "over", "under", "after" or nothing."""

    text: str
    tone: str = ""


def verdict(content: Content) -> list[Piece]:
    """The first sentence: what a confidence of this model is worth."""
    before, after = content.before, content.views[-1]
    if not content.has_labels:
        text = f"On average this model says it is {percent(before.said, 0)} sure. "
        return [Piece(text + "How often it is right is not known here.")]
    level = telling_level(before.judged, after.judged)
    if level is None:
        right = float(before.judged.correct.mean())
        pieces = [
            Piece("On average this model says it is "),
            Piece(percent(before.said, 0), _tone(right - before.said)),
            Piece(f" sure, and {percent(right, 0)} of its answers were right."),
        ]
        if after is not before:
            pieces.append(Piece(f" After {after.name} it says "))
            pieces += [Piece(percent(after.said, 0), "after"), Piece(".")]
        return pieces
    first = said_at(before.judged, level)
    pieces = [
        Piece(f"Among nodes said to be about {percent(level, 0)} sure, "),
        Piece(percent(first.accuracy, 0), _tone(first.gap)),
        Piece(" were right."),
    ]
    if after is not before:
        second = said_at(after.judged, level)
        pieces.append(Piece(f" After {after.name}: "))
        pieces += [Piece(percent(second.accuracy, 0), "after")]
        pieces += [Piece(f" of {nodes(second.count)} ({by_chance(second)}).")]
    return pieces


def _tone(gap: float) -> str:
    return "under" if gap > 0 else "over"


def standing(view: View) -> str:
    """How far a view is from calibrated, held against chance."""
    assert view.scores is not None
    ece, floor = view.scores.values["ece"], view.scores.floor
    judged = len(view.judged)
    if ece <= floor.mean + 2 * floor.std:
        return (
            f"On {nodes(judged)} this cannot be told from perfect calibration: chance alone gives "
            f"an error of about {percent(floor.mean)}."
        )
    return (
        f"Chance alone would give an error of about {percent(floor.mean)} on {nodes(judged)}; "
        f"this is {percent(ece)}, so that the model is off by more than chance."
    )


def direction(view: View) -> str:
    """Over- or under-confident on average."""
    right = float(view.judged.correct.mean())
    residual = view.judged.correct - view.judged.confidence
    noise = 2 * float(residual.std()) / np.sqrt(len(view.judged))
    gap = right - view.said
    says = f"It says {percent(view.said)} on average and is right {percent(right)} of the time"
    if abs(gap) <= noise:
        return f"{says}: on average, what it says holds."
    return f"{says}: {'under' if gap > 0 else 'over'}-confident."


def examples(view: View) -> list[str]:
    """One sentence for each level of confidence with enough nodes."""
    made = []
    for level in reversed(LEVELS):
        said = said_at(view.judged, level)
        if said.count >= ENOUGH:
            made.append(
                f"Of {nodes(said.count)} said to be {percent(said.confidence, 0)} sure, "
                f"{percent(said.accuracy, 0)} were right."
            )
    return made


def change(before: View, after: View) -> str:
    """What a method did to the predictions."""
    judged = len(after.judged)
    moved = after.said - before.said
    if round(100 * abs(moved), 1) == 0:
        text = f"It leaves the mean confidence at {percent(after.said)}"
    else:
        verb = "raises" if moved > 0 else "lowers"
        text = f"It {verb} the mean confidence from {percent(before.said)} to {percent(after.said)}"
    if after.changed == 0:
        return f"{text}. No predicted class changes."
    share = f"{count(after.changed)} of {nodes(judged)}"
    verb = "changes" if after.changed == 1 else "change"
    return f"{text}. The predicted class of {share} {verb}."


def corners(view: View) -> list[str]:
    """The four corners of the heat map: sure or not, neighbours that agree or do not."""
    table = view.heat
    if table is None or view.scores is None:
        return []
    rows, columns = table.counts.shape
    sure = np.arange(rows)[:, None] >= round(0.7 * rows)
    agreed = np.arange(columns)[None, :] >= round(0.5 * columns)
    names = (
        (sure & ~agreed, "Sure, though most neighbours disagree"),
        (sure & agreed, "Sure, and most neighbours agree"),
        (~sure & agreed, "Unsure, though most neighbours agree"),
        (~sure & ~agreed, "Unsure, and most neighbours disagree"),
    )
    made = []
    for inside, name in names:
        size = table.counts * inside
        number = int(size.sum())
        if number < ENOUGH:
            continue
        said = float(np.nansum(size * table.confidence) / number)
        right = float(np.nansum(size * table.accuracy) / number)
        made.append(
            f"{name}: {percent(said, 0)} said, {percent(right, 0)} right ({nodes(number)})."
        )
    return made


def worst_groups(view: View, most: int = 3) -> list[str]:
    """The groups that hold the most error after calibration."""
    groups = view.groups
    if groups is None:
        return []
    made = []
    for k in groups.worst(most):
        gap, noise = groups.gap_after[k], 2 * groups.gap_error[k]
        text = (
            f"Group {k + 1}: {nodes(groups.judged[k])} said to be "
            f"{percent(groups.said_after[k], 0)} sure, {percent(groups.accuracy[k], 0)} right"
        )
        if np.isnan(noise) or abs(gap) <= noise:
            text += ", which may be chance"
        labels = int(groups.calibration_labels[k])
        text += f". It had {count(labels)} calibration label{'' if labels == 1 else 's'}."
        made.append(text)
    return made


def accepted(step: Acceptance) -> str:
    """What becomes of the nodes, if so many errors are allowed."""
    left = step.shown - step.accepted
    if not step.accepted:
        return (
            "Nothing can be promised with these labels, so nothing is accepted: all "
            f"{nodes(step.shown)} are left for people."
        )
    told = (
        f"{percent(step.share)} of the nodes ({count(step.accepted)}) can be acted on, those that "
        f"are said to be at least {percent(step.threshold)} sure; {nodes(left)} "
        f"{'is' if left == 1 else 'are'} left for people."
    )
    if step.wrong is not None:
        w = step.wrong
        told += (
            f" Of the accepted {percent(w.value)} were wrong "
            f"({percent(w.low)} to {percent(w.high)}, 95\u202f% interval)."
        )
    return told


def promise(found: Decisions) -> str:
    """What the numbers of accepted nodes rest on."""
    told = f"Each holds with 90\u202f% probability over the draw of {nodes(found.labels)}"
    if found.error_weight == 1.0:
        return f"{told}."
    return (
        f"{told}; these are taken to have chosen the model, too, so that an error among them "
        f"counts for {found.error_weight:.2f}."
    )


def sets(found: Sets) -> str:
    """How large prediction sets are, and how often they hold the class."""
    told = (
        f"A set of classes for every node, made to hold the right one {percent(found.promised, 0)} "
        f"of the time, has {found.size:.2f} classes on average; {percent(found.single)} of "
        "the sets are a single class."
    )
    if found.covered is not None:
        c = found.covered
        told += f" {percent(c.value)} hold the right one ({percent(c.low)} to {percent(c.high)})."
    return told


def for_whom(table: CoverageBreakdown) -> str:
    """Whether the worst slice is more than chance."""
    found = table.found
    if len(table.labels) < 2 or table.by == "size":  # an empty set holds nothing, by design
        return ""
    start = f"Least: {table.worst}, {percent(found.worst)}. "
    chance = f"Chance alone makes the least of them {percent(found.worst_by_chance)} on average"
    if table.says_something:
        return f"{start}{chance}: somebody is covered less than promised."
    return f"{start}{chance}: no news."
