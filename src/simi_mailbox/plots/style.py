"""Colours and axes that the plots share. Nothing here touches matplotlib's global settings."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox._extras import require

Palette = Literal["blue-orange", "red-green"]

INK = "#22262b"
MUTED = "#6b7480"
RULE = "#d9dde2"
ACCENT = "#2563a8"
SERIES = (ACCENT, "#b8560f", "#4d7c4a", "#7a4f9a", "#9a7b14", "#5b6672")
"""Colours of methods drawn together, dark enough on white and apart for colour-blind readers."""

# From over-confident to under-confident. Blue and orange stay apart under every common kind of
# colour blindness; red and green are the paper's and do not.
_DIVERGING: dict[str, tuple[str, ...]] = {
    "blue-orange": ("#8c3a04", "#d97a2b", "#f7d3ae", "#f7f7f5", "#bcd7ee", "#4a90c9", "#0f4c81"),
    "red-green": ("#00682f", "#4caf6a", "#c5e8cb", "#fbfbf9", "#f8cfc8", "#e0695a", "#a50f15"),
}


def diverging(palette: Palette) -> Any:
    """Colour map of accuracy minus confidence: negative (over-confident) to positive (under-)."""
    if palette not in get_args(Palette):
        raise ValueError(f"palette must be one of {', '.join(get_args(Palette))}, got {palette!r}")
    colors = require("matplotlib.colors", extra="plot")
    return colors.LinearSegmentedColormap.from_list(palette, _DIVERGING[palette])


def symmetric_limit(values: Floats, limit: float | None) -> float:
    """Largest absolute value, so that zero is the middle of the colours; ``limit`` if given."""
    if limit is not None:
        if not limit > 0:
            raise ValueError(f"limit must be positive, got {limit}")
        return float(limit)
    known = np.abs(values[~np.isnan(values)])
    return float(max(known.max(), 0.01)) if known.size else 1.0


def axes(ax: Any, size: tuple[float, float]) -> Any:
    """The axes given, or those of a new figure of ``size`` inches."""
    if ax is None:
        pyplot = require("matplotlib.pyplot", extra="plot")
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    return ax


def tidy(ax: Any, *, grid: str | None = None) -> None:
    """Quiet frame and ticks of one axes."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        ax.spines[side].set_color(RULE)
    ax.tick_params(colors=MUTED, labelsize=9, length=3)
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
    if grid is not None:
        ax.grid(axis=grid, color=RULE, linewidth=0.6)
        ax.set_axisbelow(True)


def above_axes(ax: Any, color: str) -> None:
    """The legend above the axes, where it covers no data."""
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    ax.legend(**place, frameon=False, fontsize=9, labelcolor=color)


def percent(ax: Any, *which: str) -> None:
    """Write the ticks of the axes named ("x", "y") as percentages of 1."""
    ticker = require("matplotlib.ticker", extra="plot")
    for name in which:
        getattr(ax, f"{name}axis").set_major_formatter(ticker.PercentFormatter(1.0, decimals=None))


def quiet_scale(scale: Any, label: str) -> None:
    """Frame, ticks and label of a colour bar."""
    scale.outline.set_edgecolor(RULE)
    scale.ax.tick_params(colors=MUTED, labelsize=9, length=3)
    scale.set_label(label, color=INK, fontsize=9)
