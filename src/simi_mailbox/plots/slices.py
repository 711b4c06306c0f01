"""Slices of nodes as rows: confidence and accuracy, coverage; and what can be accepted."""

from typing import Any

import numpy as np

from simi_mailbox.analysis import Breakdown, CoverageBreakdown
from simi_mailbox.metrics import RiskCoverage
from simi_mailbox.metrics.sets import binomial_interval
from simi_mailbox.plots.picture import (
    Picture,
    Shapes,
    nodes,
    percent,
    percent_axis,
    points,
    row_picture,
)


def slice_dots(table: Breakdown, *, label: str = "") -> Picture:
    """One row for each slice of nodes: mean confidence (hollow) and accuracy (full).

    Parameters
    ----------
    table : Breakdown
        As of `analysis.by_degree` and its like.
    label : str
        Name of the method.

    Examples
    --------
    >>> from simi_mailbox.analysis import by_class
    >>> picture = slice_dots(by_class([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1]))
    >>> [words for _, words in picture.y.ticks]
    ['0 (2)', '1 (1)']
    """
    there = np.flatnonzero(table.counts)
    rows, c, a = np.arange(there.size), table.confidence[there], table.accuracy[there]
    error = 2 * table.gap_error[there]
    known = ~np.isnan(a)
    low = float(np.nanmin(np.concatenate([c, a]))) if there.size else 0.0
    low = max(0.0, float(np.floor(5 * low) / 5))
    over, under = known & (a <= c), known & (a > c)
    ends = np.clip(a - error, low, 1.0)[known], np.clip(a + error, low, 1.0)[known]
    band = (ends[0], rows[known], ends[1], rows[known])
    shapes = [
        Shapes("sticks", "band", *band, label="± 2 standard errors"),
        Shapes("sticks", "over", c[over], rows[over], a[over], rows[over], label="over-confident"),
        Shapes(
            "sticks", "under", c[under], rows[under], a[under], rows[under], label="under-confident"
        ),
        Shapes("dots", "dot", a[known], rows[known], label="accuracy"),
        Shapes("dots", "dot confidence", c, rows, label="confidence"),
    ]
    tips = []
    for k in there:
        tip = f"{table.labels[k]} · {nodes(table.counts[k])} · confidence "
        tip += percent(table.confidence[k])
        if not np.isnan(table.accuracy[k]):
            tip += f" · accuracy {percent(table.accuracy[k])} · gap {points(table.gap[k])}"
            tip += f" ± {200 * table.gap_error[k]:.1f}"
        tips.append(tip)
    shapes.append(Shapes("boxes", "column", low, rows - 0.5, 1.0, rows + 0.5, tips=tips))
    name = f"Confidence and accuracy by {table.by}, {label}".rstrip(", ")
    shown = [shape for shape in shapes if shape.points]
    return row_picture(name, [table.labels[k] for k in there], table.counts[there], low, shown)


MOST_POINTS = 500
FEWEST = 20
"""Accepted nodes from which on a share of errors is drawn."""


def risk_coverage_curve(curve: RiskCoverage, *, label: str = "", band: bool = True) -> Picture:
    """Error rate of the accepted nodes against the share accepted, most confident first.

    Plotted twice on the same axes, a second method lies over the first.

    Parameters
    ----------
    curve : RiskCoverage
        As of `metrics.risk_coverage`.
    label : str
        Name in the legend; the area under the curve is added to it.
    band : bool
        Whether to draw 95 % intervals of the error rates.

    Examples
    --------
    >>> from simi_mailbox.metrics import risk_coverage
    >>> curve = risk_coverage(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> risk_coverage_curve(curve, label="before").shapes[-1].label
    'before, AURC 30.0 %'
    """
    n = len(curve.accepted)
    places = np.unique(np.linspace(min(FEWEST, n), n, MOST_POINTS).astype(int)) - 1
    share, risk = curve.share[places], curve.risk[places]
    hits = np.rint(risk * curve.accepted[places]).astype(int)
    low, high = binomial_interval(hits, curve.accepted[places])
    top = max(float(high.max() if band else risk.max()), 0.01)
    shapes = []
    if band:
        around = np.concatenate([share, share[::-1]]), np.concatenate([low, high[::-1]])
        shapes.append(Shapes("area", "band", *around, label="95 % interval"))
    area = f"AURC {100 * curve.aurc:.1f} %"
    named = f"{label}, {area}" if label else area
    shapes.append(Shapes("line", "curve", share, risk, label=named))
    y = percent_axis("error rate of the accepted", 0.0, 1.05 * top, grid=True)
    x = percent_axis("share accepted, most confident first")
    return Picture(f"Risk and coverage, {named}", x, y, shapes)


