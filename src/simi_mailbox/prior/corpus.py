"""A corpus of past graphs, reduced to a few numbers each.

A prior is made of means over graphs, so the prior without one family of graphs is made from the
same few numbers as the prior of all: no table of ours is learned on the graph it measures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.prior.baseline import Belief
from simi_mailbox.prior.model import Prior

VAGUE = Belief(many=0.0, many_spread=0.3, few=0.0, few_spread=1.0, blind=-1.2, blind_spread=1.0)
"""What is believed of a graph while a corpus is being made, and where a corpus is too small."""
NARROWEST = {"many": 0.025, "few": 0.1, "blind": 0.3}
"""Spreads over graphs: a few of them cannot tell these to be smaller."""
SMALLEST_BETWEEN = 1e-5
NUMBERS = ("many", "few", "blind", "luck", "luck_weight", "between", "variance")
"""What a setting is reduced to."""


@dataclass(frozen=True)
class Setting:
    """One backbone on one graph: means over its runs, and what they were.

    Parameters
    ----------
    graph, family, backbone, runs
        What it is, and how many runs it is the mean of.
    labels : int
        Number of calibration nodes.
    many, few, blind : float
        Of the baseline that fits the nodes that were neither trained nor calibrated on.
    luck : float
        Weighted mean over these nodes of the residual × e c / n, after the baseline that the n
        calibration nodes gave, with their error rate e; ``luck_weight`` is that of (e c / n)².
    between : float
        Variance between groups of nodes after that baseline, ``variance`` that of one node.
    facts : dict
        Anything else worth knowing.
    """

    graph: str
    family: str
    backbone: str
    runs: int
    labels: int
    many: float
    few: float
    blind: float
    luck: float
    luck_weight: float
    between: float
    variance: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Corpus:
    """Past graphs that a prior is learned from.

    Examples
    --------
    >>> def setting(graph, blind):
    ...     return Setting(graph, graph, "gcn", 1, 100, 0.0, 0.0, blind, -2e-4, 1e-4, 1e-3, 0.1)
    >>> corpus = Corpus((setting("a", -2.0), setting("b", -1.0), setting("c", 0.0)))
    >>> corpus.prior().blind, corpus.without("c").prior().blind
    (-1.0, -1.5)
    """

    settings: tuple[Setting, ...]
    command: str = ""

    @property
    def families(self) -> list[str]:
        """Families of graphs, each once, sorted."""
        return sorted({setting.family for setting in self.settings})

    def family_of(self, name: str) -> str | None:
        """Family of a graph, or the family of that name, whatever the case; None if not in it."""
        known = {setting.graph.lower(): setting.family for setting in self.settings}
        known |= {family.lower(): family for family in self.families}
        return known.get(name.strip().lower())

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
        """Means and spreads over all settings alike.

        Of the luck it is the median, weighted by how much a setting can tell about it: on a graph
        with many labels other causes of a wrong level are larger, and must not decide.
        """
        found: dict[str, float] = {}
        for name, narrowest in NARROWEST.items():
            values = [getattr(setting, name) for setting in self.settings]
            found[name] = float(np.mean(values))
            spread = max(float(np.std(values)), narrowest)
            if len(self.families) == 1:  # one family says nothing about how others differ
                spread = getattr(VAGUE, f"{name}_spread")
            found[f"{name}_spread"] = spread
        luck = weighted_median(
            np.array([-s.luck / s.luck_weight for s in self.settings]),
            np.array([s.luck_weight for s in self.settings]),
        )
        worth = [s.variance / max(s.between, SMALLEST_BETWEEN) for s in self.settings]
        graphs = sorted({s.graph for s in self.settings})
        backbones = sorted({s.backbone for s in self.settings})
        runs = sum(s.runs for s in self.settings)
        return Prior(
            **found,
            luck=max(luck, 0.0),
            pseudo_labels=float(np.mean(worth)),
            fewest_labels=min(s.labels for s in self.settings),
            origin=f"{', '.join(graphs)} with {', '.join(backbones)}, {runs} runs",
        )


def weighted_median(values: Floats, weights: Floats) -> float:
    """The value at which half of the weight is reached.

    Examples
    --------
    >>> weighted_median(np.array([3.0, 1.0, 100.0]), np.array([1.0, 1.0, 1.5]))
    3.0
    """
    order = values.argsort()
    reached = weights[order].cumsum()
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
