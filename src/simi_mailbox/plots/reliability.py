"""The reliability diagram."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox.metrics import Reliability
from simi_mailbox.plots.style import ACCENT, INK, MUTED, above_axes, axes, percent, tidy

COUNTS_HEIGHT = 0.16
FEW = 10
"""Bins of fewer nodes are drawn hollow and not joined: they say little."""


def reliability_diagram(
    curve: Reliability,
    ax: Any = None,
    *,
    label: str | None = None,
    color: str = ACCENT,
    band: bool = True,
    counts: bool = True,
) -> Any:
    """Draw accuracy against confidence, with the band and the number of nodes of each bin.

    Bins of fewer than ten nodes are hollow and not joined. Call it again on the same axes to draw
    a second method over the first (with ``counts=False``, or the bars of both overlap).

    Parameters
    ----------
    curve : Reliability
        As of `analysis.reliability_curve` or `metrics.reliability`.
    label : str, optional
        Name in the legend; the calibration error is added to it.
    color : str
        Colour of the curve.
    band, counts : bool
        Whether to draw the band around the accuracies and the bars of counts.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.analysis import reliability_curve
    >>> curve = reliability_curve(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> ax = reliability_diagram(curve, label="before")
    >>> ax.get_legend_handles_labels()[1]
    ['before, ECE 10.0 %']
    """
    ax = axes(ax, (4.6, 4.6))
    known = curve.counts > 0
    if not any(line.get_gid() == "diagonal" for line in ax.lines):
        ax.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 4)), gid="diagonal")
    if counts:
        share = curve.counts / max(int(curve.counts.max()), 1) * COUNTS_HEIGHT
        # Heights are fractions of the axes, so that bars need no second scale.
        ax.bar(
            curve.edges[:-1],
            share,
            width=np.diff(curve.edges) * 0.92,
            align="edge",
            color=color,
            alpha=0.18,
            linewidth=0,
            transform=ax.get_xaxis_transform(),
        )
    many = curve.counts >= FEW
    if band:
        ax.vlines(
            curve.confidence[many],
            curve.low[many],
            curve.high[many],
            color=color,
            alpha=0.35,
            linewidth=5,
        )
    name = None if label is None else f"{label}, ECE {100 * curve.ece:.1f} %"
    ax.plot(
        curve.confidence[many],
        curve.accuracy[many],
        color=color,
        marker="o",
        markersize=4.5,
        linewidth=1.6,
        clip_on=False,
        label=name,
    )
    few = known & ~many
    if few.any():  # an empty line that is not clipped makes a layout collapse
        ax.plot(
            curve.confidence[few],
            curve.accuracy[few],
            linestyle="none",
            marker="o",
            markersize=4,
            clip_on=False,
            markerfacecolor="none",
            markeredgecolor=color,
            alpha=0.6,
        )
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="confidence", ylabel="accuracy")
    percent(ax, "x", "y")
    tidy(ax)
    if name is not None:
        above_axes(ax, INK)
    return ax
