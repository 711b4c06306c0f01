"""Maps of confidence and similarity: cells, groups, and their temperatures."""

from itertools import pairwise
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.analysis import GroupMap, SimilarityConfidence, TemperatureHistogram
from simi_mailbox.plots.picture import (
    Axis,
    Picture,
    Shapes,
    count,
    nice_ticks,
    nodes,
    number,
    percent,
    percent_axis,
    points,
)

LIMIT = 0.2
"""Gap of the deepest colour: larger ones do not make all others pale."""
FULL, SMALLEST = 30, 0.28
"""A cell of so many nodes fills its square; fewer nodes make a smaller one, as they say less."""
ROW = (1.03, 1.11)
"""Where the row of all confidences lies, above the map."""


def heat_map(
    table: SimilarityConfidence, *, label: str = "", limit: float = LIMIT, fewest: int = 1
) -> Picture:
    """Accuracy minus confidence over neighbourhood similarity (x) and confidence (y).

    Blue: under-confident, orange: over-confident. The area of a square grows with its nodes up to
    30. The row on top holds all confidences together.

    Parameters
    ----------
    table : SimilarityConfidence
        As of `analysis.similarity_confidence`. Without labels the squares show numbers of nodes.
    label : str
        Name of the method.
    limit : float
        The gap of the deepest colour.
    fewest : int
        Cells of fewer nodes are drawn as empty.

    Examples
    --------
    >>> from simi_mailbox.analysis import similarity_confidence
    >>> p = np.array([[0.9, 0.1], [0.8, 0.2]])
    >>> table = similarity_confidence(p, np.array([0, 1]), np.array([1.0, 0.0]))
    >>> heat_map(table).plot().get_xlabel()
    'neighbours with the same predicted class'
    """
    if not limit > 0:
        raise ValueError(f"limit must be positive, got {limit}")
    edges = table.confidence_edges
    cells = _Cells(table, fewest, limit)
    for row, (low, high) in enumerate(pairwise(edges)):
        cells.add(low, high, *(part[row] for part in (table.counts, table.confidence, table.gap)))
    total = table.counts.sum(axis=0)
    with np.errstate(invalid="ignore"):
        mean, gap = (
            np.nansum(values * table.counts, axis=0) / total
            for values in (table.confidence, table.gap)
        )
    gap = np.where(np.isnan(table.gap[table.counts > 0]).any(), np.nan, gap)
    cells.add(*ROW, total, mean, gap)
    ticks = [(share, f"{100 * share:.0f} %") for share in nice_ticks(0.0, 1.0)]
    y = Axis("confidence", (0.0, ROW[1]), [*ticks, (sum(ROW) / 2, "all")])
    x = percent_axis("neighbours with the same predicted class")
    name = f"Accuracy minus confidence by neighbour agreement and confidence, {label}"
    return Picture(name.rstrip(", "), x, y, cells.shapes(), (400.0, 400.0 * ROW[1]), True)


class _Cells:
    """Boxes of the map, sorted by style."""

    def __init__(self, table: SimilarityConfidence, fewest: int, limit: float) -> None:
        self.edges, self.fewest, self.limit = table.similarity_edges, fewest, limit
        self.most = max(int(table.counts.max()), 1)
        self.boxes: dict[str, list[tuple[Any, ...]]] = {"empty": [], "over": [], "under": []}
        self.boxes |= {"amount": [], "column": []}

    def add(self, low: float, high: float, counts: Any, confidence: Floats, gap: Floats) -> None:
        """Cells between two confidences."""
        for k, (left, right) in enumerate(pairwise(self.edges)):
            if counts[k] < self.fewest or counts[k] == 0:
                self.boxes["empty"].append((left, low, right, high, 1.0, ""))
                continue
            known = not np.isnan(gap[k])
            side = max(SMALLEST, min(1.0, (counts[k] / FULL) ** 0.5)) if known else 1.0
            style = ("under" if gap[k] > 0 else "over") if known else "amount"
            weight = abs(gap[k]) / self.limit if known else (counts[k] / self.most) ** 0.5
            x, y = (left + right) / 2, (low + high) / 2
            reach_x, reach_y = 0.48 * side * (right - left), 0.48 * side * (high - low)
            strength = 0.05 + 0.95 * min(1.0, float(weight))
            box = (x - reach_x, y - reach_y, x + reach_x, y + reach_y, strength)
            self.boxes[style].append((*box, ""))
            tip = f"{nodes(counts[k])} · confidence {percent(confidence[k])}"
            if known:
                tip += f" · accuracy {percent(confidence[k] + gap[k])} · gap {points(gap[k])}"
            tip += f" · {percent(left, 0)} to {percent(right, 0)} of neighbours agree"
            self.boxes["column"].append((left, low, right, high, 1.0, tip))

    def shapes(self) -> list[Shapes]:
        """Everything drawn, and samples of five gaps for the legend."""
        made = []
        for style, boxes in self.boxes.items():
            if boxes:
                x, y, x2, y2, strength, tips = (list(part) for part in zip(*boxes, strict=True))
                label = "no nodes" if style == "empty" else ""
                told = tips if style == "column" else ()
                made.append(Shapes("boxes", style, x, y, x2, y2, 1.0, strength, told, label))
        if self.boxes["over"] or self.boxes["under"]:
            for share, words in ((-1.0, " or less (over-confident)"), (-0.5, ""), (0.0, " points")):
                made.append(self._sample(share, words))
            for share, words in ((0.5, ""), (1.0, " or more (under-confident)")):
                made.append(self._sample(share, words))
        return made

    def _sample(self, share: float, words: str) -> Shapes:
        style, gap = "over" if share < 0 else "under", points(share * self.limit, 0)
        return Shapes("boxes", style, strength=0.05 + 0.95 * abs(share), label=f"{gap}{words}")


LARGEST_DOT, SMALLEST_DOT = 24.0, 4.0


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
        radius = np.maximum(
            LARGEST_DOT * np.sqrt(groups.sizes[chosen] / groups.sizes.max()), SMALLEST_DOT
        )
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
    ticks = list(zip(np.log(values).tolist(), _apart(values), strict=True))
    x = Axis("temperature (above 1 lowers confidence)", (float(logs[0]), float(logs[-1])), ticks)
    y = Axis("nodes", (0.0, 1.05 * most), [(n, f"{n:,.0f}") for n in nice_ticks(0, most, 4)])
    name = f"Temperatures of nodes, {label}: median {number(table.median, 2)}"
    return Picture(name, x, y, shapes, (400.0, 140.0))


def _apart(values: Floats) -> list[str]:
    """Numbers with as many digits as tell them apart, two at least and five at most."""
    words = [[f"{value:.{digits}g}" for value in values] for digits in (2, 3, 4, 5)]
    return next((shown for shown in words if len(set(shown)) == len(shown)), words[-1])


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
