"""Confidence and accuracy in slices of nodes: two dots on a line for each slice."""

from __future__ import annotations

import numpy as np

from simi_mailbox.analysis import Breakdown
from simi_mailbox.plots.formatting import nodes, percent, points
from simi_mailbox.plots.picture import Picture, Shapes, row_picture


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
