"""What a calibrator did: its groups on the map, and the temperatures of nodes."""

from __future__ import annotations

import numpy as np

from simi_mailbox.analysis import GroupMap, TemperatureHistogram
from simi_mailbox.plots.formatting import count, nodes, number, percent, points
from simi_mailbox.plots.heat import LIMIT
from simi_mailbox.plots.picture import Axis, Picture, Shapes, nice_ticks, percent_axis

LARGEST, SMALLEST = 24.0, 4.0


def group_scatter(
    groups: GroupMap, *, label: str = "", after: bool = True, limit: float = LIMIT
) -> Picture:
    """Each group at its mean similarity and confidence; area is nodes, colour is the gap.

    Parameters
    ----------
    groups : GroupMap
        As of `analysis.group_map`.
    label : str
        Name of the method.
    after : bool
        Whether the gap is the one after calibration, or the one before.
    limit : float
        The gap of the deepest colour.

    Examples
    --------
    >>> from simi_mailbox.analysis import group_map
    >>> p = np.array([[0.9, 0.1], [0.7, 0.3]])
    >>> table = group_map([0, 1], p, p, similarity=[1.0, 0.5], temperatures=[2.0, 1.0])
    >>> group_scatter(table).plot().get_ylabel()
    'confidence before calibration'
    """
    gaps = groups.gap_after if after else groups.gap_before
    # Large circles first, so that small ones stay visible and reachable.
    there = [int(k) for k in np.argsort(-groups.sizes, kind="stable") if groups.sizes[k] > 0]
    known = ~np.isnan(gaps)
    parts = {
        "under group": ("under-confident", known & (gaps > 0)),
        "over group": ("over-confident", known & ~(gaps > 0)),
        "amount group": ("gap not known", ~known),
    }
    shapes = []
    for style, (words, inside) in parts.items():
        chosen = [k for k in there if inside[k]]
        if not chosen:
            continue
        strength = 0.08 + 0.92 * np.minimum(np.nan_to_num(np.abs(gaps[chosen])) / limit, 1.0)
        radius = np.maximum(LARGEST * np.sqrt(groups.sizes[chosen] / groups.sizes.max()), SMALLEST)
        tips = [_tip(groups, k, after) for k in chosen]
        place = groups.similarity[chosen], groups.confidence[chosen]
        full = np.full(len(chosen), 0.3) if style.startswith("amount") else strength
        shapes.append(
            Shapes("dots", style, *place, radius=radius, strength=full, tips=tips, label=words)
        )
    low, high = _span(groups.similarity[there])
    ticks = [(value, f"{value:g}") for value in nice_ticks(low, high)]
    state = "after" if after else "before"
    name = f"Groups{' of ' + label if label else ''} by similarity and confidence, gap {state}"
    x = Axis("similarity to neighbours", (low, high), ticks)
    ends = _span(groups.confidence[there])
    return Picture(name, x, percent_axis("confidence before calibration", *ends, grid=True), shapes)


def temperature_histogram(table: TemperatureHistogram, *, label: str = "") -> Picture:
    """How many nodes have which temperature, on a logarithmic scale.

    Parameters
    ----------
    table : TemperatureHistogram
        As of `analysis.temperature_histogram`.
    label : str
        Name of the method.

    Examples
    --------
    >>> from simi_mailbox.analysis import temperature_histogram as count
    >>> temperature_histogram(count([0.5, 1.0, 2.0])).plot().get_ylabel()
    'nodes'
    """
    logs, most = np.log(table.edges), max(int(table.counts.max()), 1)
    tips = [
        f"{nodes(n)} · temperature {number(low, 2)} to {number(high, 2)}"
        for n, low, high in zip(table.counts, table.edges[:-1], table.edges[1:], strict=True)
    ]
    boxes = (logs[:-1], 0.0, logs[1:], table.counts.astype(float))
    shapes = [Shapes("boxes", "bar", *boxes, label="nodes")]
    if logs[0] < 0 < logs[-1]:
        line = ([0.0, 0.0], [0.0, float(most)])
        shapes.append(Shapes("line", "diagonal", *line, label="T = 1: confidence unchanged"))
    shapes.append(Shapes("boxes", "column", logs[:-1], 0.0, logs[1:], float(most), tips=tips))
    values = np.exp(np.linspace(logs[0], logs[-1], 5))
    ticks = [(float(np.log(value)), f"{value:.2g}") for value in values]
    x = Axis("temperature (above 1 lowers confidence)", (float(logs[0]), float(logs[-1])), ticks)
    y = Axis("nodes", (0.0, 1.05 * most), [(n, f"{n:,.0f}") for n in nice_ticks(0, most, 4)])
    name = f"Temperatures of nodes, {label}: median {number(table.median, 2)}"
    return Picture(name, x, y, shapes, (400.0, 140.0))


def _span(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float]:
    """Ends with a margin, so that no circle leaves the field."""
    low, high = float(values.min()), float(values.max())
    margin = 0.1 * (high - low) if high - low > 1e-9 else 0.01
    return low - margin, high + margin


def _tip(groups: GroupMap, k: int, after: bool) -> str:
    confidence = groups.confidence_after[k] if after else groups.confidence_before[k]
    tip = f"group {k + 1} · {nodes(groups.sizes[k])} · T {number(groups.temperatures[k], 2)}"
    tip += f" · {count(groups.calibration_labels[k])} labels · confidence {percent(confidence)}"
    gap = groups.gap_after[k] if after else groups.gap_before[k]
    if not np.isnan(gap):
        tip += f" · accuracy {percent(groups.accuracy[k])} · gap {points(gap)}"
    return tip
