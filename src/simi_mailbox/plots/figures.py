"""Figures of several pictures: those of the paper, from analysis objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._extras import require
from simi_mailbox.analysis import Sensitivity, SimilarityBar, SimilarityConfidence
from simi_mailbox.metrics import Reliability
from simi_mailbox.plots import similarity
from simi_mailbox.plots.comparison import sensitivity_curve
from simi_mailbox.plots.reliability import reliability_diagram
from simi_mailbox.plots.style import INK, SERIES, Palette, diverging, symmetric_limit

# All in inches. A fixed grid, because matplotlib's automatic layouts give up on a row as low as
# that of the bars; it also puts each bar exactly above its map.
SIDE, BAR = 2.5, 0.36
LEFT, RIGHT, TOP, BOTTOM = 0.75, 1.25, 0.95, 0.6
GAP_X, GAP_Y, GAP_BELOW_BAR = 0.62, 0.75, 0.3


@dataclass(frozen=True)
class Column:
    """One method of an observation figure: its curve, its bar and its heat map.

    Examples
    --------
    >>> from simi_mailbox import analysis
    >>> probs, y, similarity = [[0.9, 0.1], [0.8, 0.2]], [0, 1], [1.0, 0.5]
    >>> curve = analysis.reliability_curve(probs, y)
    >>> bar = analysis.similarity_bar(probs, y, similarity)
    >>> heat = analysis.similarity_confidence(probs, y, similarity)
    >>> Column("a model", curve, bar, heat).name
    'a model'
    """

    name: str
    curve: Reliability
    bar: SimilarityBar
    heat: SimilarityConfidence


def observation_figure(
    columns: Sequence[Column],
    *,
    title: str = "",
    palette: Palette = "blue-orange",
    fewest: int = 1,
    rows: Sequence[str] = ("curve", "bar", "heat"),
) -> Any:
    """Reliability diagram, similarity bar and heat map of several methods, one column each.

    All bars and maps share one scale of colours.

    Parameters
    ----------
    columns : sequence of Column
        The methods.
    title : str
        Above the figure.
    palette : {"blue-orange", "red-green"}
        As in `heat_map`.
    fewest : int
        Cells of fewer nodes stay blank.
    rows : sequence of {"curve", "bar", "heat"}
        Which pictures to draw.

    Returns
    -------
    matplotlib Figure
        Not known to pyplot: save it with ``figure.savefig(path)``.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox import analysis
    >>> p, y, s = np.tile([0.8, 0.2], (50, 1)), np.repeat([0, 1], [40, 10]), np.full(50, 0.5)
    >>> column = Column(
    ...     "one", analysis.reliability_curve(p, y), analysis.similarity_bar(p, y, s),
    ...     analysis.similarity_confidence(p, y, s),
    ... )
    >>> len(observation_figure([column], rows=["heat"]).axes)
    2
    """
    if not columns:
        raise ValueError("no method to draw")
    unknown = sorted(set(rows) - {"curve", "bar", "heat"})
    if unknown or not rows:
        raise ValueError(f"rows must be some of curve, bar and heat, got {list(rows)}")
    figure, grid, scale = _grid(len(columns), rows)
    limit = _limit(columns, fewest)
    for across, column in enumerate(columns):
        for down, row in enumerate(rows):
            ax = grid[down][across]
            if row == "curve":
                reliability_diagram(column.curve, ax)
            elif row == "bar":
                similarity.similarity_bar(column.bar, ax, palette=palette, limit=limit)
                if row != rows[-1]:  # the map below has the same axis
                    ax.set_xlabel("")
                    ax.tick_params(labelbottom=False)
            else:
                similarity.heat_map(
                    column.heat, ax, palette=palette, limit=limit, fewest=fewest, colorbar=False
                )
            if across:
                ax.set_ylabel("")
        grid[0][across].set_title(_heading(column, rows[0]), fontsize=11, color=INK)
    if scale is not None:
        _shared_scale(scale, limit, palette)
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return figure


def sensitivity_figure(
    panels: Mapping[str, Mapping[str, Sequence[tuple[str, Sensitivity]]]], *, title: str = ""
) -> Any:
    """Curves over hyper-parameters: one column for each dataset, one row for each parameter.

    Parameters
    ----------
    panels : mapping of str to mapping of str to sequence of (str, Sensitivity)
        Dataset → parameter → named curves.
    title : str
        Above the figure.

    Examples
    --------
    >>> from simi_mailbox.analysis import sensitivity
    >>> curve = sensitivity([5, 10], [[2.0], [3.0]], parameter="N")
    >>> len(sensitivity_figure({"Cora": {"N": [("ours", curve)]}}).axes)
    1
    """
    if not panels:
        raise ValueError("no dataset to draw")
    figures = require("matplotlib.figure", extra="plot")
    parameters = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    figure = figures.Figure(
        figsize=(max(3.4 * len(panels) + 0.6, 5.0), 2.7 * len(parameters) + 1.0),
        layout="constrained",
    )
    grid = figure.subplots(len(parameters), len(panels), squeeze=False)
    names = dict.fromkeys(
        name for rows in panels.values() for curves in rows.values() for name, _ in curves
    )
    colours = {name: SERIES[k % len(SERIES)] for k, name in enumerate(names)}
    shown: dict[str, Any] = {}
    for across, (dataset, by_parameter) in enumerate(panels.items()):
        grid[0, across].set_title(dataset, fontsize=11, color=INK)
        for down, parameter in enumerate(parameters):
            ax = grid[down, across]
            named = by_parameter.get(parameter, ())
            if not named:
                ax.set_axis_off()
                continue
            for name, curve in named:
                sensitivity_curve(curve, ax, label=name, color=colours[name])
            if across:
                ax.set_ylabel("")
            shown |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
            ax.get_legend().remove()
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside lower center",
        ncols=2 if len(panels) == 1 else len(shown),
        frameon=False,
        fontsize=9,
        labelcolor=INK,
    )
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return figure


def _grid(columns: int, rows: Sequence[str]) -> tuple[Any, list[list[Any]], Any]:
    """A figure, its axes by row and column, and axes for the scale of colours if one is needed."""
    figures = require("matplotlib.figure", extra="plot")
    heights = [BAR if row == "bar" else SIDE for row in rows]
    below = [GAP_BELOW_BAR if row == "bar" else GAP_Y for row in rows[:-1]]
    coloured = any(row != "curve" for row in rows)
    width = LEFT + columns * SIDE + (columns - 1) * GAP_X + (RIGHT if coloured else 0.3)
    height = TOP + sum(heights) + sum(below) + BOTTOM
    figure = figures.Figure(figsize=(width, height))

    def place(x: float, y: float, w: float, h: float) -> Any:
        return figure.add_axes((x / width, y / height, w / width, h / height))

    grid: list[list[Any]] = []
    scale, top = None, height - TOP
    for tall, gap, row in zip(heights, [*below, 0.0], rows, strict=True):
        floor = top - tall
        grid.append([place(LEFT + k * (SIDE + GAP_X), floor, SIDE, tall) for k in range(columns)])
        last = row == [r for r in rows if r != "curve"][-1] if coloured else False
        if last:
            scale = place(width - RIGHT + 0.18, floor, 0.12, max(tall, SIDE))
        top = floor - gap
    return figure, grid, scale


def _heading(column: Column, first: str) -> str:
    ece = f"\nECE {100 * column.curve.ece:.2f} %" if first == "curve" else ""
    return f"{column.name}{ece}"


def _limit(columns: Sequence[Column], fewest: int) -> float:
    values = [np.where(c.heat.counts >= fewest, np.abs(c.heat.gap), np.nan) for c in columns]
    values += [np.abs(c.bar.gap)[None, :] for c in columns]
    return symmetric_limit(np.concatenate([v.ravel() for v in values]), None)


def _shared_scale(ax: Any, limit: float, palette: Palette) -> None:
    colors = require("matplotlib.colors", extra="plot")
    cm = require("matplotlib.cm", extra="plot")
    shades = cm.ScalarMappable(colors.Normalize(-limit, limit), diverging(palette))
    similarity.label_scale(ax.figure.colorbar(shades, cax=ax))
