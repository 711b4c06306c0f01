"""What can be decided: errors among the accepted, and for whom sets hold the label."""

from __future__ import annotations

from typing import Any

import numpy as np

from simi_mailbox.analysis import CoverageBreakdown
from simi_mailbox.metrics import RiskCoverage
from simi_mailbox.metrics.sets import binomial_interval
from simi_mailbox.plots.style import ACCENT, INK, MUTED, above_axes, axes, percent, tidy

MOST_POINTS = 500
FEWEST = 20
"""Accepted nodes from which on a share of errors is drawn."""


def risk_coverage_curve(
    curve: RiskCoverage,
    ax: Any = None,
    *,
    label: str | None = None,
    color: str = ACCENT,
    band: bool = True,
) -> Any:
    """Draw the error rate of the accepted nodes against the share accepted, surest first.

    Call it again on the same axes to draw a second method over the first.

    Parameters
    ----------
    curve : RiskCoverage
        As of `metrics.risk_coverage`.
    label : str, optional
        Name in the legend; the area under the curve is added to it.
    color : str
        Colour of the curve.
    band : bool
        Whether to draw 95 % intervals of the error rates.

    Examples
    --------
    >>> from simi_mailbox.metrics import risk_coverage
    >>> curve = risk_coverage(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> ax = risk_coverage_curve(curve, label="before")
    >>> ax.get_legend_handles_labels()[1]
    ['before, AURC 30.0 %']
    """
    ax = axes(ax, (4.6, 3.6))
    n = len(curve.accepted)
    places = np.unique(np.linspace(min(FEWEST, n), n, MOST_POINTS).astype(int)) - 1
    share, risk = curve.share[places], curve.risk[places]
    if band:
        hits = np.rint(risk * curve.accepted[places]).astype(int)
        low, high = binomial_interval(hits, curve.accepted[places])
        ax.fill_between(share, low, high, color=color, alpha=0.15, linewidth=0)
    name = None if label is None else f"{label}, AURC {100 * curve.aurc:.1f} %"
    ax.plot(share, risk, color=color, linewidth=1.6, label=name)
    ax.set(xlim=(0, 1), xlabel="share accepted, surest first", ylabel="errors among the accepted")
    ax.set_ylim(bottom=0)
    percent(ax, "x", "y")
    tidy(ax, grid="y")
    if name is not None:
        above_axes(ax, INK)
    return ax


def coverage_bars(
    table: CoverageBreakdown,
    ax: Any = None,
    *,
    promised: float | None = None,
    color: str = ACCENT,
) -> Any:
    """Draw the coverage of every slice of nodes with its interval, and what was promised.

    Parameters
    ----------
    table : CoverageBreakdown
        As of `analysis.covered_by_degree` and its like.
    promised : float, optional
        Drawn as a dashed line.
    color : str
        Colour of the bars.

    Examples
    --------
    >>> from simi_mailbox.analysis import covered_by_class
    >>> sets = np.tile([True, False], (40, 1))
    >>> ax = coverage_bars(covered_by_class(sets, np.repeat([0, 1], 20)), promised=0.9)
    >>> [round(float(bar.get_width()), 2) for bar in ax.patches]
    [1.0, 0.0]
    """
    found = table.found
    ax = axes(ax, (4.6, 0.6 + 0.34 * len(table.labels)))
    rows = np.arange(len(table.labels))
    ax.barh(rows, found.coverage, height=0.62, color=color, alpha=0.35, linewidth=0)
    ax.hlines(rows, found.low, found.high, color=color, linewidth=2.2)
    ax.plot(found.coverage, rows, linestyle="none", marker="o", markersize=4, color=color)
    if promised is not None:
        ax.axvline(promised, color=MUTED, linewidth=1, linestyle=(0, (4, 4)))
    named = [f"{name} ({n:,})" for name, n in zip(table.labels, found.counts, strict=True)]
    ax.set_yticks(rows, named)
    ax.invert_yaxis()
    ax.set(xlim=(0, 1), xlabel="sets that hold the label", ylabel=table.by)
    percent(ax, "x")
    tidy(ax)
    return ax
