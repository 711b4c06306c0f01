"""The groups of a calibrator on the map of similarity and confidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.analysis import GroupMap
from simi_mailbox.plots.style import (
    INK,
    MUTED,
    RULE,
    Palette,
    axes,
    diverging,
    percent,
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
    ax : matplotlib Axes, optional
        Where to draw; a new figure if not given.
    palette : {"blue-orange", "red-green"}
        Colours, as in `heat_map`.
    colorbar, labels : bool
        Whether to draw the scale of temperatures, and the number of labels of each group.

    Returns
    -------
    matplotlib Axes

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
    ax.set(xlabel="neighbourhood similarity (mailbox)", ylabel="confidence before")
    ax.margins(0.12)
    ax.locator_params(axis="x", nbins=5)
    ax.ticklabel_format(axis="x", useOffset=False, style="plain")
    percent(ax, "y")
    tidy(ax, grid="both")
    if colorbar:
        _temperature_scale(ax, marks, centre, top)
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
    scale.outline.set_edgecolor(RULE)
    scale.ax.tick_params(colors=MUTED, labelsize=9, length=3)
    scale.set_label("temperature", color=INK, fontsize=9)
