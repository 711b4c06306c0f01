"""A prior: what other graphs say before a graph's own labels are seen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.prior.baseline import Belief

SMALLEST_SPREAD = 0.005
"""Between groups: half a point, below which differences would matter to nobody."""
LEAST_STRENGTH = 10.0
"""Pseudo-labels that always stand behind the prior, however much the groups seem to differ."""


@dataclass(frozen=True)
class Prior(Belief):
    """What to expect of a graph on which nothing but a few labels is known.

    Parameters
    ----------
    many, many_spread, few, few_spread : float
        Means and standard deviations over graphs of the effects of the degree; see `Baseline`.
    blind, blind_spread : float
        The same of the blind share, as the logarithm of its ratio to the squared error rate.
    luck : float
        Right answers among the calibration nodes that were luck, because these nodes have also
        chosen the GNN's checkpoint, relative to the error rate; see `level`.
    pseudo_labels : float
        How many labels the expectation is worth to a group of nodes on other graphs, on average;
        see `strength`.
    fewest_labels : int
        The smallest number of labels that the luck was learned from; below, it is not
        extrapolated.
    origin : str
        What the prior was learned from, in words.

    Examples
    --------
    >>> prior = Prior(0.0, 0.1, -1.0, 0.5, -1.0, 0.5, luck=15, pseudo_labels=100)
    >>> prior.level(np.array([0.5, 0.9]), error=0.1, labels=150)
    array([-0.005, -0.009])
    """

    luck: float
    pseudo_labels: float
    fewest_labels: int = 1
    origin: str = ""

    def __post_init__(self) -> None:
        numbers = [v for v in asdict(self).values() if not isinstance(v, str)]
        if not np.isfinite(numbers).all():
            raise ValueError(f"a prior's numbers must be finite, got {self}")
        if not min(self.many_spread, self.few_spread, self.blind_spread, self.pseudo_labels) > 0:
            raise ValueError(f"a prior's spreads must be positive, got {self}")

    def level(self, confidence: Floats, error: float, labels: int) -> Floats:
        """Expected accuracy − confidence, from the luck of ``labels`` calibration nodes.

        Luck decides about nodes that may go either way: twice the ``error`` rate, twice the luck.
        """
        return np.asarray(-self.luck * error * confidence / max(labels, self.fewest_labels))

    def strength(self, found: float, error: float, variance: float) -> float:
        """Pseudo-labels behind the expectation, by how much the groups differ on this graph.

        ``found`` and ``error`` are an estimate of the variance between groups and its standard
        error (`simi_mailbox.prior.between.between_groups`), ``variance`` is that of one node's
        residual. The corpus expects a variance between groups that is worth ``pseudo_labels``,
        as uncertain as it is large.

        Examples
        --------
        >>> prior = Prior(0.0, 0.1, -1.0, 0.5, -1.0, 0.5, luck=0, pseudo_labels=200)
        >>> [round(prior.strength(found, 1e-4, 0.12)) for found in (0.0, 0.0006, 0.0064)]
        [4800, 200, 19]
        """
        typical = variance / self.pseudo_labels
        own, common = error**-2, typical**-2
        between = (found * own + typical * common) / (own + common)
        return max(variance / max(between, SMALLEST_SPREAD**2), LEAST_STRENGTH)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for files."""
        return asdict(self)