def coverage_bars(
    table: CoverageBreakdown, *, target: float | None = None, label: str = ""
) -> Picture:
    """Coverage of every slice of nodes with its interval, and the target coverage.

    Parameters
    ----------
    table : CoverageBreakdown
        As of `analysis.covered_by_degree` and its like.
    target : float, optional
        Drawn as a dashed line.
    label : str
        Name of the method.

    Examples
    --------
    >>> from simi_mailbox.analysis import covered_by_class
    >>> sets = np.tile([True, False], (40, 1))
    >>> picture = coverage_bars(covered_by_class(sets, np.repeat([0, 1], 20)), target=0.9)
    >>> picture.shapes[0].x2.tolist()
    [1.0, 0.0]
    """
    found, rows = table.found, np.arange(len(table.labels))
    tips = [
        f"{name} · {nodes(found.counts[k])} · coverage {percent(found.coverage[k])} "
        f"({percent(found.low[k])} to {percent(found.high[k])})"
        for k, name in enumerate(table.labels)
    ]
    whisker = (found.low, rows, found.high, rows)
    shapes = [
        Shapes("boxes", "bar", 0.0, rows - 0.27, found.coverage, rows + 0.27, label="coverage"),
        Shapes("sticks", "whisker", *whisker, label=f"{100 * found.level:.0f} % interval"),
        Shapes("dots", "dot", found.coverage, rows, radius=3.5),
    ]
    if target is not None:
        ends = [target, target], [-0.5, len(rows) - 0.5]
        shapes.append(Shapes("line", "diagonal", *ends, label=f"target, {percent(target, 0)}"))
    shapes.append(Shapes("boxes", "column", 0.0, rows - 0.5, 1.0, rows + 0.5, tips=tips))
    name = f"Coverage of prediction sets by {table.by}, {label}".rstrip(", ")
    return row_picture(name, table.labels, found.counts, 0.0, shapes)


def acceptance_bars(allowed: Any, share: Any, *, here: int = 0, label: str = "") -> Picture:
    """Share of nodes that can be accepted against the error rate allowed among them.

    Parameters
    ----------
    allowed, share : array [s]
        Error rates, evenly spaced, and what each lets accept.
    here : int
        The one with the dot, which the report's slider moves.
    label : str
        Name of the method.

    Examples
    --------
    >>> acceptance_bars([0.01, 0.02], [0.3, 0.6]).plot().get_ylabel()
    'nodes accepted'
    """
    a, s = np.asarray(allowed, dtype=float), np.asarray(share, dtype=float)
    half = (a[1] - a[0]) / 2 if len(a) > 1 else 0.005
    tips = [
        f"error rate at most {percent(rate, 0)} · {percent(part)} accepted"
        for rate, part in zip(a, s, strict=True)
    ]
    shapes = [
        Shapes("boxes", "bar", a - 0.8 * half, 0.0, a + 0.8 * half, s, label="nodes accepted"),
        Shapes("boxes", "column", a - half, 0.0, a + half, 1.0, tips=tips),
        Shapes("dots", "dot here", [a[here]], [s[here]], radius=7.0),
    ]
    x = percent_axis("error rate allowed among the accepted", a[0] - half, a[-1] + half)
    name = (
        f"Nodes accepted by error rate allowed, {label}: {percent(s[here])} at {percent(a[here])}"
    )
    y = percent_axis("nodes accepted", grid=True)
    return Picture(name, x, y, shapes, (400.0, 260.0))
