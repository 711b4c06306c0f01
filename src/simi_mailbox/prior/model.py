"""A prior: what other graphs say about a group's residual before its own labels are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox.prior.terms import LEVEL, SHAPE, TERMS, Floats, level_terms, shape_terms

MOST_TRUST = 1.25
"""Evidence may raise trust above one, but not without end."""


@dataclass(frozen=True)
class Prior:
    """Expected residual (correct − confidence) at a place (c, p), and how far to trust it.

        expected residual = w (β₀ + β₁ c + β₂ p + β₃ c² + β₄ c p + β₅ p²) + β₆ e

    with confidence c after temperature scaling, mailbox percentile p, and the standard error e of
    the calibration set's accuracy. The weight w is not a constant: see `trust`.

    Parameters
    ----------
    coefficients : tuple of float
        β, one for each of `simi_mailbox.prior.terms.TERMS`.
    weight, spread : float
        Mean and standard deviation over graphs of the best w.
    origin : str
        Where the prior comes from, in words.

    Examples
    --------
    >>> prior = Prior((0.1, -0.2, 0, 0, 0, 0, -0.5), weight=0.8, spread=0.3)
    >>> prior.shape(np.array([0.5, 1.0]), np.array([0.5, 0.5])).round(6)
    array([ 0. , -0.1])
    >>> round(prior.level(np.full(100, 0.5)), 6)
    -0.025
    """

    coefficients: tuple[float, ...]
    weight: float
    spread: float
    origin: str = ""

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(TERMS):
            raise ValueError(
                f"a prior has {len(TERMS)} coefficients ({', '.join(TERMS)}), "
                f"got {len(self.coefficients)}"
            )
        if not np.isfinite([*self.coefficients, self.weight, self.spread]).all():
            raise ValueError(f"a prior's numbers must be finite, got {self}")
        if not self.spread > 0:
            raise ValueError(f"the spread of a prior's weight must be positive, got {self.spread}")

    def shape(self, confidence: Floats, percentile: Floats) -> Floats:
        """Expected residual at weight one, without the level."""
        terms = shape_terms(confidence, percentile)
        return np.asarray(terms @ np.array(self.coefficients[: len(SHAPE)]))

    def level(self, confidence: Floats) -> float:
        """Expected residual of all nodes alike, from the confidences of the calibration nodes."""
        return float(level_terms(confidence) @ np.array(self.coefficients[-len(LEVEL) :]))

    def trust(self, expected: Floats, residual: Floats, variance: float) -> float:
        """The weight w of this prior on a graph, by the evidence of its calibration nodes.

        If residuals scatter around w × expected with the given variance, and w over graphs has
        mean ``weight`` and standard deviation ``spread``, the most probable w is a mean of two
        estimates, each weighted by its precision. It is cut to [0, 1.25].

        Examples
        --------
        >>> prior = Prior((0.0,) * 7, weight=0.8, spread=0.3)
        >>> expected = np.linspace(-0.1, 0.1, 1000)
        >>> [round(prior.trust(expected, w * expected, variance=0.1), 2) for w in (0.0, 1.0)]
        [0.2, 0.95]
        """
        evidence = float(expected @ expected) / variance if variance > 0 else 0.0
        if evidence == 0.0:
            return float(np.clip(self.weight, 0.0, MOST_TRUST))
        precision = 1.0 / self.spread**2
        found = float(expected @ residual) / variance
        w = (found + self.weight * precision) / (evidence + precision)
        return float(np.clip(w, 0.0, MOST_TRUST))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for files."""
        return {
            "coefficients": dict(zip(TERMS, self.coefficients, strict=True)),
            "weight": self.weight,
            "spread": self.spread,
            "origin": self.origin,
        }
