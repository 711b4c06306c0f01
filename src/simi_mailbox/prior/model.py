"""What other graphs say before a graph's own labels are seen, and the numbers it is made from.

A prior is made of means over graphs, so the prior without one family of graphs is made from the
same few numbers as the prior of all: no table of ours is learned on the graph it measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.prior.baseline import Belief
from simi_mailbox.prior.evidence import CLASSES, EXPONENTS

SMALLEST_SPREAD = 0.005
"""Between groups: half a point, below which differences would matter to nobody."""
LEAST_STRENGTH = 10.0
"""Pseudo-labels that always stand behind the prior, however much the groups seem to differ."""
VAGUE = {
    **dict.fromkeys((*EXPONENTS, *CLASSES), 2.0),
    "log_degree": 0.3, "inverse_degree": 1.0, "sure": 1.0, "blind": 1.0,
}  # fmt: skip
"""Spreads believed in while a corpus is being made, and where a corpus is too small."""
VAGUE_BLIND = -1.2
NARROWEST = {
    **dict.fromkeys((*EXPONENTS, *CLASSES), 0.1),
    "log_degree": 0.025, "inverse_degree": 0.1, "sure": 0.03, "blind": 0.3,
}  # fmt: skip
"""Spreads over graphs: a few of them cannot tell these to be smaller."""
EITHER_SIGN = frozenset({"trained_near", "trained_far", "around"})
"""Other graphs tell the size of these terms and not their sign: nought is the middle."""
DEVIATION = 1.4826
"""Times the median deviation: the standard deviation of a normal variable."""
SMALLEST_BETWEEN = 1e-5
SMALLEST_VARIANCE = 1e-3
"""Of one node\'s residual: a group of certain nodes is not known to infinite precision."""

PLAIN = ("log_degree", "inverse_degree", "blind")
"""What is known of a setting at least: what older files hold."""
LEVEL = ("luck", "luck_weight", "between", "variance")
NUMBERS = (*PLAIN, *LEVEL)
"""What a setting is reduced to at least."""
OPTIONAL = ("lucky", "lucky_weight", "fresh_luck")
"""What settings of older files lack."""


def inputs(hidden: bool, trained: bool) -> str:
    """Name of the fits with and without a hidden layer and training labels.

    Examples
    --------
    >>> inputs(True, True), inputs(False, False)
    ('hidden trained', 'plain')
    """
    return " ".join(["hidden"] * hidden + ["trained"] * trained) or "plain"


INPUTS = tuple(inputs(hidden, trained) for hidden in (False, True) for trained in (False, True))


@dataclass(frozen=True)
class Level:
    """What is expected of confidence as a whole, and of groups, where classes are kept or move.

    Attributes
    ----------
    luck : float
        By how much calibration nodes, which have usually also chosen the GNN's checkpoint, make
        everything look better than it is, in units of error rate × confidence / labels.
    pseudo_labels : float
        How many labels the expectation is worth to a group of nodes on other graphs.
    fresh_luck : float
        The same as ``luck`` for nodes that have chosen nothing: what a fit makes of its own labels.

    Examples
    --------
    >>> level = Level(luck=40, pseudo_labels=200)
    >>> round(level.drop(confidence=0.9, error=0.1, labels=360), 3)
    0.01
    >>> [round(level.strength(found, 1e-4, 0.12)) for found in (0.0, 0.0006, 0.0064)]
    [4800, 200, 19]
    """

    luck: float
    pseudo_labels: float
    fresh_luck: float = 0.0

    def __post_init__(self) -> None:
        if not (np.isfinite([self.luck, self.fresh_luck]).all() and self.pseudo_labels > 0):
            raise ValueError(f"the numbers of a prior must be finite, got {self}")

    def drop(self, confidence: float, error: float, labels: int, *, fresh: bool = False) -> float:
        """By how much the mean confidence is too high after a fit on ``labels`` nodes.

        Luck decides about nodes that may go either way: twice the ``error`` rate, twice the luck.
        """
        return (self.fresh_luck if fresh else self.luck) * error * confidence / labels

    def strength(self, found: float, error: float, variance: float) -> float:
        """Pseudo-labels behind the expectation, by how much the groups differ on this graph.

        ``found`` and ``error`` are an estimate of the variance between groups and its standard
        error (`between_groups`), ``variance`` is that of one node's residual. The
        corpus expects a variance between groups that is worth ``pseudo_labels``, as uncertain as
        it is large.
        """
        typical = variance / self.pseudo_labels
        own, common = error**-2, typical**-2
        between = (found * own + typical * common) / (own + common)
        return max(variance / max(between, SMALLEST_SPREAD**2), LEAST_STRENGTH)


