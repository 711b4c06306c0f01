"""Pictures of what `simi_mailbox.analysis` and `metrics` compute.

Every function takes what they return and describes a `Picture`, once; ``label`` names the method.
``picture.plot(ax)`` draws it with matplotlib (``pip install 'simi-mailbox[plot]'``) on the axes
given, or on those of a new figure, and returns them; it shows no window and changes no settings.
``picture.svg()`` is the same picture as the report shows it; it needs no extra.
"""

from typing import Any

import numpy as np

from simi_mailbox import analysis
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics import Reliability, RiskCoverage
from simi_mailbox.metrics.sets import binomial_interval
from simi_mailbox.plots.picture import (
    Axis,
    Picture,
    Shapes,
    compared,
    count,
    listed,
    nice_ticks,
    nodes,
    nodes_axis,
    number,
    percent,
    percent_axis,
    points,
    row_picture,
)

__all__ = [
    "Picture",
    "acceptance_bars",
    "confidence_histogram",
    "coverage_bars",
    "group_scatter",
    "heat_map",
    "reliability_diagram",
    "risk_coverage_curve",
    "slice_dots",
    "temperature_histogram",
]

FEW = 10
"""Bins of fewer nodes are drawn hollow and not joined: they say little."""
STRIP = (-0.22, -0.05)
"""Where the bars of counts lie, below the accuracies."""
LIMIT = 0.2
"""Gap of the deepest colour: larger ones do not make all others pale."""
FULL, SMALLEST = 30, 0.28
"""A cell of so many nodes fills its square; fewer nodes make a smaller one, as they say less."""
ROW = (1.03, 1.11)
"""Where the row of all confidences lies, above the map."""
SAMPLES = {-1.0: " or less (over-confident)", -0.5: "", 0.0: " points", 0.5: ""}
SAMPLES[1.0] = " or more (under-confident)"
"""Gaps in the map's legend, in units of the deepest colour."""
LARGEST_DOT, SMALLEST_DOT = 24.0, 4.0
MOST_POINTS = 500
FEWEST = 20
"""Accepted nodes from which on a share of errors is drawn."""


def reliability_diagram(
    curve: Reliability, *, label: str = "", before: Reliability | None = None, counts: bool = True
) -> Picture:
    """Accuracy against confidence, with an interval and the number of nodes of each bin.

    Parameters
    ----------
    curve, before : Reliability
        As of `analysis.reliability_curve`, `metrics.reliability` or `metrics.class_reliability`;
        ``before`` is drawn behind, in grey.
    label, counts : str, bool
        Name in the legend, which gets the calibration error; whether to draw the bars of counts
        (not for a second method on the same axes).

    Examples
    --------
    >>> from simi_mailbox.analysis import reliability_curve
    >>> reliability_diagram(reliability_curve([[0.8, 0.2]], [0])).plot().get_ylabel()
    'accuracy'
    """
    c, a, many = curve.confidence, curve.accuracy, curve.counts >= FEW
    few, over, under = (curve.counts > 0) & ~many, many & (a <= c), many & (a > c)
    tips = [
        f"{nodes(curve.counts[b])} · confidence {percent(c[b])} · accuracy {percent(a[b])} "
        f"({percent(curve.low[b], 0)} to {percent(curve.high[b], 0)})"
        for b in np.flatnonzero(curve.counts)
    ]
    bars, columns = _bins(curve.counts, STRIP, (STRIP[0], 1.0), tips)
    shapes = [Shapes("line", "diagonal", [0, 1], [0, 1], label="perfect calibration")]
    shapes += [bars] if counts else []
    if before is not None:
        joined = before.counts >= FEW
        line = before.confidence[joined], before.accuracy[joined]
        shapes.append(Shapes("line", "before", *line, label="before calibration"))
    band = c[many], curve.low[many], c[many], curve.high[many]
    named = listed(label, f"ECE {100 * curve.ece:.1f} %")
    shapes += [
        Shapes("sticks", "band", *band, label=f"{100 * curve.level:.0f} % interval"),
        Shapes("sticks", "over", c[over], c[over], c[over], a[over], label="over-confident"),
        Shapes("sticks", "under", c[under], c[under], c[under], a[under], label="under-confident"),
        Shapes("line", "curve", c[many], a[many], label=named),
        Shapes("dots", "dot", c[many], a[many]),
        Shapes("dots", "dot few", c[few], a[few], radius=3.0, label=f"fewer than {FEW} nodes"),
        columns,
    ]
    low, share = STRIP[0] if counts else 0.0, percent_axis("confidence")
    name = f"{listed('Reliability diagram', label)}: ECE {percent(curve.ece)}"
    y = Axis("accuracy", (low, 1.0), share.ticks, grid=True)
    shapes = [shape for shape in shapes if shape.points]
    return Picture(name, share, y, shapes, (400.0, 400 * (1 - low)), square=True)


