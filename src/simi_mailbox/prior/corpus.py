"""A corpus of past graphs, reduced to the normal equations of one small regression each.

The equations of several graphs add up, so the prior without one family of graphs is solved from
the same few numbers as the prior of all: no table of ours is learned on the graph it measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simi_mailbox.prior.model import MOST_TRUST, SMALLEST_SPREAD, Prior
from simi_mailbox.prior.terms import Floats

WEIGHT_SPREADS = 0.1, 1.0
"""Bounds of the spread of w: a few graphs cannot tell it to be smaller, or larger, with reason."""
UNKNOWN = 0.5
"""The trust in a prior of one family of graphs, which says nothing about another."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Weighted means of xxᵀ and of x r over nodes: terms x [2], residual r.

    Examples
    --------
    >>> x = np.array([[-0.1, 0.01], [0.1, 0.01]])
    >>> slope, luck = Equations.of(x, np.array([0.01, -0.03]), np.ones(2)).solve()
    >>> round(slope, 6), round(luck, 6)
    (-0.2, 1.0)
    """

    matrix: Floats
    right: Floats

    @classmethod
    def of(cls, terms: Floats, residual: Floats, weight: Floats) -> Equations:
        """Equations of some nodes."""
        weighted = terms * (weight / weight.sum())[:, None]
        return cls(weighted.T @ terms, weighted.T @ residual)

    @classmethod
    def mean(cls, parts: Iterable[Equations]) -> Equations:
        """Average of several, all alike."""
        parts = list(parts)
        matrices, rights = [p.matrix for p in parts], [p.right for p in parts]
        return cls(np.mean(matrices, axis=0), np.mean(rights, axis=0))

    def solve(self) -> tuple[float, float]:
        """Slope and luck of least squared error; luck is never negative."""
        (a, b), (_, d) = self.matrix
        determinant = a * d - b * b
        if determinant > 1e-9 * a * d:
            luck = -(a * self.right[1] - b * self.right[0]) / determinant
            if luck > 0:
                return float((self.right[0] + b * luck) / a), float(luck)
        return float(self.right[0] / a) if a > 0 else 0.0, 0.0

    def own_slope(self) -> float | None:
        """Slope of least squared error whatever the level, if it is determined."""
        (a, b), (_, d) = self.matrix
        determinant = a * d - b * b
        if not determinant > 1e-9 * a * d:
            return None
        return float((d * self.right[0] - b * self.right[1]) / determinant)


@dataclass(frozen=True, eq=False)
class Setting:
    """One backbone on one graph: means over its runs, and what they were.

    ``labels`` is the number of calibration nodes, ``between`` the variance between groups of
    nodes (`simi_mailbox.prior.between`).
    """

    graph: str
    family: str
    backbone: str
    runs: int
    labels: int
    equations: Equations
    between: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Past graphs that a prior is learned from.

    Examples
    --------
    >>> c = np.linspace(-0.4, 0.1, 50)
    >>> def setting(graph, slope):
    ...     x = np.stack([c, np.full(50, 0.01)], axis=1)
    ...     equations = Equations.of(x, slope * c, np.ones(50))
    ...     return Setting(graph, graph, "gcn", 1, 100, equations, 1e-4)
    >>> corpus = Corpus((setting("a", -0.1), setting("b", -0.2), setting("c", 0.6)))
    >>> round(corpus.prior().slope, 6), round(corpus.without("c").prior().slope, 6)
    (0.1, -0.15)
    """

    settings: tuple[Setting, ...]
    command: str = ""

    @property
    def families(self) -> list[str]:
        """Families of graphs, each once, sorted."""
        return sorted({setting.family for setting in self.settings})

    def without(self, *families: str) -> Corpus:
        """The corpus less some families; a family that is not in it changes nothing."""
        kept = tuple(s for s in self.settings if s.family not in families)
        if not kept:
            raise ValueError(
                f"without {', '.join(families)} no graph is left: "
                f"the corpus holds {', '.join(self.families) or 'none'}"
            )
        return Corpus(kept, self.command)

    def prior(self) -> Prior:
        """Learn: one regression over all settings alike, then its worth on families left out."""
        slope, luck = self._coefficients()
        weight, spread = self._worth()
        groups = float(np.mean([np.sqrt(max(s.between, 0.0)) for s in self.settings]))
        graphs = sorted({s.graph for s in self.settings})
        backbones = sorted({s.backbone for s in self.settings})
        runs = sum(s.runs for s in self.settings)
        return Prior(
            slope=slope,
            luck=luck,
            weight=weight,
            weight_spread=spread,
            group_spread=max(groups, SMALLEST_SPREAD),
            fewest_labels=min(s.labels for s in self.settings),
            origin=f"{', '.join(graphs)} with {', '.join(backbones)}, {runs} runs",
        )

    def _coefficients(self) -> tuple[float, float]:
        return Equations.mean(s.equations for s in self.settings).solve()

    def _worth(self) -> tuple[float, float]:
        """Middle and spread of the ratio of a graph's own slope to that of other families."""
        found = []
        for family in self.families if len(self.families) > 1 else []:
            slope, _ = self.without(family)._coefficients()
            own = [s.equations.own_slope() for s in self.settings if s.family == family]
            found += [value / slope for value in own if value is not None and slope != 0]
        if not found:
            return UNKNOWN, WEIGHT_SPREADS[1]
        # Medians: a graph with a steep slope of its own says that this happens, not how often.
        middle = float(np.median(found))
        spread = 1.4826 * float(np.median(np.abs(np.array(found) - middle)))
        return float(np.clip(middle, 0.0, MOST_TRUST)), float(np.clip(spread, *WEIGHT_SPREADS))