@dataclass(frozen=True)
class Prior:
    """What to expect of a graph on which nothing but a few labels is known.

    Parameters
    ----------
    beliefs : dict of Belief
        Middles and spreads over graphs of the terms of a `Baseline`, by what it is made from: see
        `INPUTS`.
    kept, free : Level
        Where classes are kept, and where all classes move.
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
    >>> from simi_mailbox import prior
    >>> prior.learned().error_weight(labels=150) >= 1
    True
    """

    beliefs: Mapping[str, Belief]
    kept: Level
    free: Level
    fewest_labels: int = 1
    origin: str = ""
    lucky_labels: float = 0.0

    def __post_init__(self) -> None:
        for belief in self.beliefs.values():
            middles, spreads = (list(part.values()) for part in (belief.middle, belief.spread))
            if not (np.isfinite(middles).all() and np.isfinite(spreads).all()):
                raise ValueError(f"a prior's numbers must be finite, got {belief}")
            if not min(spreads) > 0:
                raise ValueError(f"a prior's spreads must be positive, got {belief}")

    def belief(self, *, hidden: bool, trained: bool) -> Belief:
        """What is believed of a baseline that is made with these inputs."""
        return self.beliefs[inputs(hidden, trained)]

    def level(self, *, keep_classes: bool) -> Level:
        """What is expected of confidence in a mode."""
        return self.kept if keep_classes else self.free

    def error_weight(self, labels: int) -> float:
        """How many errors elsewhere an error among ``labels`` calibration nodes stands for.

        These nodes have also chosen the checkpoint, so that the GNN errs less on them than on
        others: as if `lucky_labels` of them could not be wrong. Rules that count errors (prediction
        sets, acceptance) give each this weight. A prior that has not learned it takes the luck of
        `kept`, which is about the confidence after calibration.

        Examples
        --------
        >>> prior = Prior({}, Level(15, 9), Level(15, 9), lucky_labels=30)
        >>> prior.error_weight(150), prior.error_weight(3000), prior.error_weight(10)
        (1.25, 1.0101010101010102, 2.0)
        """
        lucky = self.lucky_labels or self.kept.luck
        n = max(labels, self.fewest_labels, 2.0 * lucky, 1.0)
        return n / (n - lucky)

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
        Of the baseline, made of these terms or more, that fits the nodes that were neither trained
        nor calibrated on.
    luck : float
        Mean over these nodes of the residual, × e c / n, after the baseline that the n calibration
        nodes gave, with their error rate e and mean confidence c; ``luck_weight`` is (e c / n)².
    between : float
        Variance between groups of nodes after that baseline, ``variance`` that of one node.
    facts : dict
        Anything else worth knowing.
    lucky : float
        (e' − e) / (1 − e'), with the error rates e of the calibration nodes and e' of these nodes;
        ``lucky_weight`` is e' / (n (1 − e')). Their ratio is the number of calibration nodes that
        could not be wrong; the weight is its precision.
    fresh_luck : float
        As ``luck``, after a baseline that as many fresh nodes gave.
    fits : dict
        All terms of the baselines that fit these nodes, by `INPUTS`; those that a run has no
        input for are missing, and older files have none.
    free : dict
        ``luck``, ``luck_weight``, ``between``, ``variance``, ``fresh_luck`` where all classes move.

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
    fresh_luck: float = 0.0
    fits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)

    def level(self, *, keep_classes: bool) -> Mapping[str, float]:
        """Luck and groups in a mode; older files know of one."""
        kept = {name: float(getattr(self, name)) for name in (*LEVEL, "fresh_luck")}
        return kept if keep_classes or not self.free else self.free