def confidence_histogram(counts: Ints, *, label: str = "") -> Picture:
    """How many nodes have which confidence, by ``counts`` [M] of nodes in bins of equal width."""
    bins, most = len(counts), max(int(counts.max()), 1)
    tips = [
        f"{nodes(counts[b])} with confidence {percent(b / bins, 0)} to {percent((b + 1) / bins, 0)}"
        for b in np.flatnonzero(counts)
    ]
    shapes, y = _bins(counts, (0.0, most), (0.0, 1.05 * most), tips), nodes_axis(most, grid=True)
    name = listed("Nodes by confidence", label)
    return Picture(name, percent_axis("confidence"), y, shapes, (400.0, 200.0))


def _bins(
    counts: Ints, strip: tuple[float, float], ends: tuple[float, float], tips: list[str]
) -> list[Shapes]:
    """Bars of the bins that hold nodes within ``strip``, and what the pointer finds there."""
    bins, there, (low, high) = len(counts), np.flatnonzero(counts), strip
    top = low + (high - low) * counts[there] / max(int(counts.max()), 1)
    bar = (there + 0.04) / bins, low, (there + 0.96) / bins, top
    column = there / bins, ends[0], (there + 1) / bins, ends[1]
    bars = Shapes("boxes", "bar", *bar, label="nodes per bin")
    return [bars, Shapes("boxes", "column", *column, tips=tips)]


def heat_map(
    table: analysis.SimilarityConfidence, *, label: str = "", limit: float = LIMIT, fewest: int = 1
) -> Picture:
    """Accuracy minus confidence over neighbourhood similarity (x) and confidence (y).

    The area of a square grows with its nodes up to 30. The row on top holds all confidences.
    ``table`` is what `analysis.similarity_confidence` returns; without labels the squares show
    numbers of nodes. ``limit`` is the gap of the deepest colour; cells of fewer than ``fewest``
    nodes are drawn as empty.
    """
    if not limit > 0:
        raise ValueError(f"limit must be positive, got {limit}")
    counts, total = table.counts, table.counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean, gap = (
            np.vstack([values, np.nansum(values * counts, axis=0) / total])
            for values in (table.confidence, table.gap)
        )
    gap[-1, np.isnan(table.gap[counts > 0]).any()] = np.nan
    edges = table.edges
    left, low = np.meshgrid(edges[:-1], [*edges[:-1], ROW[0]])
    right, high = np.meshgrid(edges[1:], [*edges[1:], ROW[1]])
    counts = np.vstack([counts, total])
    there, known = counts >= max(fewest, 1), ~np.isnan(gap)
    side = np.where(known, np.clip(np.sqrt(counts / FULL), SMALLEST, 1.0), 1.0)
    weight = np.where(known, abs(gap) / limit, np.sqrt(counts / max(table.counts.max(), 1)))
    strength = 0.05 + 0.95 * np.minimum(weight, 1.0)
    x, y = (left + right) / 2, (low + high) / 2
    dx, dy = 0.48 * side * (right - left), 0.48 * side * (high - low)
    cell, square = (left, low, right, high), (x - dx, y - dy, x + dx, y + dy)
    tips = [
        f"{nodes(n)} · {compared(c, g)} · {percent(a, 0)} to {percent(b, 0)} of neighbours agree"
        for n, c, g, a, b in zip(*(v[there] for v in (counts, mean, gap, left, right)), strict=True)
    ]
    shapes = [Shapes("boxes", "empty", *(part[~there] for part in cell), label="no nodes")]
    for style, inside in (("over", gap <= 0), ("under", gap > 0), ("amount", ~known)):
        inside &= there
        box = (part[inside] for part in square)
        shapes.append(Shapes("boxes", style, *box, strength=strength[inside]))
    shapes.append(Shapes("boxes", "column", *(part[there] for part in cell), tips=tips))
    shapes = [shape for shape in shapes if shape.points]
    if (there & known).any():
        for share, words in SAMPLES.items():
            style, told = "over" if share < 0 else "under", points(share * limit, 0) + words
            shade = 0.05 + 0.95 * abs(share)  # of a box of no size, for the legend
            shapes.append(Shapes("boxes", style, [0.0], [0.0], strength=shade, label=told))
    name = listed("Accuracy minus confidence by neighbour agreement and confidence", label)
    axis = percent_axis("confidence")
    axis = Axis(axis.label, (0.0, ROW[1]), [*axis.ticks, (sum(ROW) / 2, "all")])
    agreement = percent_axis("neighbours with the same predicted class")
    return Picture(name, agreement, axis, shapes, (400.0, 400.0 * ROW[1]), True)


