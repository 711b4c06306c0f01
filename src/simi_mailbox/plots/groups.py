"""What a calibrator did: its groups on the map, and the temperatures of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox._extras import require
from simi_mailbox.analysis import GroupMap, TemperatureHistogram
from simi_mailbox.plots.style import (
    ACCENT,
    INK,
    MUTED,
    Palette,
    axes,
    diverging,
    percent,
    quiet_scale,
    symmetric_limit,
    tidy,
)


def group_scatter(
    groups: GroupMap,
    ax: Any = None,
    *,
    palette: Palette = "blue-orange",
    colorbar: bool = True,
    labels: bool = True,
) -> Any:
    """Draw each group at its mean similarity and confidence, with its temperature as colour.

    Area is the number of nodes. Colours are around the median temperature of all nodes: orange
    groups lose more confidence than most, blue groups less. The number in a circle is how many
    calibration labels the group had.

    Parameters
    ----------
    groups : GroupMap
        As of `analysis.group_map`.
    palette : {"blue-orange", "red-green"}
        Colours, as in `heat_map`.
    colorbar, labels : bool
        Whether to draw the scale of temperatures, and the number of labels of each group.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.analysis import group_map
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3]])
    >>> table = group_map([0, 1], p, p, similarity=[1.0, 0.5], temperatures=[2.0, 1.0])
    >>> group_scatter(table).get_ylabel()
    'confidence before'
    """
    ax = axes(ax, (5.6, 4.4))
    there = groups.sizes > 0
    log_t = np.log(groups.temperatures[there])
    centre = _median(log_t, groups.sizes[there])
    top = symmetric_limit(log_t - centre, None)
    marks = ax.scatter(
        groups.similarity[there],
        groups.confidence[there],
        s=40 + 860 * groups.sizes[there] / groups.sizes.max(),
        c=centre - log_t,
        cmap=diverging(palette),
        vmin=-top,
        vmax=top,
        edgecolors=INK,
        linewidths=0.6,
        alpha=0.9,
        zorder=3,
    )
    if labels:
        for k in np.flatnonzero(there):
            ax.annotate(
                str(groups.calibration_labels[k]),
                (groups.similarity[k], groups.confidence[k]),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if abs(np.log(groups.temperatures[k]) - centre) > 0.7 * top else INK,
                zorder=4,
            )
    ax.set(xlabel="neighbourhood similarity", ylabel="confidence before")
    ax.margins(0.12)
    ax.locator_params(axis="x", nbins=5)
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    percent(ax, "y")
    tidy(ax, grid="both")
    if colorbar:
        _temperature_scale(ax, marks, centre, top)
    return ax


def temperature_histogram(
    table: TemperatureHistogram, ax: Any = None, *, color: str = ACCENT
) -> Any:
    """Draw how many nodes have which temperature, on a logarithmic scale.

    Takes what `analysis.temperature_histogram` returns, axes as `group_scatter` does, and a colour
    for the bars.

    Examples
    --------
    >>> from simi_mailbox.analysis import temperature_histogram as count
    >>> temperature_histogram(count([0.5, 1.0, 2.0])).get_xscale()
    'log'
    """
    ax = axes(ax, (5.0, 2.8))
    ticker = require("matplotlib.ticker", extra="plot")
    ax.bar(
        table.edges[:-1],
        table.counts,
        width=np.diff(table.edges),
        align="edge",
        color=color,
        linewidth=0,
    )
    low, high = table.edges[0] / 1.05, table.edges[-1] * 1.05
    if low < 1 < high:
        ax.axvline(1.0, color=MUTED, linestyle=(0, (4, 4)), linewidth=1)
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    wide = ticker.LogLocator(subs=(1.0, 2.0, 5.0))
    close = ticker.MaxNLocator(6, steps=[1, 2, 2.5, 5])
    ticks = (wide if high > 5 * low else close).tick_values(low, high)
    ax.set_xticks([tick for tick in ticks if low <= tick <= high])
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(ticker.NullFormatter())
    ax.set(xlabel="temperature (above 1 lowers confidence)", ylabel="nodes")
    tidy(ax, grid="y")
    return ax


def _median(values: Floats, weights: Ints) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) >= weights.sum() / 2
    return float(values[order][np.argmax(reached)])


def _temperature_scale(ax: Any, marks: Any, centre: float, top: float) -> None:
    scale = ax.figure.colorbar(marks, ax=ax, fraction=0.05, pad=0.03)
    # Colours run over −log T around the centre; the ticks say T itself.
    ticks = np.linspace(-top, top, 5)
    scale.set_ticks(ticks, labels=[f"{np.exp(centre - tick):.2f}" for tick in ticks])
    quiet_scale(scale, "temperature")
