"""The picture of what a prior says, beside what it was learned from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._extras import require
from simi_mailbox.prior.model import Prior
from simi_mailbox.prior.past import Residuals
from simi_mailbox.prior.terms import Floats

EDGES = np.array(
    [-0.6, -0.45, -0.35, -0.25, -0.18, -0.12, -0.07, -0.03, 0.0, 0.03, 0.07, 0.12, 0.2]
)
CONFIDENCE_EDGES = np.array([0.2, 0.35, 0.5, 0.65, 0.75, 0.85, 0.92, 0.97, 1.0])
MAILBOX_CELLS = 6
FEWEST = 100


@dataclass(frozen=True, eq=False)
class Seen:
    """Residuals of one setting, all runs together: sums and counts [2, …] of bins.

    ``line`` is along confidence relative to the mean, ``cells`` over confidence and mailbox
    percentile.
    """

    name: str
    line: Floats
    cells: Floats

    @classmethod
    def of(cls, name: str, runs: Sequence[Residuals]) -> Seen:
        """Sum up runs."""
        grid = CONFIDENCE_EDGES, np.linspace(0, 1, MAILBOX_CELLS + 1)
        line = np.zeros((2, len(EDGES) - 1))
        cells = np.zeros((2, len(CONFIDENCE_EDGES) - 1, MAILBOX_CELLS))
        for run in runs:
            rank = run.similarity.argsort().argsort() / len(run.similarity)
            for row, weight in enumerate((run.residual, np.ones(len(rank)))):
                line[row] += np.histogram(run.confidence - run.mean, EDGES, weights=weight)[0]
            cells += np.stack(
                [
                    np.histogram2d(run.confidence, rank, grid, weights=weight)[0]
                    for weight in (run.residual, np.ones(len(rank)))
                ]
            )
        return cls(name, line, cells)


def draw(prior: Prior, settings: Iterable[Seen]) -> Any:
    """A figure: residuals by relative confidence with the prior's line, and over both coordinates.

    Settings count alike; places with fewer than 100 nodes are left empty.
    """
    figure_module = require("matplotlib.figure", extra="plot")
    from simi_mailbox.plots.style import ACCENT, INK, MUTED, diverging

    settings = list(settings)
    figure = figure_module.Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    middle = (EDGES[1:] + EDGES[:-1]) / 2
    for one in settings:
        left.plot(middle, 100 * _mean(one.line), color=MUTED, lw=0.7, alpha=0.6)
    pooled = _pooled([_mean(one.line) for one in settings])
    left.plot(middle, 100 * pooled, color=INK, lw=2, marker="o", ms=4, label="mean of all")
    left.plot(middle, 100 * prior.shape(middle, 0.0), color=ACCENT, lw=2, label="the prior's slope")
    left.axhline(0, color=INK, lw=0.6)
    left.set(
        xlabel="confidence − mean confidence of the graph",
        ylabel="accuracy − confidence, points",
        ylim=(-12, 12),
        title="One grey line per graph and backbone",
    )
    left.legend(frameon=False)
    surface = 100 * _pooled([_mean(one.cells) for one in settings]).T
    colours = diverging("blue-orange")
    image = right.imshow(surface, origin="lower", cmap=colours, vmin=-6, vmax=6, aspect="auto")
    ticks = np.arange(len(CONFIDENCE_EDGES)) - 0.5
    right.set_xticks(ticks, [f"{edge:g}" for edge in CONFIDENCE_EDGES])
    marks = np.linspace(-0.5, MAILBOX_CELLS - 0.5, 3)
    right.set_yticks(marks, ["0", "50", "100"])
    right.set(
        xlabel="confidence after temperature scaling",
        ylabel="mailbox percentile",
        title="Mean residual by confidence and mailbox",
    )
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