def group_scatter(groups: analysis.GroupMap, *, label: str = "", after: bool = True) -> Picture:
    """Each group at its mean similarity and confidence; area is nodes, colour is the gap.

    ``groups`` are what `analysis.group_map` returns; the gap is that before or ``after``.
    """
    state = "after" if after else "before"
    gaps, confidence = (getattr(groups, f"{name}_{state}") for name in ("gap", "confidence"))
    # Large circles first, so that small ones stay visible and reachable.
    order = np.argsort(-groups.sizes, kind="stable")
    there = order[groups.sizes[order] > 0]
    radius = np.maximum(LARGEST_DOT * np.sqrt(groups.sizes / groups.sizes.max()), SMALLEST_DOT)
    strength = np.where(np.isnan(gaps), 0.3, 0.08 + 0.92 * np.minimum(abs(gaps) / LIMIT, 1.0))
    shapes = []
    for style, words, inside in (
        ("under group", "under-confident", gaps > 0),
        ("over group", "over-confident", gaps <= 0),
        ("amount group", "gap not known", np.isnan(gaps)),
    ):
        k = there[inside[there]]
        tips = [
            f"group {g + 1} · {nodes(groups.sizes[g])} · T {number(groups.temperatures[g], 2)} · "
            f"{count(groups.calibration_labels[g])} labels · {compared(confidence[g], gaps[g])}"
            for g in k
        ]
        look = {"radius": radius[k], "strength": strength[k], "tips": tips, "label": words}
        shapes.append(Shapes("dots", style, groups.similarity[k], groups.confidence[k], **look))
    ends = _span(groups.similarity[there])
    x = Axis("similarity to neighbours", ends, [(v, f"{v:g}") for v in nice_ticks(*ends)])
    rows = _span(groups.confidence[there])
    y = percent_axis("confidence before calibration", *rows, grid=True)
    name = f"Groups{' of ' + label if label else ''} by similarity and confidence, gap {state}"
    return Picture(name, x, y, [shape for shape in shapes if shape.points])


def _span(values: Floats) -> tuple[float, float]:
    """Ends with a margin, so that no circle leaves the field."""
    low, high = float(values.min()), float(values.max())
    margin = 0.1 * (high - low) if high - low > 1e-9 else 0.01
    return low - margin, high + margin


def temperature_histogram(table: analysis.TemperatureHistogram, *, label: str = "") -> Picture:
    """How many nodes have which temperature (`analysis.temperature_histogram`), on a log scale."""
    logs, most = np.log(table.edges), max(int(table.counts.max()), 1)
    tips = [
        f"{nodes(n)} · temperature {number(low, 2)} to {number(high, 2)}"
        for n, low, high in zip(table.counts, table.edges[:-1], table.edges[1:], strict=True)
    ]
    shapes = [Shapes("boxes", "bar", logs[:-1], 0.0, logs[1:], table.counts, label="nodes")]
    if logs[0] < 0 < logs[-1]:
        line = ([0.0, 0.0], [0.0, most])
        shapes.append(Shapes("line", "diagonal", *line, label="T = 1: confidence unchanged"))
    shapes.append(Shapes("boxes", "column", logs[:-1], 0.0, logs[1:], most, tips=tips))
    places = np.linspace(logs[0], logs[-1], 5)
    # As many digits as tell the ticks apart, two at least and five at most.
    tries = [[f"{value:.{digits}g}" for value in np.exp(places)] for digits in (2, 3, 4, 5)]
    words = next((shown for shown in tries if len(set(shown)) == len(shown)), tries[-1])
    ticks = list(zip(places.tolist(), words, strict=True))
    x = Axis("temperature (above 1 lowers confidence)", (float(logs[0]), float(logs[-1])), ticks)
    name = f"Temperatures of nodes, {label}: median {number(table.median, 2)}"
    return Picture(name, x, nodes_axis(most, 4), shapes, (400.0, 140.0))


