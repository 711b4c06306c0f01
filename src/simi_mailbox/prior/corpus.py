"""A corpus of past graphs, reduced to the normal equations of one small regression each.

The equations of several graphs add up, so the prior without one family of graphs is solved from
the same few numbers as the prior of all: no table of ours is learned on the graph it measures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simi_mailbox.prior.model import MOST_TRUST, Prior
from simi_mailbox.prior.terms import SHAPE, TERMS, Floats

RIDGE = 1e-3
"""Added to the diagonal of the equations, whose terms are of order one."""
SPREADS = 0.1, 1.0
"""Bounds of the spread of w: a few graphs cannot tell it to be smaller, or larger, with reason."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Mean of xxᵀ and of x r over nodes: terms x, residual r.

    Examples
    --------
    >>> Equations.of(np.ones((4, 7)), np.array([0.1, 0.3, 0.1, 0.3])).right.round(6)
    array([0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2])
    """

    matrix: Floats
    right: Floats

    @classmethod
    def of(cls, terms: Floats, residual: Floats) -> Equations:
        """Equations of some nodes."""
        return cls(terms.T @ terms / len(terms), terms.T @ residual / len(terms))

    @classmethod
    def mean(cls, parts: Iterable[Equations], weights: Sequence[float] | None = None) -> Equations:
        """Average of several, by weights that need not add up to one."""
        parts = list(parts)
        share = np.full(len(parts), 1.0) if weights is None else np.asarray(weights)
        share = share / share.sum()
        matrix = sum(w * part.matrix for w, part in zip(share, parts, strict=True))
        right = sum(w * part.right for w, part in zip(share, parts, strict=True))
        return cls(np.asarray(matrix), np.asarray(right))

    def solve(self, ridge: float = RIDGE) -> Floats:
        """Coefficients of least squared error, with a ridge."""
        damped = self.matrix + ridge * np.eye(len(self.right))
        return np.asarray(np.linalg.solve(damped, self.right), dtype=np.float64)

    def best_weight(self, coefficients: Floats) -> float:
        """The w that fits w × shape + level best on these nodes."""
        k = len(SHAPE)
        shape, level = coefficients[:k], coefficients[k:]
        beside = self.right[:k] - self.matrix[:k, k:] @ level
        return float(shape @ beside / (shape @ self.matrix[:k, :k] @ shape))


@dataclass(frozen=True, eq=False)
class Setting:
    """One backbone on one graph: the mean equations of all its runs, and what they were."""

    graph: str
    family: str
    backbone: str
    runs: int
    equations: Equations
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Corpus:
    """Past graphs that a prior is learned from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> def setting(graph, slope):
    ...     x = rng.random((500, 7))
    ...     return Setting(graph, graph, "gcn", 1, Equations.of(x, slope * x[:, 1]))
    >>> corpus = Corpus((setting("a", -0.1), setting("b", -0.2), setting("c", 0.3)))
    >>> prior = corpus.without("c").prior()
    >>> round(prior.coefficients[1], 2)
    -0.15
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
        weight, spread = self._worth()
        graphs = sorted({s.graph for s in self.settings})
        backbones = sorted({s.backbone for s in self.settings})
        runs = sum(s.runs for s in self.settings)
        origin = f"{', '.join(graphs)} with {', '.join(backbones)}, {runs} runs"
        return Prior(tuple(self._coefficients().tolist()), weight, spread, origin)

    def _coefficients(self) -> Floats:
        return Equations.mean(s.equations for s in self.settings).solve()

    def _worth(self) -> tuple[float, float]:
        """Middle and spread of the best weights on graphs whose family was left out."""
        if len(self.families) < 2:
            return 0.5, SPREADS[1]  # one family says nothing about another
        found = []
        for family in self.families:
            coefficients = self.without(family)._coefficients()
            found += [
                s.equations.best_weight(coefficients) for s in self.settings if s.family == family
            ]
        # Median and median distance: one graph on which the prior fails says that this happens,
        # not how often.
        middle = float(np.median(found))
        spread = 1.4826 * float(np.median(np.abs(np.asarray(found) - middle)))
        return float(np.clip(middle, 0.0, MOST_TRUST)), float(np.clip(spread, *SPREADS))


def check_terms(names: Sequence[str]) -> None:
    """Refuse equations of other terms than this version's."""
    if tuple(names) != TERMS:
        raise ValueError(f"terms {', '.join(names)} are not this version's: {', '.join(TERMS)}")
