"""Small pictures: a score with its interval, a gap as a bar, temperatures counted."""

from __future__ import annotations

import numpy as np

from simi_mailbox.analysis import TemperatureHistogram
from simi_mailbox.report.charts.svg import Svg, picture, rect, tag, text
from simi_mailbox.report.formatting import nodes, number, percent


def score_strip(value: float, low: float, high: float, floor: float, top: float) -> Svg:
    """A calibration error on a line from 0 to ``top``, with its interval and the noise floor."""
    width, height, room = 220.0, 26.0, 7.0

    def x(share: float) -> float:
        return room + (width - 2 * room) * min(share / top, 1.0)

    label = f"{percent(value)}, interval {percent(low)} to {percent(high)}"
    return tag(
        "svg",
        rect(room, 5, x(floor) - room, height - 10, class_="floor"),
        tag("line", x1=room, x2=width - room, y1=height / 2, y2=height / 2, class_="grid"),
        tag("line", x1=x(low), x2=x(high), y1=height / 2, y2=height / 2, class_="band"),
        tag("circle", cx=x(value), cy=height / 2, r=5.0, class_="dot"),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="strip",
        role="img",
        aria_label=label,
    )


def gap_bar(gap: float, limit: float) -> Svg:
    """A gap as a bar to the left (says too much) or to the right (says too little)."""
    if np.isnan(gap):
        return Svg("")
    width, height = 64.0, 12.0
    size = width / 2 * min(abs(gap) / limit, 1.0)
    return tag(
        "svg",
        tag("line", x1=width / 2, x2=width / 2, y1=0, y2=height, class_="base"),
        rect(
            width / 2 if gap > 0 else width / 2 - size,
            2,
            size,
            height - 4,
            class_="under" if gap > 0 else "over",
        ),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="gapbar",
        aria_hidden="true",
    )


def histogram(table: TemperatureHistogram, name: str) -> Svg:
    """How many nodes have which temperature, on a logarithmic axis."""
    left, top, width, height = 14.0, 10.0, 432.0, 110.0
    low, high = np.log(table.edges[0]), np.log(table.edges[-1])
    most = max(int(table.counts.max()), 1)

    def x(temperature: float) -> float:
        return float(left + width * (np.log(temperature) - low) / (high - low))

    parts = []
    for k in np.flatnonzero(table.counts):
        tall = max(1.5, height * table.counts[k] / most)
        start, stop = x(table.edges[k]), x(table.edges[k + 1])
        tip = (
            f"{nodes(table.counts[k])} · temperature {number(table.edges[k], 2)} to "
            f"{number(table.edges[k + 1], 2)}"
        )
        parts.append(
            rect(start + 0.5, top + height - tall, max(stop - start - 1, 1.0), tall, class_="bar")
        )
        parts.append(rect(start, top, stop - start, height, class_="mark column", data_tip=tip))
    floor = top + height
    parts.append(tag("line", x1=left, x2=left + width, y1=floor, y2=floor, class_="base"))
    for step in range(5):
        value = float(np.exp(low + (high - low) * step / 4))
        parts.append(text(number(value, 2), x(value), floor + 18))
    if low < 0 < high:
        parts.append(tag("line", x1=x(1.0), x2=x(1.0), y1=top, y2=floor, class_="diagonal"))
    label = f"Temperatures of nodes, {name}: median {number(table.median, 2)}"
    return picture(left + width + 14, floor + 26, label, *parts, class_="temperatures")