def slice_dots(table: analysis.Breakdown, *, label: str = "") -> Picture:
    """One row for each slice of nodes: mean confidence (hollow) and accuracy (full).

    ``table`` is what `analysis.by_degree` and its like return.
    """
    there = np.flatnonzero(table.counts)
    rows, c, a = np.arange(there.size), table.confidence[there], table.accuracy[there]
    error = 2 * table.gap_error[there]
    known, over, under = ~np.isnan(a), a <= c, a > c
    low = float(np.nanmin(np.concatenate([c, a]))) if there.size else 0.0
    low = max(0.0, float(np.floor(5 * low) / 5))
    ends = np.clip(a - error, low, 1.0), rows, np.clip(a + error, low, 1.0), rows
    tips = [
        f"{table.labels[k]} · {nodes(table.counts[k])} · "
        f"{compared(table.confidence[k], table.gap[k])}"
        + ("" if np.isnan(table.gap[k]) else f" ± {200 * table.gap_error[k]:.1f}")
        for k in there
    ]
    shapes = [
        Shapes("sticks", "band", *(v[known] for v in ends), label="± 2 standard errors"),
        Shapes("sticks", "over", *(v[over] for v in (c, rows, a, rows)), label="over-confident"),
        Shapes("sticks", "under", *(v[under] for v in (c, rows, a, rows)), label="under-confident"),
        Shapes("dots", "dot", a[known], rows[known], label="accuracy"),
        Shapes("dots", "dot confidence", c, rows, label="confidence"),
        Shapes("boxes", "column", low, rows - 0.5, 1.0, rows + 0.5, tips=tips),
    ]
    name = listed(f"Confidence and accuracy by {table.by}", label)
    shown = [shape for shape in shapes if shape.points]
    return row_picture(name, [table.labels[k] for k in there], table.counts[there], low, shown)


def risk_coverage_curve(curve: RiskCoverage, *, label: str = "") -> Picture:
    """Error rate of the accepted nodes against the share accepted, most confident first.

    ``curve`` is what `metrics.risk_coverage` returns; intervals are 95 %, ``label`` gets its AURC.
    """
    n = len(curve.accepted)
    places = np.unique(np.linspace(min(FEWEST, n), n, MOST_POINTS).astype(int)) - 1
    share, risk = curve.share[places], curve.risk[places]
    hits = np.rint(risk * curve.accepted[places]).astype(int)
    low, high = binomial_interval(hits, curve.accepted[places])
    around = np.concatenate([share, share[::-1]]), np.concatenate([low, high[::-1]])
    named = listed(label, f"AURC {100 * curve.aurc:.1f} %")
    shapes = [
        Shapes("area", "band", *around, label="95 % interval"),
        Shapes("line", "curve", share, risk, label=named),
    ]
    top = 1.05 * max(float(high.max()), 0.01)
    y = percent_axis("error rate of the accepted", 0.0, top, grid=True)
    x = percent_axis("share accepted, most confident first")
    return Picture(f"Risk and coverage, {named}", x, y, shapes)


def coverage_bars(
    table: analysis.CoverageBreakdown, *, target: float | None = None, label: str = ""
) -> Picture:
    """Coverage of every slice of nodes with its interval, and the target coverage.

    ``table`` is what `analysis.covered_by` returns; ``target`` is drawn as a dashed line.
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
    name = listed(f"Coverage of prediction sets by {table.by}", label)
    return row_picture(name, table.labels, found.counts, 0.0, shapes)


def acceptance_bars(allowed: Any, share: Any, *, here: int = 0, label: str = "") -> Picture:
    """Share of nodes that can be accepted against the error rate allowed among them.

    ``allowed`` [s] are error rates, evenly spaced, ``share`` [s] what each lets accept; ``here`` is
    the one with the dot, which the report's slider moves.
    """
    a, s = np.asarray(allowed, dtype=float), np.asarray(share, dtype=float)
    half = (a[1] - a[0]) / 2
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
    y = percent_axis("nodes accepted", grid=True)
    name = f"{listed('Nodes accepted by error rate allowed', label)}: "
    name += f"{percent(s[here])} at {percent(a[here])}"
    return Picture(name, x, y, shapes, (400.0, 260.0))
