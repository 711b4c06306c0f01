"""Figures of several pictures, as in the paper: methods side by side, hyper-parameters turned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from simi_mailbox import plots
from simi_mailbox._arrays import Floats
from simi_mailbox._extras import require
from simi_mailbox.analysis import SimilarityConfidence
from simi_mailbox.metrics import Reliability
from simi_mailbox.plots.draw import COLORS, legend_handles

INK, MUTED, ACCENT = COLORS["ink"], COLORS["ghost"], COLORS["accent"]
SERIES = (ACCENT, COLORS["over"], COLORS["under"], "#7a4f9a", "#9a7b14", COLORS["muted"])
"""Colours of methods drawn together, dark enough on white and apart for colour-blind readers."""
Palette = Literal["blue-orange", "red-green"]
PALETTES = {"blue-orange": {}, "red-green": {"over": "#00682f", "under": "#a50f15"}}
"""The second is the paper's: red is under-confident. Colour-blind readers need the first."""


def diverging(palette: Palette) -> Any:
    """Colour map of accuracy minus confidence: negative (over-confident) to positive (under-)."""
    colors = require("matplotlib.colors", extra="plot")
    ends = {**COLORS, **PALETTES[palette]}
    steps = [ends["over"], "#ffffff", ends["under"]]
    return colors.LinearSegmentedColormap.from_list(palette, steps)


@dataclass(frozen=True)
class FigureColumn:
    """One method of an observation figure: its name, curve and heat map."""

    name: str
    curve: Reliability
    heat: SimilarityConfidence


@dataclass(frozen=True)
class Sensitivity:
    """A metric over values of one hyper-parameter: mean and standard deviation over runs.

    ``reference`` is the metric of a method without this parameter; NaN if there is none.
    """

    parameter: str
    metric: str
    values: Floats
    mean: Floats
    std: Floats
    runs: int
    reference: float
    reference_name: str


def observation_figure(
    columns: Sequence[FigureColumn],
    *,
    title: str = "",
    palette: Palette = "blue-orange",
    fewest: int = 1,
    rows: Sequence[str] = ("curve", "heat"),
) -> Any:
    """Reliability diagrams and heat maps of several methods, one column each, as one figure."""
    if not columns:
        raise ValueError("no method to draw")
    if not rows or set(rows) - {"curve", "heat"}:
        raise ValueError(f"rows must be some of curve and heat, got {list(rows)}")
    figures = require("matplotlib.figure", extra="plot")
    size = (3.2 * len(columns) + 0.6, 3.6 * len(rows) + 1.2)
    figure = figures.Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    handles: dict[str, Any] = {}
    for across, column in enumerate(columns):
        for down, row in enumerate(rows):
            if row == "curve":
                picture = plots.reliability_diagram(column.curve)
            else:
                picture = plots.heat_map(column.heat, fewest=fewest)
            ax = picture.plot(grid[down, across], colors=PALETTES[palette], legend=False)
            handles |= legend_handles(picture, {**COLORS, **PALETTES[palette]})
            if across:
                ax.set_ylabel("")
        error = f"\nECE {100 * column.curve.ece:.2f} %" if rows[0] == "curve" else ""
        grid[0, across].set_title(f"{column.name}{error}", fontsize=11, color=INK)
    shown = {name: handle for name, handle in handles.items() if not name.startswith("ECE")}
    _legend(figure, shown, max(2, min(len(columns), 4)))
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return figure


def sensitivity_figure(
    panels: Mapping[str, Mapping[str, Sequence[tuple[str, Sensitivity]]]], *, title: str = ""
) -> Any:
    """Curves over hyper-parameters: one column for each dataset, one row for each parameter.

    ``panels`` is dataset → parameter → named curves.
    """
    if not panels:
        raise ValueError("no dataset to draw")
    figures = require("matplotlib.figure", extra="plot")
    parameters = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    size = (max(3.4 * len(panels) + 0.6, 5.0), 2.7 * len(parameters) + 1.0)
    figure = figures.Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(parameters), len(panels), squeeze=False)
    names = dict.fromkeys(
        name for rows in panels.values() for curves in rows.values() for name, _ in curves
    )
    colours = {name: SERIES[k % len(SERIES)] for k, name in enumerate(names)}
    handles: dict[str, Any] = {}
    for across, (dataset, by_parameter) in enumerate(panels.items()):
        grid[0, across].set_title(dataset, fontsize=11, color=INK)
        for down, parameter in enumerate(parameters):
            ax = grid[down, across]
            named = by_parameter.get(parameter, ())
            if not named:
                ax.set_axis_off()
            for name, curve in named:
                handles[name] = _draw_curve(curve, ax, colours[name], handles)
            if across:
                ax.set_ylabel("")
    _legend(figure, handles, 2 if len(panels) == 1 else len(handles))
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return figure


def _draw_curve(curve: Sensitivity, ax: Any, color: str, handles: dict[str, Any]) -> Any:
    """Mean over the values with its spread; the line of the reference joins the handles."""
    if curve.runs > 1:
        ends = curve.mean - curve.std, curve.mean + curve.std
        ax.fill_between(curve.values, *ends, color=color, alpha=0.14, linewidth=0)
    line = ax.plot(curve.values, curve.mean, "o-", color=color, markersize=4.5)[0]
    if not np.isnan(curve.reference):
        style = {"color": MUTED, "linestyle": (0, (4, 4)), "linewidth": 1.2}
        handles[curve.reference_name or "reference"] = ax.axhline(curve.reference, **style)
    ax.set_xticks(curve.values)
    ax.set(xlabel=curve.parameter, ylabel=curve.metric)
    ax.grid(axis="y", color=COLORS["rule"], linewidth=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return line


def _legend(figure: Any, handles: dict[str, Any], columns: int) -> None:
    style = {"frameon": False, "fontsize": 9, "labelcolor": INK}
    place = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles.values(), handles.keys(), **place, **style)
