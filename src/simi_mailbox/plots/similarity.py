"""Heat maps of accuracy minus confidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox._extras import require
from simi_mailbox.analysis import SimilarityBar, SimilarityConfidence
from simi_mailbox.plots.style import (
    INK,
    Palette,
    axes,
    diverging,
    percent,
    quiet_scale,
    symmetric_limit,
    tidy,
)

LEGEND = "accuracy − confidence"


def heat_map(
    table: SimilarityConfidence,
    ax: Any = None,
    *,
    palette: Palette = "blue-orange",
    limit: float | None = None,
    fewest: int = 1,
    numbers: bool = False,
    colorbar: bool = True,
) -> Any:
    """Draw accuracy minus confidence over neighbourhood similarity (x) and confidence (y).

    Parameters
    ----------
    table : SimilarityConfidence
        As of `analysis.similarity_confidence`.
    palette : {"blue-orange", "red-green"}
        Blue: under-confident, orange: over-confident; colour-blind readers can tell them apart.
        ``"red-green"`` is the paper's: red: under-confident, green: over-confident.
    limit : float, optional
        The value of the deepest colour; the largest absolute value if not given. Give the same to
        maps that are compared.
    fewest : int
        Cells of fewer nodes stay blank.
    numbers : bool
        Write the value, in percent, into each cell.
    colorbar : bool
        Draw the scale of colours.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.analysis import similarity_confidence
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> table = similarity_confidence(p, np.array([0, 1]), np.array([1.0, 0.0]))
    >>> heat_map(table).get_xlabel()
    'neighbourhood similarity'
    """
    ax = axes(ax, (5.2, 4.3))
    shown = np.where(table.counts >= fewest, table.gap, np.nan)
    top = symmetric_limit(shown, limit)
    mesh = _mesh(ax, table.similarity_edges, table.confidence_edges, shown, palette, top)
    if numbers:
        _write(ax, shown, table, top)
    ax.set(xlabel="neighbourhood similarity", ylabel="confidence", aspect="equal")
    ax.set_xticks(table.similarity_edges[:: max(1, len(table.similarity_edges) // 5)])
    percent(ax, "x", "y")
    tidy(ax)
    if colorbar:
        _scale(ax, mesh)
    return ax


def similarity_bar(
    bar: SimilarityBar,
    ax: Any = None,
    *,
    palette: Palette = "blue-orange",
    limit: float | None = None,
    colorbar: bool = False,
) -> Any:
    """Draw accuracy minus confidence over neighbourhood similarity as one row of colours.

    Parameters are those of `heat_map`.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.analysis import similarity_bar as compute
    >>> bar = compute(np.array([[0.9, 0.1]]), np.array([0]), np.array([0.5]))
    >>> similarity_bar(bar).get_yticks().tolist()
    []
    """
    ax = axes(ax, (5.2, 1.1))
    top = symmetric_limit(bar.gap, limit)
    mesh = _mesh(ax, bar.edges, [0, 1], bar.gap[None, :], palette, top)
    ax.set(xlabel="neighbourhood similarity", yticks=[])
    percent(ax, "x")
    tidy(ax)
    ax.spines["left"].set_visible(False)
    if colorbar:
        _scale(ax, mesh)
    return ax


def _mesh(ax: Any, x: Any, y: Any, gaps: Floats, palette: Palette, top: float) -> Any:
    ax.set_facecolor("#f1f2f4")
    return ax.pcolormesh(
        x,
        y,
        np.ma.masked_invalid(gaps),
        cmap=diverging(palette),
        vmin=-top,
        vmax=top,
        edgecolors="white",
        linewidth=1.2,
    )


def _write(ax: Any, shown: Floats, table: SimilarityConfidence, top: float) -> None:
    middle_y = (table.confidence_edges[1:] + table.confidence_edges[:-1]) / 2
    middle_x = (table.similarity_edges[1:] + table.similarity_edges[:-1]) / 2
    for row, column in np.argwhere(~np.isnan(shown)):
        value = shown[row, column]
        ax.text(
            middle_x[column],
            middle_y[row],
            f"{100 * value:+.0f}",
            ha="center",
            va="center",
            fontsize=7,
            color="white" if abs(value) > 0.72 * top else INK,
        )


def _scale(ax: Any, mesh: Any) -> None:
    label_scale(ax.figure.colorbar(mesh, ax=ax, fraction=0.05, pad=0.03))


def label_scale(scale: Any) -> None:
    """Write a colour bar of gaps in percent, and say which end is which."""
    ticker = require("matplotlib.ticker", extra="plot")
    percent_sign = ticker.FuncFormatter(lambda value, _: f"{100 * value:+.0f} %")
    scale.ax.yaxis.set_major_formatter(percent_sign)
    quiet_scale(scale, LEGEND + "\n← over-confident    under-confident →")
