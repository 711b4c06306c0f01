"""A prior: what other graphs say about a group's residual before its own labels are seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from simi_mailbox.prior.terms import Floats

MOST_TRUST = 1.25
"""Evidence may raise trust above one, but not without end."""
SMALLEST_SPREAD = 0.005
"""Between groups: half a point, below which differences would matter to nobody."""
LEAST_STRENGTH = 10.0
"""Pseudo-labels that always stand behind the prior, however much the groups seem to differ."""
SURE = 1e-4


@dataclass(frozen=True)
class Prior:
    """Expected residual, accuracy − confidence, after temperature scaling on n labels.

        expected residual of confidence c = w · slope · (c − mean c) − luck · c / n

    The slope is negative: temperature scaling leaves the confident nodes over-confident and the
    unsure ones under-confident, seen from the graph's mean confidence. The second part is the
    optimism of calibration nodes that have also chosen the GNN's checkpoint: as if some ``luck`` of
    their right answers had been luck.

    Parameters
    ----------
    slope, luck : float
    weight, weight_spread : float
        Mean and standard deviation over graphs of the trust w; see `trust`.
    group_spread : float
        Standard deviation of the residuals of groups about this expectation on a typical graph;
        see `strength`.
    fewest_labels : int
        The smallest n that the luck was learned from; below, it is not extrapolated.
    origin : str
        What the prior was learned from, in words.

    Examples
    --------
    >>> prior = Prior(slope=-0.05, luck=1.5, weight=1.0, weight_spread=0.3, group_spread=0.02)
    >>> prior.shape(np.array([0.5, 0.95]), mean=0.85)
    array([ 0.0175, -0.005 ])
    >>> prior.level(np.array([0.5, 0.9]), labels=150)
    array([-0.005, -0.009])
    """

    slope: float
    luck: float
    weight: float
    weight_spread: float
    group_spread: float
    fewest_labels: int = 1
    origin: str = ""

    def __post_init__(self) -> None:
        numbers = [v for v in asdict(self).values() if not isinstance(v, str)]
        if not np.isfinite(numbers).all():
            raise ValueError(f"a prior's numbers must be finite, got {self}")
        if not (self.weight_spread > 0 and self.group_spread > 0):
            raise ValueError(f"a prior's spreads must be positive, got {self}")

    def shape(self, confidence: Floats, mean: float) -> Floats:
        """Expected residual at trust one, without the level."""
        return np.asarray(self.slope * (confidence - mean))

    def level(self, confidence: Floats, labels: int) -> Floats:
        """Expected residual from the luck of ``labels`` calibration nodes."""
        return np.asarray(-self.luck * confidence / max(labels, self.fewest_labels))

    def trust(self, confidence: Floats, residual: Floats, mean: float, blind: float) -> float:
        """The weight w of the shape on a graph, by the evidence of its calibration nodes.

        If residuals scatter around w × shape with the variance of a coin that shows "right" as
        often as expected, and w over graphs has mean ``weight`` and standard deviation
        ``weight_spread``, the most probable w is the mean of two estimates, each weighted by its
        precision. It is cut to [0, 1.25]. ``blind`` is the confidence of a blind guess, 1/K.

        Examples
        --------
        >>> prior = Prior(slope=-0.1, luck=0, weight=1.0, weight_spread=0.3, group_spread=0.02)
        >>> c = np.linspace(0.3, 0.95, 5000)
        >>> right, wrong = prior.shape(c, 0.7), -prior.shape(c, 0.7)
        >>> [round(prior.trust(c, residual, 0.7, 0.2), 2) for residual in (right, wrong)]
        [1.0, 0.02]
        """
        expected = self.shape(confidence, mean)
        right = np.clip(confidence + expected, blind, 1.0 - SURE)
        # The larger of two variances: a node that the prior calls less sure may well be wrong.
        variance = np.maximum(confidence * (1.0 - confidence), right * (1.0 - right))
        doubt = 1.0 / self.weight_spread**2
        evidence = float((expected**2 / variance).sum())
        found = float((expected * residual / variance).sum())
        return float(np.clip((found + doubt * self.weight) / (evidence + doubt), 0.0, MOST_TRUST))

    def strength(self, found: float, error: float, variance: float) -> float:
        """Pseudo-labels behind the prior, by how much the groups differ on this graph.

        ``found`` and ``error`` are an estimate of the variance between groups and its standard
        error (`simi_mailbox.prior.between.between_groups`), ``variance`` is that of one node's
        residual. The corpus expects ``group_spread``², as uncertain as it is large.

        Examples
        --------
        >>> prior = Prior(slope=-0.1, luck=0, weight=1.0, weight_spread=0.3, group_spread=0.02)
        >>> [round(prior.strength(found, 1e-4, 0.12)) for found in (0.0, 0.0004, 0.0064)]
        [4800, 300, 20]
        """
        typical = self.group_spread**2
        own, common = error**-2, typical**-2
        between = (found * own + typical * common) / (own + common)
        return max(variance / max(between, SMALLEST_SPREAD**2), LEAST_STRENGTH)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for files."""
        return asdict(self)