@dataclass(frozen=True)
class Corpus:
    """Past graphs that a prior is learned from.

    Examples
    --------
    >>> def setting(graph, blind):
    ...     return Setting(graph, graph, "gcn", 1, 100, 0.0, 0.0, blind, -2e-4, 1e-4, 1e-3, 0.1)
    >>> corpus = Corpus((setting("a", -2.0), setting("b", -1.0), setting("c", 0.0)))
    >>> [c.prior().beliefs["plain"].middle["blind"] for c in (corpus, corpus.without("c"))]
    [-1.0, -1.5]
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
        """Medians and median deviations over all settings alike, each number by itself.

        A graph unlike all others must neither move what is expected of the rest nor make it vague.
        Luck is the middle mean, weighted by how much a setting can tell about it: on a graph with
        many labels other causes of a wrong level are larger, and must not decide; nor may one
        setting's chance, as it would in a median.
        """
        told = [s for s in self.settings if s.lucky_weight > 0]
        lucky = middle_mean(
            np.array([s.lucky / s.lucky_weight for s in told] or [0.0]),
            np.array([s.lucky_weight for s in told] or [1.0]),
        )
        graphs = sorted({s.graph for s in self.settings})
        backbones = sorted({s.backbone for s in self.settings})
        runs = sum(s.runs for s in self.settings)
        return Prior(
            beliefs={given: self._belief(given) for given in INPUTS},
            kept=_level([s.level(keep_classes=True) for s in self.settings]),
            free=_level([s.level(keep_classes=False) for s in self.settings]),
            fewest_labels=min(s.labels for s in self.settings),
            origin=f"{', '.join(graphs)} with {', '.join(backbones)}, {runs} runs",
            lucky_labels=max(lucky, 0.0),
        )

    def _belief(self, given: str) -> Belief:
        """Of baselines with these inputs; of what all settings know, if none had the inputs."""
        fits: list[Mapping[str, float]] = [s.fits[given] for s in self.settings if given in s.fits]
        if not fits:
            fits = [{name: getattr(s, name) for name in PLAIN} for s in self.settings]
        alone = len(self.families) == 1  # one family says nothing about how others differ
        middle, spread = {}, {}
        for name in fits[0]:
            values = np.array([fit[name] for fit in fits])
            centre = 0.0 if name in EITHER_SIGN else float(np.median(values))
            found = DEVIATION * float(np.median(np.abs(values - centre)))
            if name == "blind":
                centre, found = float(values.mean()), float(values.std())
            middle[name] = centre
            spread[name] = VAGUE[name] if alone else max(found, NARROWEST[name])
        return Belief(middle, spread)


def _level(settings: Sequence[Mapping[str, float]]) -> Level:
    weight = np.array([s["luck_weight"] for s in settings])

    def luck(name: str) -> float:
        # Of how much a setting can tell of its luck, the error is as 1 / √weight.
        values = np.array([-s[name] for s in settings]) / weight
        return max(middle_mean(values, np.sqrt(weight)), 0.0)

    worth = [s["variance"] / max(s["between"], SMALLEST_BETWEEN) for s in settings]
    return Level(luck("luck"), float(np.median(worth)), luck("fresh_luck"))


def middle_mean(values: Floats, weights: Floats) -> float:
    """Mean over the middle half of the weight: a quarter at either end may be anything.

    Examples
    --------
    >>> middle_mean(np.array([3.0, 1.0, 100.0, 4.0]), np.ones(4))
    3.5
    """
    order = values.argsort()
    reached = weights[order].cumsum() / weights.sum()
    inside = np.diff(reached.clip(0.25, 0.75), prepend=0.25)
    return float(values[order] @ inside / inside.sum())


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
