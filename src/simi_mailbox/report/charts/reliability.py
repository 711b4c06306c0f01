"""The reliability diagram of the report."""

from __future__ import annotations

import numpy as np

from simi_mailbox.analysis.judged import IntArray
from simi_mailbox.metrics import Reliability
from simi_mailbox.report.charts.svg import Svg, join, picture, tag
from simi_mailbox.report.words import nodes, percent

LEFT, TOP, SIDE = 46.0, 12.0, 400.0
STRIP_TOP, STRIP = TOP + SIDE + 14, 58.0
WIDTH, HEIGHT = LEFT + SIDE + 14, STRIP_TOP + STRIP + 46
FEW = 10
"""Bins of fewer nodes are drawn hollow and not joined."""


def reliability_chart(
    curve: Reliability | None,
    counts: IntArray,
    name: str,
    before: Reliability | None = None,
) -> Svg:
    """Accuracy over confidence, and below it how many nodes are where.

    Without a curve (no labels) only the counts are drawn. ``before`` is drawn behind, in grey.
    """
    parts = [_frame(curve is not None)]
    bins = len(counts)
    if curve is not None:
        if before is not None:
            parts.append(_line(before, "ghost"))
        parts.append(_gaps(curve))
        parts.append(_line(curve, "curve"))
        parts.append(_dots(curve))
    parts.append(_strip(counts))
    parts.extend(
        tag(
            "rect",
            x=LEFT + SIDE * b / bins,
            y=TOP,
            width=SIDE / bins,
            height=STRIP_TOP + STRIP - TOP,
            class_="mark column",
            data_tip=_tip(int(b), bins, counts, curve),
        )
        for b in np.flatnonzero(counts)
    )
    if curve is None:
        label = f"How many nodes have which confidence, {name}"
    else:
        label = f"Reliability diagram, {name}: calibration error {percent(curve.ece)}"
    return picture(WIDTH, HEIGHT, label, *parts, class_="reliability")


def _x(confidence: float) -> float:
    return LEFT + SIDE * confidence


def _y(accuracy: float) -> float:
    return TOP + SIDE * (1 - accuracy)


def _frame(with_accuracy: bool) -> Svg:
    parts = [tag("rect", x=LEFT, y=TOP, width=SIDE, height=SIDE, class_="field")]
    if not with_accuracy:
        parts.append(
            tag(
                "text",
                "no labels: accuracy is not known",
                x=LEFT + SIDE / 2,
                y=TOP + SIDE / 2,
                class_="absent",
                text_anchor="middle",
            )
        )
    for tenth in range(0, 11, 2):
        share = tenth / 10
        parts.append(
            tag("line", x1=LEFT, x2=LEFT + SIDE, y1=_y(share), y2=_y(share), class_="grid")
        )
        parts.append(
            tag(
                "text",
                str(10 * tenth),
                x=LEFT - 8,
                y=_y(share) + 4,
                class_="tick",
                text_anchor="end",
            )
        )
        parts.append(
            tag(
                "text",
                f"{10 * tenth}",
                x=_x(share),
                y=STRIP_TOP + STRIP + 18,
                class_="tick",
                text_anchor="middle",
            )
        )
    if with_accuracy:
        parts.append(tag("line", x1=_x(0), y1=_y(0), x2=_x(1), y2=_y(1), class_="diagonal"))
    parts.append(
        tag(
            "text",
            "said to be sure, %",
            x=LEFT + SIDE / 2,
            y=HEIGHT - 6,
            class_="axis",
            text_anchor="middle",
        )
    )
    parts.append(
        tag(
            "text",
            "were right, %",
            transform=f"translate(13 {TOP + SIDE / 2:.0f}) rotate(-90)",
            class_="axis",
            text_anchor="middle",
        )
    )
    return join(parts)


def _gaps(curve: Reliability) -> Svg:
    """Sticks from the diagonal to the curve: what is said too much or too little."""
    parts = []
    for b in np.flatnonzero(curve.counts >= FEW):
        x, said, right = _x(curve.confidence[b]), curve.confidence[b], curve.accuracy[b]
        parts.append(
            tag(
                "line",
                x1=x,
                x2=x,
                y1=_y(curve.low[b]),
                y2=_y(curve.high[b]),
                class_="band",
            )
        )
        parts.append(
            tag(
                "line",
                x1=x,
                x2=x,
                y1=_y(said),
                y2=_y(right),
                class_="gap " + ("under" if right > said else "over"),
            )
        )
    return join(parts)


def _line(curve: Reliability, class_: str) -> Svg:
    many = np.flatnonzero(curve.counts >= FEW)
    path = " ".join(f"{_x(curve.confidence[b]):.1f},{_y(curve.accuracy[b]):.1f}" for b in many)
    return tag("polyline", points=path, class_=class_) if many.size > 1 else Svg("")


def _dots(curve: Reliability) -> Svg:
    parts = []
    for b in np.flatnonzero(curve.counts):
        few = curve.counts[b] < FEW
        parts.append(
            tag(
                "circle",
                cx=_x(curve.confidence[b]),
                cy=_y(curve.accuracy[b]),
                r=3.0 if few else 4.5,
                class_="dot few" if few else "dot",
            )
        )
    return join(parts)


def _strip(counts: IntArray) -> Svg:
    bins, tallest = len(counts), max(int(counts.max()), 1)
    parts = []
    for b in np.flatnonzero(counts):
        height = max(1.0, STRIP * counts[b] / tallest)
        parts.append(
            tag(
                "rect",
                x=LEFT + SIDE * b / bins + 1,
                y=STRIP_TOP + STRIP - height,
                width=SIDE / bins - 2,
                height=height,
                class_="bar",
            )
        )
    floor = STRIP_TOP + STRIP
    parts.append(tag("line", x1=LEFT, x2=LEFT + SIDE, y1=floor, y2=floor, class_="base"))
    return join(parts)


def _tip(b: int, bins: int, counts: IntArray, curve: Reliability | None) -> str:
    if curve is None:
        return (
            f"{nodes(counts[b])} said to be {percent(b / bins, 0)} to {percent((b + 1) / bins, 0)}"
        )
    return (
        f"{nodes(counts[b])} · said {percent(curve.confidence[b])} · "
        f"right {percent(curve.accuracy[b])} "
        f"({percent(curve.low[b], 0)} to {percent(curve.high[b], 0)})"
    )
