"""How much can be accepted at which share of errors, and for whom sets hold the label."""

from __future__ import annotations

from collections.abc import Sequence

from simi_mailbox.analysis import CoverageBreakdown
from simi_mailbox.report.charts.svg import Svg, join, picture, rect, tag, text, upright
from simi_mailbox.report.deciding import Acceptance
from simi_mailbox.report.formatting import count, nodes, percent

WIDTH, RIGHT, ROW, TOP, BOTTOM = 400.0, 62.0, 32.0, 8.0, 28.0
LETTER, LONGEST = 7.6, 24
"""Room for a letter of a name, and letters that a name is cut to."""


def acceptance_chart(steps: Sequence[Acceptance], first: int, name: str) -> Svg:
    """Share accepted against errors allowed; the page's slider moves the dot."""
    left, top, width, height = 58.0, 14.0, 368.0, 260.0
    floor = top + height
    places = [left + width * (k + 0.5) / len(steps) for k in range(len(steps))]

    def y(share: float) -> float:
        return floor - height * share

    parts = [upright("nodes accepted", top + height / 2)]
    for quarter in range(5):
        share = quarter / 4
        parts.append(tag("line", x1=left, x2=left + width, y1=y(share), y2=y(share), class_="grid"))
        parts.append(text(f"{100 * share:.0f}%", left - 8, y(share) + 4, "end"))
    side = width / len(steps)
    for k, (step, x) in enumerate(zip(steps, places, strict=True)):
        tall = max(height * step.share, 1.0)
        parts.append(rect(x - 0.38 * side, floor - tall, 0.76 * side, tall, class_="bar"))
        if k % 2 == 0:
            parts.append(text(f"{100 * step.allowed:.0f}", x, floor + 18))
        tip = f"at most {percent(step.allowed, 0)} errors · {percent(step.share)} accepted"
        parts.append(rect(x - side / 2, top, side, height, class_="mark column", data_tip=tip))
    parts.append(
        text("errors allowed among the accepted, %", left + width / 2, floor + 38, class_="axis")
    )
    now = steps[first]
    parts.append(tag("circle", cx=places[first], cy=y(now.share), r=7.0, class_="dot here"))
    label = (
        f"Nodes accepted by errors allowed, {name}: {percent(now.share)} at "
        f"{percent(now.allowed, 0)}"
    )
    return picture(left + width + 12, floor + 46, label, *parts, class_="acceptance")


def coverage_chart(table: CoverageBreakdown, promised: float, name: str) -> Svg:
    """One bar for each slice with its interval; the dashed line is the promise."""
    found = table.found
    height = TOP + ROW * len(table.labels) + BOTTOM
    bottom = height - BOTTOM
    names = [n if len(n) <= LONGEST else f"{n[: LONGEST - 1]}…" for n in table.labels]
    left = 20.0 + LETTER * max(6, *(len(n) for n in names))
    side = WIDTH - RIGHT - left

    def x(share: float) -> float:
        return left + side * share

    parts = [
        tag("line", x1=x(share), x2=x(share), y1=TOP, y2=bottom, class_="grid")
        for share in (0.0, 0.5, 1.0)
    ]
    parts += [text(f"{100 * s:.0f}{'%' if s else ''}", x(s), height - 8) for s in (0.0, 0.5, 1.0)]
    for k, label in enumerate(table.labels):
        middle = TOP + ROW * (k + 0.5)
        value, low, high = (float(v[k]) for v in (found.coverage, found.low, found.high))
        tip = (
            f"{label} · {nodes(found.counts[k])} · {percent(value)} hold the class "
            f"({percent(low)} to {percent(high)})"
        )
        parts.append(
            join(
                [
                    text(names[k], left - 12, middle + 4, "end", class_="name"),
                    text(count(found.counts[k]), WIDTH, middle + 4, "end"),
                    rect(x(0), middle - 8, max(side * value, 1.0), 16.0, class_="bar"),
                    tag("line", x1=x(low), x2=x(high), y1=middle, y2=middle, class_="whisker"),
                    tag("circle", cx=x(value), cy=middle, r=3.5, class_="dot"),
                    rect(0, middle - ROW / 2, WIDTH, ROW, class_="mark column", data_tip=tip),
                ]
            )
        )
    parts.append(tag("line", x1=x(promised), x2=x(promised), y1=TOP, y2=bottom, class_="diagonal"))
    words = f"Share of sets that hold the class by {table.by}, {name}; promised {percent(promised)}"
    return picture(WIDTH, height, words, *parts, class_="slices")
