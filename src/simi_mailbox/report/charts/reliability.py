"""The reliability diagram of the report."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.metrics import Reliability
from simi_mailbox.report.charts.svg import Svg, join, picture, rect, tag, text, upright
from simi_mailbox.report.formatting import nodes, percent

LEFT, TOP, SIDE = 46.0, 12.0, 400.0
STRIP = 58.0
TALL_STRIP = 170.0
WIDTH = LEFT + SIDE + 14
FIFTHS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FEW = 10
"""Bins of fewer nodes are drawn hollow and not joined."""


def reliability_chart(curve: Reliability, name: str, before: Reliability | None = None) -> Svg:
    """Accuracy over confidence, and below it how many nodes are where.

    ``before`` is drawn behind, in grey.
    """
    top = TOP + SIDE + 14
    parts = [_accuracy_axis(), _strip(curve.counts, top, STRIP)]
    if before is not None:
        parts.append(_line(before, "ghost"))
    parts += [_gaps(curve), _line(curve, "curve"), _dots(curve)]
    bins = len(curve.counts)
    parts += [_column(b, bins, TOP, top + STRIP, _tip(b, curve)) for b in _occupied(curve.counts)]
    label = f"Reliability diagram, {name}: calibration error {percent(curve.ece)}"
    return picture(WIDTH, top + STRIP + 46, label, *parts, class_="reliability")


def confidence_chart(counts: Ints, name: str) -> Svg:
    """How many nodes have which confidence: what is left without labels."""
    bins, parts = len(counts), [_strip(counts, TOP, TALL_STRIP)]
    for b in _occupied(counts):
        tip = (
            f"{nodes(counts[b])} said to be {percent(b / bins, 0)} to {percent((b + 1) / bins, 0)}"
        )
        parts.append(_column(b, bins, TOP, TOP + TALL_STRIP, f"{tip} sure"))
    label = f"How many nodes have which confidence, {name}"
    return picture(WIDTH, TOP + TALL_STRIP + 46, label, *parts, class_="reliability")


def _x(confidence: float) -> float:
    return LEFT + SIDE * confidence


def _y(accuracy: float) -> float:
    return TOP + SIDE * (1 - accuracy)


def _occupied(counts: Ints) -> list[int]:
    return [int(b) for b in np.flatnonzero(counts)]


def _accuracy_axis() -> Svg:
    parts = []
    for share in FIFTHS:
        y = _y(share)
        parts.append(tag("line", x1=LEFT, x2=LEFT + SIDE, y1=y, y2=y, class_="grid"))
        parts.append(text(f"{100 * share:.0f}", LEFT - 8, y + 4, "end"))
    parts.append(tag("line", x1=_x(0), y1=_y(0), x2=_x(1), y2=_y(1), class_="diagonal"))
    parts.append(upright("were right, %", TOP + SIDE / 2))
    return join(parts)


def _strip(counts: Ints, top: float, height: float) -> Svg:
    """Bars of counts over the confidence axis."""
    bins, tallest, floor = len(counts), max(int(counts.max()), 1), top + height
    parts = []
    for b in _occupied(counts):
        tall = max(1.0, height * counts[b] / tallest)
        parts.append(
            rect(LEFT + SIDE * b / bins + 1, floor - tall, SIDE / bins - 2, tall, class_="bar")
        )
    parts.append(tag("line", x1=LEFT, x2=LEFT + SIDE, y1=floor, y2=floor, class_="base"))
    parts += [text(f"{100 * share:.0f}", _x(share), floor + 18) for share in FIFTHS]
    parts.append(text("said to be sure, %", LEFT + SIDE / 2, floor + 40, class_="axis"))
    return join(parts)


def _column(b: int, bins: int, top: float, floor: float, tip: str) -> Svg:
    """What the pointer hits."""
    return rect(
        LEFT + SIDE * b / bins, top, SIDE / bins, floor - top, class_="mark column", data_tip=tip
    )


def _gaps(curve: Reliability) -> Svg:
    """Sticks from the diagonal to the curve: what is said too much or too little."""
    parts = []
    for b in np.flatnonzero(curve.counts >= FEW):
        said, right = float(curve.confidence[b]), float(curve.accuracy[b])
        x, ends = _x(said), (_y(float(curve.low[b])), _y(float(curve.high[b])))
        parts.append(tag("line", x1=x, x2=x, y1=ends[0], y2=ends[1], class_="band"))
        side = "under" if right > said else "over"
        parts.append(tag("line", x1=x, x2=x, y1=_y(said), y2=_y(right), class_=f"gap {side}"))
    return join(parts)


def _line(curve: Reliability, class_: str) -> Svg:
    many = np.flatnonzero(curve.counts >= FEW)
    path = " ".join(f"{_x(curve.confidence[b]):.1f},{_y(curve.accuracy[b]):.1f}" for b in many)
    return tag("polyline", points=path, class_=class_) if many.size > 1 else Svg("")


def _dots(curve: Reliability) -> Svg:
    parts = []
    for b in _occupied(curve.counts):
        x, y = _x(float(curve.confidence[b])), _y(float(curve.accuracy[b]))
        few = curve.counts[b] < FEW
        class_ = "dot few" if few else "dot"
        parts.append(tag("circle", cx=x, cy=y, r=3.0 if few else 4.5, class_=class_))
    return join(parts)


def _tip(b: int, curve: Reliability) -> str:
    return (
        f"{nodes(curve.counts[b])} · said {percent(curve.confidence[b])} · "
        f"right {percent(curve.accuracy[b])} "
        f"({percent(curve.low[b], 0)} to {percent(curve.high[b], 0)})"
    )
