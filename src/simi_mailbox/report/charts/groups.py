"""The map of groups of the report."""

from __future__ import annotations

import numpy as np

from simi_mailbox.analysis import GroupMap
from simi_mailbox.report.charts.svg import Svg, picture, rect, tag, text, ticks, upright
from simi_mailbox.report.formatting import count, nodes, number, percent, points

LEFT, TOP, SIDE_X, SIDE_Y = 46.0, 12.0, 400.0, 300.0
WIDTH, HEIGHT = LEFT + SIDE_X + 14, TOP + SIDE_Y + 52
LARGEST, SMALLEST = 26.0, 4.0
ROOM = LARGEST + 2
"""Margin inside the field, so that no circle leaves it."""


def group_chart(groups: GroupMap, name: str, *, after: bool, limit: float) -> Svg:
    """Groups at their mean similarity and confidence; area is nodes, colour is the gap."""
    there = np.flatnonzero(groups.sizes > 0)
    low, high = _span(groups.similarity[there])
    said_low, said_high = _span(groups.confidence[there])
    gaps = groups.gap_after if after else groups.gap_before
    parts = [rect(LEFT, TOP, SIDE_X, SIDE_Y, class_="field")]
    for said in ticks(said_low, said_high):
        y = _y((said - said_low) / (said_high - said_low))
        parts.append(tag("line", x1=LEFT, x2=LEFT + SIDE_X, y1=y, y2=y, class_="grid"))
        parts.append(text(f"{100 * said:.3g}", LEFT - 8, y + 4, "end"))
    for similarity in ticks(low, high):
        x = _x((similarity - low) / (high - low))
        parts.append(text(f"{similarity:g}", x, TOP + SIDE_Y + 18))
    # Large circles first, so that small ones stay visible and reachable.
    for k in sorted(there.tolist(), key=lambda k: -groups.sizes[k]):
        radius = max(SMALLEST, LARGEST * (groups.sizes[k] / groups.sizes.max()) ** 0.5)
        x = _x(float(groups.similarity[k] - low) / (high - low))
        y = _y(float(groups.confidence[k] - said_low) / (said_high - said_low))
        gap = float(gaps[k])
        known = not np.isnan(gap)
        parts.append(
            tag(
                "circle",
                cx=float(x),
                cy=float(y),
                r=float(radius),
                class_="group mark " + (("under" if gap > 0 else "over") if known else "amount"),
                fill_opacity=round(0.08 + 0.92 * min(1.0, abs(gap) / limit), 2) if known else 0.3,
                data_tip=_tip(groups, int(k), after),
            )
        )
    parts.append(text("similarity to neighbours", LEFT + SIDE_X / 2, HEIGHT - 8, class_="axis"))
    parts.append(upright("said before, %", TOP + SIDE_Y / 2))
    state = "after" if after else "before"
    label = f"Groups of {name} by similarity and confidence, gap {state} calibration"
    return picture(WIDTH, HEIGHT, label, *parts, class_="groups")


def _span(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high - low > 1e-9 else (low - 0.01, high + 0.01)


def _x(share: float) -> float:
    return LEFT + ROOM + (SIDE_X - 2 * ROOM) * share


def _y(share: float) -> float:
    return TOP + ROOM + (SIDE_Y - 2 * ROOM) * (1 - share)


def _tip(groups: GroupMap, k: int, after: bool) -> str:
    said = groups.said_after[k] if after else groups.said_before[k]
    tip = f"group {k + 1} · {nodes(groups.sizes[k])} · T {number(groups.temperatures[k], 2)}"
    tip += f" · {count(groups.calibration_labels[k])} labels · said {percent(said)}"
    gap = groups.gap_after[k] if after else groups.gap_before[k]
    if not np.isnan(gap):
        tip += f" · right {percent(groups.accuracy[k])} · gap {points(gap)}"
    return tip
