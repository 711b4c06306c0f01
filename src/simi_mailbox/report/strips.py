"""Small pictures inside tables: a score with its interval, a gap as a bar."""

import math

from simi_mailbox.plots.picture import percent
from simi_mailbox.plots.svg import Svg, tag


def score_strip(value: float, low: float, high: float, floor: float, top: float) -> Svg:
    """A calibration error on a line from 0 to ``top``, with its interval and the noise floor."""
    width, height, margin = 220.0, 26.0, 7.0
    y = {"y1": height / 2, "y2": height / 2}

    def x(share: float) -> float:
        return margin + (width - 2 * margin) * min(share / top, 1.0)

    return tag(
        "svg",
        tag("rect", x=margin, y=5.0, width=x(floor) - margin, height=height - 10, class_="floor"),
        tag("line", x1=margin, x2=width - margin, **y, class_="grid"),
        tag("line", x1=x(low), x2=x(high), **y, class_="band"),
        tag("circle", cx=x(value), cy=height / 2, r=5.0, class_="dot"),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="strip",
        role="img",
        aria_label=f"{percent(value)}, interval {percent(low)} to {percent(high)}",
    )


def gap_bar(gap: float, limit: float) -> Svg:
    """A gap as a bar to the left (over-confident) or to the right (under-confident)."""
    if math.isnan(gap):
        return Svg("")
    width, height = 64.0, 12.0
    size = width / 2 * min(abs(gap) / limit, 1.0)
    left = width / 2 if gap > 0 else width / 2 - size
    style = "under" if gap > 0 else "over"
    return tag(
        "svg",
        tag("line", x1=width / 2, x2=width / 2, y1=0.0, y2=height, class_="base"),
        tag("rect", x=left, y=2.0, width=size, height=height - 4, class_=style),
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        class_="gapbar",
        aria_hidden="true",
    )
