"""Said and right in slices of nodes: two dots on a line for each slice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simi_mailbox.analysis import Breakdown
from simi_mailbox.report.charts.svg import Svg, join, picture, rect, tag, text, ticks
from simi_mailbox.report.formatting import count, nodes, percent, points

LEFT, SIDE, RIGHT, ROW, TOP, BOTTOM = 124.0, 206.0, 62.0, 32.0, 8.0, 28.0
WIDTH = LEFT + SIDE + RIGHT


def slice_chart(table: Breakdown, name: str) -> Svg:
    """One row for each slice: hollow dot: said, full dot: right, with two standard errors."""
    shown = np.flatnonzero(table.counts)
    height = TOP + ROW * shown.size + BOTTOM
    low, high = _span(table, shown)

    def x(share: float) -> float:
        return LEFT + SIDE * (min(max(share, low), high) - low) / (high - low)

    parts = []
    for share in ticks(low, high, 6):
        parts.append(
            tag("line", x1=x(share), x2=x(share), y1=TOP, y2=height - BOTTOM, class_="grid")
        )
        parts.append(text(f"{100 * share:.3g}{'%' if share == high else ''}", x(share), height - 8))
    for row, which in enumerate(shown):
        parts.append(_row(table, int(which), TOP + ROW * (row + 0.5), x))
    return picture(WIDTH, height, f"Said and right by {table.by}, {name}", *parts, class_="slices")


def _span(
    table: Breakdown, shown: np.ndarray[tuple[int], np.dtype[np.intp]]
) -> tuple[float, float]:
    values = np.concatenate([table.confidence[shown], table.accuracy[shown]])
    low = float(np.nanmin(values)) if shown.size else 0.0
    return max(0.0, float(np.floor(5 * low) / 5)), 1.0


def _row(table: Breakdown, k: int, y: float, place: Callable[[float], float]) -> Svg:
    said, right = float(table.confidence[k]), float(table.accuracy[k])
    parts = [
        text(table.labels[k], LEFT - 14, y + 4, "end", class_="name"),
        text(count(table.counts[k]), WIDTH, y + 4, "end"),
    ]
    tip = f"{table.labels[k]} · {nodes(table.counts[k])} · said {percent(said)}"
    if not np.isnan(right):
        tip += f" · right {percent(right)} · gap {points(right - said)}"
        error = 2 * float(table.gap_error[k])
        if not np.isnan(error):
            tip += f" ± {100 * error:.1f}"
            ends = place(right - error), place(right + error)
            parts.append(tag("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="band"))
        parts.append(
            tag(
                "line",
                x1=place(said),
                x2=place(right),
                y1=y,
                y2=y,
                class_="gap " + ("under" if right > said else "over"),
            )
        )
        parts.append(tag("circle", cx=place(right), cy=y, r=5.0, class_="dot"))
    parts.append(tag("circle", cx=place(said), cy=y, r=5.0, class_="dot said"))
    parts.append(rect(0, y - ROW / 2, WIDTH, ROW, class_="mark column", data_tip=tip))
    return join(parts)
