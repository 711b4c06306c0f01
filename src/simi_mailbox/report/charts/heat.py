"""The heat map of the report: similarity × confidence, and the bar of similarity above it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis import SimilarityBar, SimilarityConfidence
from simi_mailbox.report.charts.svg import Svg, join, picture, rect, tag, text, upright
from simi_mailbox.report.formatting import nodes, percent, points

LEFT, TOP, SIDE = 46.0, 52.0, 400.0
BAR_TOP, BAR = 12.0, 26.0
SCALE_TOP = TOP + SIDE + 62
WIDTH, HEIGHT = LEFT + SIDE + 14, SCALE_TOP + 34
FULL = 30
"""A cell of so many nodes fills its square; fewer nodes make a smaller one, as they say less."""
SMALLEST = 0.28


def gap_limit(
    gaps: Iterable[tuple[Floats, Ints]], least: float, most: float = 1.0, otherwise: float = 0.0
) -> float:
    """The gap of the deepest colour: the largest of those that enough nodes stand behind.

    It lies between ``least`` and ``most``; where no gap is known it is ``otherwise``.
    """
    sure = [np.abs(gap[(counts >= FULL) & ~np.isnan(gap)]) for gap, counts in gaps]
    known = np.concatenate([*sure, np.empty(0)])
    return float(min(max(known.max(), least), most)) if known.size else otherwise or least


def heat_chart(table: SimilarityConfidence, bar: SimilarityBar, name: str, limit: float) -> Svg:
    """Gap over similarity (to the right) and confidence (upwards)."""
    known = not np.isnan(table.gap[table.counts > 0]).any()
    most = max(int(table.counts.max()), 1)
    rows, columns = table.counts.shape
    step_x, step_y = SIDE / columns, SIDE / rows
    parts = [_frame(rows, columns)]
    for row in range(rows):
        for column in range(columns):
            x, y = LEFT + column * step_x, TOP + SIDE - (row + 1) * step_y
            parts.append(rect(x + 1, y + 1, step_x - 2, step_y - 2, class_="cell"))
            if table.counts[row, column] == 0:
                continue
            gap, size = float(table.gap[row, column]), int(table.counts[row, column])
            share = 1.0 if not known else max(SMALLEST, min(1.0, (size / FULL) ** 0.5))
            parts.append(
                rect(
                    x + 1 + (1 - share) * (step_x - 2) / 2,
                    y + 1 + (1 - share) * (step_y - 2) / 2,
                    share * (step_x - 2),
                    share * (step_y - 2),
                    **_colour(gap, limit) if known else _amount(size, most),
                )
            )
            parts.append(
                rect(
                    x,
                    y,
                    step_x,
                    step_y,
                    class_="mark square",
                    data_tip=_cell_tip(table, row, column, known),
                )
            )
    parts.append(_bar(bar, limit, known))
    if known:
        parts.append(_scale(limit))
    label = (
        f"Heat map, {name}: accuracy minus confidence over neighbour agreement and confidence"
        if known
        else f"Number of nodes over neighbour agreement and confidence, {name}"
    )
    return picture(WIDTH, HEIGHT if known else SCALE_TOP, label, *parts, class_="heat")


def _colour(gap: float, limit: float) -> dict[str, object]:
    strength = min(1.0, abs(gap) / limit)
    return {
        "class_": "under" if gap > 0 else "over",
        "fill_opacity": round(0.04 + 0.96 * strength, 2),
    }


def _amount(size: int, most: int) -> dict[str, object]:
    return {"class_": "amount", "fill_opacity": round(0.06 + 0.94 * (size / most) ** 0.5, 2)}


def _frame(rows: int, columns: int) -> Svg:
    parts = []
    for k in range(0, rows + 1, max(1, rows // 5)):
        y = TOP + SIDE * (1 - k / rows)
        parts.append(text(f"{100 * k / rows:.0f}", LEFT - 8, y + 4, "end"))
    for k in range(0, columns + 1, max(1, columns // 5)):
        x = LEFT + SIDE * k / columns
        parts.append(text(f"{100 * k / columns:.0f}", x, TOP + SIDE + 18))
    parts.append(
        text("neighbours given the same class, %", LEFT + SIDE / 2, TOP + SIDE + 40, class_="axis")
    )
    parts.append(upright("said to be sure, %", TOP + SIDE / 2))
    parts.append(text("all", LEFT - 8, BAR_TOP + 17, "end"))
    return join(parts)


def _bar(bar: SimilarityBar, limit: float, known: bool) -> Svg:
    columns = len(bar.counts)
    step, most = SIDE / columns, max(int(bar.counts.max()), 1)
    parts = []
    for column in range(columns):
        x = LEFT + column * step
        box = (x + 1, BAR_TOP, step - 2, BAR)
        parts.append(rect(*box, class_="cell"))
        size = int(bar.counts[column])
        if size == 0:
            continue
        colour = _colour(float(bar.gap[column]), limit) if known else _amount(size, most)
        parts.append(rect(*box, **colour))
        low, high = bar.edges[column], bar.edges[column + 1]
        tip = f"{percent(low, 0)} to {percent(high, 0)} of neighbours agree · {nodes(size)}"
        tip += f" · said {percent(bar.confidence[column])}"
        if known:
            tip += f" · right {percent(bar.accuracy[column])} · gap {points(bar.gap[column])}"
        parts.append(rect(*box, class_="mark square", data_tip=tip))
    return join(parts)


def _cell_tip(table: SimilarityConfidence, row: int, column: int, known: bool) -> str:
    tip = f"{nodes(table.counts[row, column])} · said {percent(table.confidence[row, column])}"
    if known:
        tip += (
            f" · right {percent(table.accuracy[row, column])}"
            f" · gap {points(table.gap[row, column])}"
        )
    low, high = table.similarity_edges[column], table.similarity_edges[column + 1]
    return f"{tip} · {percent(low, 0)} to {percent(high, 0)} of neighbours agree"


def _scale(limit: float) -> Svg:
    steps, width = 11, 36.0
    start = LEFT + SIDE / 2 - steps * width / 2
    stop = start + steps * width - 2
    parts = [
        tag("text", f"{points(-limit, 0)} says too much", x=start, y=SCALE_TOP + 28, class_="tick"),
        text(f"says too little {points(limit, 0)}", stop, SCALE_TOP + 28, "end"),
    ]
    for k in range(steps):
        gap = limit * (2 * k / (steps - 1) - 1)
        box = (start + k * width, SCALE_TOP, width - 2, 10.0)
        parts.append(rect(*box, class_="cell"))
        if gap:
            parts.append(rect(*box, **_colour(gap, limit)))
    return join(parts)
