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

INK = COLORS["ink"]
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
    """Mean ECE in percent over numbers of groups (rows) and weights λ (columns); NaN: no result.

    ``runs`` says of how many; ``reference`` is temperature scaling, ``beside`` the same on the
    runs of every cell, if some cells have fewer.
    """

    name: str
    groups: Sequence[int]
    weights: Sequence[int]
    mean: Floats
    runs: int | str
    reference: float
    beside: Floats | None = None


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
    panels: Mapping[str, Sequence[Sensitivity]], *, title: str = "", ink: str = INK
) -> Any:
    """Heat maps over N and λ: one row for each dataset, one column for each kind of label."""
    if not panels:
        raise ValueError("no dataset to draw")
    figures = require("matplotlib.figure", extra="plot")
    across = max(map(len, panels.values()))
    size = (4.6 * across, 3.0 * len(panels) + 0.6)
    figure = figures.Figure(figsize=size, layout="constrained")
    for axes, (dataset, grids) in zip(
        figure.subplots(len(panels), across, squeeze=False), panels.items(), strict=True
    ):
        for ax in axes[len(grids) :]:
            ax.set_axis_off()
        for ax, grid in zip(axes, grids, strict=False):
            _draw_grid(grid, ax, ink)
            told = f"{grid.name}\ntemperature {grid.reference:.2f}, {grid.runs} runs"
            ax.set_title(f"{dataset}: {told}", fontsize=9, color=ink)
    if title:
        figure.suptitle(title, fontsize=12, color=ink)
    return figure


def _draw_grid(grid: Sensitivity, ax: Any, ink: str) -> None:
    """Cells in the colours of lower (blue) and higher (orange) than temperature scaling."""
    beside = grid.reference if grid.beside is None else grid.beside
    change = np.log2(grid.mean / beside)
    ax.imshow(change, cmap=diverging("blue-orange").reversed(), vmin=-2, vmax=2, aspect="auto")
    for row, column in np.ndindex(*grid.mean.shape):
        if np.isfinite(grid.mean[row, column]):
            text = f"{grid.mean[row, column]:.2f}"
            dark = abs(change[row, column]) > 1
            style = {"ha": "center", "va": "center", "fontsize": 8}
            ax.text(column, row, text, color="white" if dark else INK, **style)
    ax.set_xticks(range(len(grid.weights)), labels=map(str, grid.weights))
    ax.set_yticks(range(len(grid.groups)), labels=map(str, grid.groups))
    ax.set_xlabel("weight λ", color=ink)
    ax.set_ylabel("number of groups N", color=ink)
    ax.tick_params(colors=ink)


def _legend(figure: Any, handles: dict[str, Any], columns: int) -> None:
    style = {"frameon": False, "fontsize": 9, "labelcolor": INK}
    place = {"loc": "outside lower center", "ncols": columns}
    figure.legend(handles.values(), handles.keys(), **place, **style)
