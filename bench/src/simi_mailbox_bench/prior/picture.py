"""The picture of what a prior is learned from, and what its baseline makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox._extras import require
from simi_mailbox.prior import leave_out, resolve
from simi_mailbox_bench.backbones.cached_runs import RunCache
from simi_mailbox_bench.prior.learning import (
    FEWEST_NODES,
    Residuals,
    banked_keys,
    banked_look,
    residuals_of,
)

CONFIDENCE_EDGES = np.array([0.2, 0.35, 0.5, 0.65, 0.75, 0.85, 0.92, 0.97, 1.0])
DEGREE_EDGES = np.array([0, 1, 2, 4, 8, 16, 64, np.inf])
"""Each cell holds the degrees up to its right edge."""
OVERLAP_CELLS = 6
FEWEST = 100


@dataclass(frozen=True, eq=False)
class ResidualSums:
    """Residuals of one setting, all runs together: sums and counts [2, …] of bins.

    ``plain`` and ``baseline`` are along confidence, after temperature scaling and after the
    baseline; ``overlap`` and ``degree`` are over confidence and these, after temperature scaling.
    """

    name: str
    plain: Floats
    baseline: Floats
    overlap: Floats
    degree: Floats

    @classmethod
    def of(cls, name: str, runs: Sequence[Residuals]) -> ResidualSums:
        """Sum up runs."""
        ranks = np.linspace(0, 1, OVERLAP_CELLS + 1)
        parts: list[list[Floats]] = []
        for run in runs:
            c, r = run.plain_confidence, run.plain_residual
            rank = (run.similarity.argsort().argsort() / len(c)).astype(np.float64)
            cell = np.searchsorted(DEGREE_EDGES[1:], run.degree).astype(np.float64) + 0.5
            parts.append(
                [
                    _sums(r, c),
                    _sums(run.residual, run.confidence),
                    _sums(r, c, rank, ranks),
                    _sums(r, c, cell, np.arange(float(len(DEGREE_EDGES)))),
                ]
            )
        return cls(name, *(np.sum(part, axis=0) for part in zip(*parts, strict=True)))


def banked_sums(
    bank: RunCache, graphs: Sequence[str], backbones: Sequence[str]
) -> Iterator[ResidualSums]:
    """Of the settings that a prior is learned from, each by the prior without its family."""
    for keys in banked_keys(bank, graphs, backbones, FEWEST_NODES):
        beliefs = resolve(leave_out(keys[0].dataset)).beliefs
        looks = [one.own for key in keys if (one := banked_look(bank, key)) is not None]
        looked_at = [residuals_of(x, beliefs.__getitem__, keep_classes=True) for x in looks]
        yield ResidualSums.of(f"{keys[0].dataset} {keys[0].backbone}", looked_at)


def _sums(
    residual: Floats, confidence: Floats, other: Floats | None = None, edges: Floats | None = None
) -> Floats:
    points = [confidence] if other is None else [confidence, other]
    grid = [CONFIDENCE_EDGES] if edges is None else [CONFIDENCE_EDGES, edges]
    weights = residual, np.ones(len(residual))
    return np.stack([np.histogramdd(points, grid, weights=w)[0] for w in weights])


def draw(settings: Iterable[ResidualSums]) -> Any:
    """A figure: residuals by confidence before and after the baseline, and over two coordinates.

    Settings count alike; places with fewer than 100 nodes are left empty.
    """
    figure_module = require("matplotlib.figure", extra="plot")
    from simi_mailbox_bench.figures import ACCENT, INK, MUTED, diverging

    settings = list(settings)
    figure = figure_module.Figure(figsize=(14, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    places = np.arange(len(CONFIDENCE_EDGES) - 1)
    for one in settings:
        left.plot(places, 100 * _mean(one.plain), color=MUTED, lw=0.7, alpha=0.6)
    for name, colour, word in (
        ("plain", INK, "after temperature scaling"),
        ("baseline", ACCENT, "after the baseline"),
    ):
        pooled = _pooled([_mean(getattr(one, name)) for one in settings])
        left.plot(places, 100 * pooled, color=colour, lw=2, marker="o", ms=4, label=word)
    left.axhline(0, color=INK, lw=0.6)
    left.set(ylabel="accuracy − confidence, points", ylim=(-12, 12))
    left.set_title("One grey line per graph and GNN")
    left.legend(frameon=False)
    spans = [(int(low) + 1, int(high)) for low, high in pairwise(DEGREE_EDGES[1:-1])]
    degrees = [f"{low}" if low == high else f"{low}–{high}" for low, high in spans]
    degrees = ["0–1", *degrees, f"> {DEGREE_EDGES[-2]:g}"]
    shares = [f"{100 * k // OVERLAP_CELLS}–{100 * (k + 1) // OVERLAP_CELLS}" for k in range(6)]
    panels = (
        (middle, "overlap", "overlap percentile", shares),
        (right, "degree", "degree", degrees),
    )
    for axes, name, label, words in panels:
        surface = 100 * _pooled([_mean(getattr(one, name)) for one in settings]).T
        colours = diverging("blue-orange")
        image = axes.imshow(surface, origin="lower", cmap=colours, vmin=-6, vmax=6, aspect="auto")
        axes.set_yticks(range(len(words)), words)
        axes.set(ylabel=label, title=f"By {label}, after temperature scaling")
    for axes in (left, middle, right):
        ticks = np.arange(len(CONFIDENCE_EDGES)) - 0.5
        axes.set_xticks(ticks, [f"{edge:g}" for edge in CONFIDENCE_EDGES])
        axes.set_xlabel("confidence")
    figure.colorbar(image, ax=right, label="accuracy − confidence, points")
    return figure


def _mean(sums: Floats) -> Floats:
    total, count = sums
    return np.where(count >= FEWEST, total / np.maximum(count, 1), np.nan)


def _pooled(means: list[Floats]) -> Floats:
    """Mean over the settings that have enough nodes at a place; NaN where none has."""
    values = np.stack(means)
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
