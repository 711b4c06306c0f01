"""What a picture is: marks on two axes, described once for matplotlib and for SVG; its words."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from simi_mailbox._arrays import Array

THIN = "\u202f"  # narrow no-break space: "90 %" never falls apart at a line's end
MINUS = "\u2212"
LETTER, LONGEST = 7.6, 24
"""Pixels that a letter takes, and letters that a name is cut to."""
ROW_WIDTH, ROW_HEIGHT = 340.0, 32.0


def percent(value: float, digits: int = 1) -> str:
    """Share as a percentage: 90.1 %."""
    return "–" if math.isnan(value) else f"{100 * value:.{digits}f}{THIN}%"


def points(value: float, digits: int = 1) -> str:
    """Difference of two shares, in percentage points, with its sign: +3.1."""
    if math.isnan(value):
        return "–"
    text = f"{abs(100 * value):.{digits}f}"
    return text if float(text) == 0 else f"{'+' if value > 0 else MINUS}{text}"


def count(value: float) -> str:
    """Whole number with separators: 169,343."""
    return f"{int(value):,}"


def nodes(value: int) -> str:
    """Number of nodes: 1 node, 2,000 nodes."""
    return f"{count(value)} node{'' if value == 1 else 's'}"


def number(value: float, digits: int = 3) -> str:
    """Plain number."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def compared(confidence: float, gap: float) -> str:
    """Confidence, and accuracy and gap where they are known: what shapes say under the pointer."""
    told = f"confidence {percent(confidence)}"
    if math.isnan(gap):
        return told
    return f"{told} · accuracy {percent(confidence + gap)} · gap {points(gap)}"


def listed(*words: str) -> str:
    """Words that are not empty, with commas between."""
    return ", ".join(filter(None, words))


@dataclass(frozen=True)
class Axis:
    """Label, ends, and ticks with their words; ends may be turned round."""

    label: str
    ends: tuple[float, float]
    ticks: Sequence[tuple[float, str]] = ()
    grid: bool = False


@dataclass(frozen=True)
class Shapes:
    """Shapes that look alike: a line through all points, an area around them, or for every point a
    stick to (x2, y2), a box to that corner, or a dot.

    ``style`` names their colours. ``strength`` (0 to 1) and ``radius`` (pixels, of dots) may be one
    number for all. ``tips`` show under the pointer, ``label`` in the legend.
    """

    kind: Literal["line", "area", "sticks", "boxes", "dots"]
    style: str
    x: Any = ()
    y: Any = ()
    x2: Any = 0.0
    y2: Any = 0.0
    _: KW_ONLY
    radius: Any = 4.5
    strength: Any = 1.0
    tips: Sequence[str] = ()
    label: str = ""

    def columns(self) -> list[Array]:
        """x, y, x2, y2, radius and strength of every shape."""
        given = (self.x, self.y, self.x2, self.y2, self.radius, self.strength)
        return list(np.broadcast_arrays(*map(np.atleast_1d, given)))

    @property
    def points(self) -> int:
        return int(np.size(self.x))


@dataclass(frozen=True)
class Picture:
    """Axes and shapes, in the order in which they are drawn.

    ``name`` is for screen readers; ``size`` is that of the field between the axes, in pixels of the
    report; ``square`` if one unit is as long on both axes.
    """

    name: str
    x: Axis
    y: Axis
    shapes: Sequence[Shapes]
    size: tuple[float, float] = (400.0, 300.0)
    square: bool = False

    def plot(
        self, ax: Any = None, *, colors: Mapping[str, str] | None = None, legend: bool = True
    ) -> Any:
        """Draw on matplotlib axes, those of a new figure if none are given, and return them.

        ``colors`` replace those of "accent", "over", "under", "muted", "rule", as far as given.
        """
        from simi_mailbox.plots.draw import draw

        return draw(self, ax, colors or {}, legend)

    def svg(self) -> str:
        """The picture as SVG; colours are those of the report's style sheet."""
        from simi_mailbox.plots.svg import svg

        return svg(self)


def percent_axis(
    label: str, low: float = 0.0, high: float = 1.0, *, grid: bool = False, most: int = 6
) -> Axis:
    """An axis of shares, with at most ``most`` ticks, in percent."""
    words = [(share, f"{100 * share:.3g} %") for share in nice_ticks(low, high, most)]
    return Axis(label, (low, high), words, grid)


def nodes_axis(largest: int, most: int = 6, *, grid: bool = False) -> Axis:
    """An axis of numbers of nodes."""
    words = [(n, f"{n:,.0f}") for n in nice_ticks(0, largest, most)]
    return Axis("nodes", (0.0, 1.05 * largest), words, grid)


def row_picture(
    name: str, labels: Sequence[str], counts: Any, low: float, shapes: Sequence[Shapes]
) -> Picture:
    """Shares from ``low`` to 1 in named rows, the first on top, each with its number of nodes."""
    cut = [name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in labels]
    words = [f"{name} ({count(n)})" for name, n in zip(cut, counts, strict=True)]
    y = Axis("", (len(words) - 0.5, -0.5), list(enumerate(words)))
    # Names take what they need of a fixed width, so that letters are of one size in all charts.
    width = ROW_WIDTH - LETTER * max((len(word) for word in words), default=0)
    x = percent_axis("", low, grid=True, most=4)
    return Picture(name, x, y, shapes, (max(width, 120.0), ROW_HEIGHT * len(words)))


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` multiples of 1, 2 or 5 times a power of ten between ``low`` and ``high``."""
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (factor * power for factor in (1, 2, 5, 10, 20))
    step = next(step for step in steps if (high - low) / step + 1 <= most + 1e-9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
