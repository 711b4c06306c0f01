"""What other graphs say before a graph's own labels are seen, and the numbers it is made from.

A prior is made of means over graphs, so the prior without one family of graphs is made from the
same few numbers as the prior of all: no table of ours is learned on the graph it measures.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.prior.baseline import Belief

SMALLEST_SPREAD = 0.005
"""Between groups: half a point, below which differences would matter to nobody."""
LEAST_STRENGTH = 10.0
"""Pseudo-labels that always stand behind the prior, however much the groups seem to differ."""
VAGUE = Belief(
    log_degree=0.0,
    log_degree_spread=0.3,
    inverse_degree=0.0,
    inverse_degree_spread=1.0,
    blind=-1.2,
    blind_spread=1.0,
)
"""What is believed of a graph while a corpus is being made, and where a corpus is too small."""
NARROWEST = {"log_degree": 0.025, "inverse_degree": 0.1, "blind": 0.3}
"""Spreads over graphs: a few of them cannot tell these to be smaller."""
SMALLEST_BETWEEN = 1e-5
SMALLEST_VARIANCE = 1e-3
"""Of one node\'s residual: a group of certain nodes is not known to infinite precision."""

NUMBERS = (
    "log_degree", "inverse_degree", "blind", "luck", "luck_weight", "between", "variance",
)  # fmt: skip
"""What a setting is reduced to."""
OPTIONAL = ("lucky", "lucky_weight")
"""What settings of older files lack."""


@dataclass(frozen=True)
class Prior(Belief):
    """What to expect of a graph on which nothing but a few labels is known.

    Parameters
    ----------
    log_degree, log_degree_spread, inverse_degree, inverse_degree_spread : float
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
    lucky_labels : float
        The calibration nodes have as few errors as if so many of them could not be wrong; see
        `error_weight`. 0 if it was not learned.

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
    lucky_labels: float = 0.0

    def __post_init__(self) -> None:
        numbers = [v for v in asdict(self).values() if not isinstance(v, str)]
        if not np.isfinite(numbers).all():
            raise ValueError(f"a prior's numbers must be finite, got {self}")
        spreads = self.log_degree_spread, self.inverse_degree_spread, self.blind_spread
        if not min(*spreads, self.pseudo_labels) > 0:
            raise ValueError(f"a prior's spreads must be positive, got {self}")

    def level(self, confidence: Floats, error: float, labels: int) -> Floats:
        """Expected accuracy − confidence, from the luck of ``labels`` calibration nodes.

        Luck decides about nodes that may go either way: twice the ``error`` rate, twice the luck.
        """
        return np.asarray(-self.luck * error * confidence / max(labels, self.fewest_labels))

    def error_weight(self, labels: int) -> float:
        """How many errors elsewhere an error among ``labels`` calibration nodes stands for.

        These nodes have also chosen the checkpoint, so that the GNN errs less on them than on
        others: as if `lucky_labels` of them could not be wrong. Rules that count errors (prediction
        sets, acceptance) give each this weight. A prior that has not learned it takes ``luck``,
        which is about the confidence after calibration, and smaller.

        Examples
        --------
        >>> prior = Prior(0.0, 0.1, -1.0, 0.5, -1.0, 0.5, luck=15, pseudo_labels=9, lucky_labels=30)
        >>> prior.error_weight(150), prior.error_weight(3000), prior.error_weight(10)
        (1.25, 1.0101010101010102, 2.0)
        """
        lucky = self.lucky_labels or self.luck
        n = max(labels, self.fewest_labels, 2.0 * lucky, 1.0)
        return n / (n - lucky)

    def strength(self, found: float, error: float, variance: float) -> float:
        """Pseudo-labels behind the expectation, by how much the groups differ on this graph.

        ``found`` and ``error`` are an estimate of the variance between groups and its standard
        error (`between_groups`), ``variance`` is that of one node's residual. The
        corpus expects a variance between groups that is worth ``pseudo_labels``, as uncertain as
        it is large.

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


@dataclass(frozen=True)
class Setting:
    """One backbone on one graph: means over its runs, and what they were.

    Parameters
    ----------
    graph, family, backbone, runs
        What it is, and how many runs it is the mean of.
    labels : int
        Number of calibration nodes.
    log_degree, inverse_degree, blind : float
        Of the baseline that fits the nodes that were neither trained nor calibrated on.
    luck : float
        Weighted mean over these nodes of the residual × e c / n, after the baseline that the n
        calibration nodes gave, with their error rate e; ``luck_weight`` is that of (e c / n)².
    between : float
        Variance between groups of nodes after that baseline, ``variance`` that of one node.
    facts : dict
        Anything else worth knowing.
    lucky : float
        (e' − e) / (1 − e'), with the error rates e of the calibration nodes and e' of these nodes;
        ``lucky_weight`` is e' / (n (1 − e')). Their ratio is the number of calibration nodes that
        could not be wrong; the weight is its precision.

    Examples
    --------
    >>> Setting("a", "a", "gcn", 1, 99, 0.1, -0.5, -1.0, -2e-4, 1e-4, 1e-3, 0.1).labels
    99
    """

    graph: str
    family: str
    backbone: str
    runs: int
    labels: int
    log_degree: float
    inverse_degree: float
    blind: float
    luck: float
    luck_weight: float
    between: float
    variance: float
    facts: dict[str, Any] = field(default_factory=dict)
    lucky: float = 0.0
    lucky_weight: float = 0.0


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

        Of luck it is the median, weighted by how much a setting can tell about it: on a graph
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
        told = [s for s in self.settings if s.lucky_weight > 0]
        lucky = weighted_median(
            np.array([s.lucky / s.lucky_weight for s in told] or [0.0]),
            np.array([s.lucky_weight for s in told] or [1.0]),
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
            lucky_labels=max(lucky, 0.0),
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


def between_groups(total: Floats, variance: Floats, count: Floats) -> tuple[float, float]:
    """Variance of the groups' true residuals, and its standard error if there were none.

    The moment estimate of a random-effects model (DerSimonian and Laird, 1986): what the weighted
    scatter of the groups' mean residuals exceeds its expectation under chance. It may come out
    negative.

    Parameters
    ----------
    total, variance : array [groups]
        Sum of the residuals of a group's nodes, and of their variances c(1 − c).
    count : array [groups]
        Number of nodes.

    Examples
    --------
    >>> count, total = np.full(20, 100.0), np.tile([8.0, -8.0], 10)
    >>> found, error = between_groups(total, 0.16 * count, count)
    >>> round(found, 4), round(error, 4)
    (0.0051, 0.0005)
    """
    seen = count > 0
    if seen.sum() < 3:
        return 0.0, np.inf
    n = count[seen]
    noise = np.maximum(variance[seen], SMALLEST_VARIANCE * n)
    weight = n**2 / noise
    mean = total[seen] / n
    scatter = float(weight @ (mean - weight @ mean / weight.sum()) ** 2)
    chance = len(n) - 1
    scale = float(weight.sum() - (weight**2).sum() / weight.sum())
    if not scale > 0:
        return 0.0, np.inf
    # Of a standardised sum of coin throws the square has variance 2 + about 1 / noise: a group
    # that expects less than one error is no normal variable.
    error = float(np.sqrt(2 * chance + (1.0 / noise).sum())) / scale
    return (scatter - chance) / scale, error
