"""The reliability diagram: accuracy against confidence."""

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.metrics import Reliability
from simi_mailbox.plots.picture import (
    Axis,
    Picture,
    Shapes,
    nice_ticks,
    nodes,
    percent,
    percent_axis,
)

FEW = 10
"""Bins of fewer nodes are drawn hollow and not joined: they say little."""
STRIP = (-0.22, -0.05)
"""Where the bars of counts lie, below the accuracies."""


def reliability_diagram(
    curve: Reliability, *, label: str = "", before: Reliability | None = None, counts: bool = True
) -> Picture:
    """Accuracy against confidence, with an interval and the number of nodes of each bin.

    Plotted twice on the same axes, a second method lies over the first (give it other ``colors``,
    and ``counts=False``).

    Parameters
    ----------
    curve : Reliability
        As of `analysis.reliability_curve`, `metrics.reliability` or `metrics.class_reliability`.
    label : str
        Name in the legend; the calibration error is added to it.
    before : Reliability, optional
        Drawn behind, in grey.
    counts : bool
        Whether to draw the bars of counts.

    Examples
    --------
    >>> from simi_mailbox.analysis import reliability_curve
    >>> curve = reliability_curve(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> reliability_diagram(curve).plot().get_ylabel()
    'accuracy'
    """
    c, a, many = curve.confidence, curve.accuracy, curve.counts >= FEW
    few = (curve.counts > 0) & ~many
    over, under = many & (a <= c), many & (a > c)
    interval = f"{100 * curve.level:.0f} % interval"
    shapes = [Shapes("line", "diagonal", [0, 1], [0, 1], label="perfect calibration")]
    if counts:
        shapes.append(_strip(curve.counts, *STRIP))
    if before is not None:
        joined = before.counts >= FEW
        line = before.confidence[joined], before.accuracy[joined]
        shapes.append(Shapes("line", "before", *line, label="before calibration"))
    shapes += [
        Shapes(
            "sticks", "band", c[many], curve.low[many], c[many], curve.high[many], label=interval
        ),
        Shapes("sticks", "over", c[over], c[over], c[over], a[over], label="over-confident"),
        Shapes("sticks", "under", c[under], c[under], c[under], a[under], label="under-confident"),
        Shapes("line", "curve", c[many], a[many], label=_named(label, curve.ece)),
        Shapes("dots", "dot", c[many], a[many]),
        Shapes("dots", "dot few", c[few], a[few], radius=3.0, label=f"fewer than {FEW} nodes"),
        _columns(curve.counts, (STRIP[0], 1.0), [_tip(curve, b) for b in _occupied(curve.counts)]),
    ]
    shown = [shape for shape in shapes if shape.points]
    name = f"Reliability diagram{', ' + label if label else ''}: ECE {percent(curve.ece)}"
    ticks = [(share, f"{100 * share:.0f} %") for share in nice_ticks(0.0, 1.0)]
    low = STRIP[0] if counts else 0.0
    y = Axis("accuracy", (low, 1.0), ticks, grid=True)
    return Picture(name, percent_axis("confidence"), y, shown, (400.0, 400 * (1 - low)), True)


def confidence_histogram(counts: Ints, *, label: str = "") -> Picture:
    """How many nodes have which confidence: what is known without labels.

    Parameters
    ----------
    counts : int array [M]
        Nodes in bins of equal width.
    label : str
        Name of the method.

    Examples
    --------
    >>> confidence_histogram(np.array([0, 5, 10])).plot().get_ylabel()
    'nodes'
    """
    bins, most = len(counts), max(int(counts.max()), 1)
    edges = [(b / bins, (b + 1) / bins) for b in _occupied(counts)]
    tips = [
        f"{nodes(counts[b])} with confidence {percent(low, 0)} to {percent(high, 0)}"
        for b, (low, high) in zip(_occupied(counts), edges, strict=True)
    ]
    y = Axis(
        "nodes", (0.0, 1.05), [(n / most, f"{n:,.0f}") for n in nice_ticks(0, most)], grid=True
    )
    shapes = [_strip(counts, 0.0, 1.0), _columns(counts, (0.0, 1.05), tips)]
    name = f"Nodes by confidence{', ' + label if label else ''}"
    return Picture(name, percent_axis("confidence"), y, shapes, (400.0, 200.0))


def _named(label: str, ece: float) -> str:
    error = f"ECE {100 * ece:.1f} %"
    return f"{label}, {error}" if label else error


def _occupied(counts: Ints) -> list[int]:
    return [int(b) for b in np.flatnonzero(counts)]


def _strip(counts: Ints, low: float, high: float) -> Shapes:
    bins, there = len(counts), np.array(_occupied(counts))
    top = low + (high - low) * counts[there] / max(int(counts.max()), 1)
    left, right = (there + 0.04) / bins, (there + 0.96) / bins
    return Shapes("boxes", "bar", left, low, right, top, label="nodes per bin")


def _columns(counts: Ints, ends: tuple[float, float], tips: list[str]) -> Shapes:
    bins, there = len(counts), np.array(_occupied(counts))
    return Shapes("boxes", "column", there / bins, ends[0], (there + 1) / bins, ends[1], tips=tips)


def _tip(curve: Reliability, b: int) -> str:
    return (
        f"{nodes(curve.counts[b])} · confidence {percent(curve.confidence[b])} · accuracy "
        f"{percent(curve.accuracy[b])} ({percent(curve.low[b], 0)} to {percent(curve.high[b], 0)})"
    )
