"""Prediction sets: classes among which the label is, as often as its target coverage says."""

import math
import os
import warnings
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED
from simi_mailbox.decide.base import Parts, Rule, like, read_nodes
from simi_mailbox.decide.scores import ScoredNodes, resolve
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import Graph
from simi_mailbox.mailbox import mailbox_edges, mailbox_groups
from simi_mailbox.parameters import Constraint, Level, Whole, hyperparameters
from simi_mailbox.validation import as_numpy

NAMED = ("class", "degree", "mailbox")
GIVEN = "given"
ROUNDING = 1e-12
LEVEL_SLACK = 1e-7
"""Taken off the level of a linear programme: of two thresholds that keep it, the smaller."""
AtLeastTwo = Annotated[int, Constraint("≥ 2", lambda x: x >= 2)]


@hyperparameters
class PredictionSets(Rule):
    """Sets of classes that hold the label of ``coverage`` of the nodes (conformal prediction).

    If calibration nodes and new nodes might have been exchanged, a new node's label lies in its set
    with probability ``coverage`` at least, over the draw of both, however good the model. With too
    few labels for that a set is all classes, and a warning says how many are needed.

    Parameters
    ----------
    coverage : float
        Share of nodes whose set shall hold the label.
    score : {"aps", "lac", "raps", "daps", "snaps"} or Score
        How strange a class is. ``"daps"`` needs ``graph``, ``"snaps"`` ``graph`` and ``features``.
    condition_on : {"class", "degree", "mailbox"} or array, optional
        Keep the guarantee within every group: nodes of one class; of similar degree; of low or high
        confidence, each with low and high neighbour agreement; or groups of your own, one whole
        number per node [n] or memberships [n, G] that may overlap.
    groups, seed : int
        Into how many parts the degrees are cut; seed of randomised scores.
    prior : "learned", None or path
        Of the selection bias of calibration nodes that chose the model: that of this package, none,
        or a file of ``simi-mailbox prior fit``.

    Attributes
    ----------
    error_weight_ : float
        What a wrong calibration node counts: 1, or more if these nodes chose the model.
    thresholds_ : array
        Largest score in a set, for all, each class or each group; infinite where labels were too
        few. Empty for overlapping groups, whose thresholds depend on the node's.
    counts_ : array
        Calibration nodes behind every threshold (or in every overlapping group).

    Examples
    --------
    >>> probs = np.tile([[0.9, 0.1], [0.4, 0.6]], (30, 1))
    >>> rule = PredictionSets(coverage=0.8, score="lac")
    >>> rule.fit(probs, np.zeros(60, int), mask=range(40)).predict_sets(probs[:2]).tolist()
    [[True, False], [True, True]]
    """

    name: ClassVar[str] = "prediction-sets"

    coverage: Level = 0.9
    score: Any = "aps"
    condition_on: Any = None
    groups: AtLeastTwo = 4
    prior: str | os.PathLike[str] | None = LEARNED
    seed: Whole = 0

    def _fit(self, nodes: ScoredNodes, index: Ints, labels: Ints, parts: Parts) -> None:
        group, count = self._calibration_groups(nodes, index, labels)
        scores, wrong = np.empty(len(index)), np.empty(len(index), dtype=np.bool_)
        for places, seen in parts:
            rows, truth = index[places], labels[places]
            scored = resolve(self.score).prepare(seen)(rows)
            scores[places] = scored[np.arange(len(rows)), truth]
            wrong[places] = seen.probs[rows].argmax(axis=1) != truth
            if self._kind == "mailbox":
                group[places] = self._groups(seen)[rows]
        weights = None if self.error_weight_ == 1.0 else node_weights(wrong, self.error_weight_)
        if group.ndim == 2:
            self.thresholds_, self.counts_ = np.empty(0), group.sum(axis=0)
            self.scores_, self.members_ = scores, group
            self.weights_ = np.ones(len(scores)) if weights is None else weights
        else:
            self.counts_ = np.bincount(group, minlength=count)
            self.thresholds_ = group_quantiles(scores, group, count, self.coverage, weights)
        if self.counts_.min() < labels_needed(self.coverage):
            warnings.warn(self._too_few(), CalibrationWarning, stacklevel=3)

    def predict_sets(
        self, probs: Any, *, graph: Any = None, features: Any = None, groups: Any = None
    ) -> Any:
        """Prediction sets [n, K], true for the classes in a node's set; NumPy or torch as given.

        The nodes and the graph need not be those that ``fit`` saw. ``groups`` are those of these
        nodes, if ``condition_on`` was an array of other nodes.
        """
        self._read_again(probs)
        nodes = self._read(probs, graph, features)
        limits = self._limits(nodes, groups)
        scored = resolve(self.score).prepare(nodes)
        sets = np.empty(nodes.probs.shape, dtype=np.bool_)
        for rows in nodes.row_blocks():
            limit = limits[rows, None] if limits.ndim == 1 else limits
            np.less_equal(scored(rows), limit, out=sets[rows])
        return like(probs, sets)

    @property
    def _kind(self) -> str | None:
        """What ``condition_on`` names; an array is ``GIVEN``."""
        given = self.condition_on
        return given if given is None or isinstance(given, str) else GIVEN

    def _read(self, probs: Any, graph: Any, features: Any) -> ScoredNodes:
        if self._kind not in (None, *NAMED, GIVEN):
            raise ValueError(
                f"unknown condition_on {self._kind!r}; choose from: {', '.join(NAMED)}, "
                "or pass an array of groups"
            )
        needs = set(resolve(self.score).required_inputs)
        needs |= {"graph"} if self._kind in ("degree", "mailbox") else set()
        given = {"graph": graph, "features": features}
        if missing := sorted(name for name in needs if given[name] is None):
            told = ", ".join(f"{name}=…" for name in missing)
            raise TypeError(f"{self!r} needs {' and '.join(missing)}: pass {told}")
        return read_nodes(probs, graph, features, self.seed)

    def _calibration_groups(self, nodes: ScoredNodes, index: Ints, labels: Ints) -> Any:
        """Groups or memberships of the calibration nodes, and how many groups there are."""
        if self._kind is None:
            return np.zeros(len(index), dtype=np.int64), 1
        if self._kind == "class":
            return labels, nodes.probs.shape[1]
        if self._kind == GIVEN:
            own = read_groups(self.condition_on, len(nodes.probs))
            if own.ndim == 2:
                return own[index], own.shape[1]
            self.group_names_, places = np.unique(own, return_inverse=True)
            return places[index], len(self.group_names_)
        assert nodes.graph is not None
        if self._kind == "degree":
            self.edges_ = quantile_edges(nodes.graph.degree.numpy(), self.groups)
        else:
            self.edges_ = mailbox_edges(nodes.probs, nodes.graph)
        return self._groups(nodes)[index], len(self.edges_) + 1

    def _groups(self, nodes: ScoredNodes) -> Ints:
        """Groups by degree or mailbox of any nodes."""
        assert nodes.graph is not None
        if self._kind == "degree":
            return degree_groups(nodes.graph, self.edges_)
        return mailbox_groups(nodes.probs, nodes.graph, self.edges_)

    def _limits(self, nodes: ScoredNodes, groups: Any) -> Floats:
        """Largest score in the set: one for all or per class [1, ·], or one per node [n]."""
        if self._kind == GIVEN:
            return self._limits_of_given(groups, len(nodes.probs))
        if groups is not None:
            raise TypeError(f"{self!r} makes its own groups; groups=… is for condition_on=array")
        if self._kind in (None, "class"):
            return self.thresholds_[None]
        return self.thresholds_[self._groups(nodes)]

    def _limits_of_given(self, groups: Any, n: int) -> Floats:
        fitted = self.condition_on
        if groups is None and len(fitted) != n:
            raise TypeError(
                f"{n} nodes, but the groups in condition_on are those of {len(fitted)} others: "
                "pass groups=…"
            )
        own = read_groups(fitted if groups is None else groups, n)
        if own.shape[1:] != np.shape(fitted)[1:]:
            seen = ", ".join(["n", *map(str, np.shape(fitted)[1:])])
            raise ValueError(f"groups have shape {list(own.shape)}; fit saw [{seen}]")
        if own.ndim == 2:
            given = self.scores_, self.members_
            kinds, kind = np.unique(own, axis=0, return_inverse=True)
            limits = [
                overlapping_quantile(*given, member, self.coverage, self.weights_)
                for member in kinds
            ]
            return np.array(limits)[kind.reshape(-1)]
        place = np.searchsorted(self.group_names_, own).clip(max=len(self.group_names_) - 1)
        known = self.group_names_[place] == own
        if not known.all():
            told = f"group {own[~known][0]} was not there when fitted: its sets are all classes"
            warnings.warn(told, CalibrationWarning, stacklevel=4)
        return np.where(known, self.thresholds_[place], math.inf)

    def _too_few(self) -> str:
        """Which thresholds have too few labels, and what that means for the sets."""
        needed, counts = labels_needed(self.coverage), self.counts_
        if self._kind is None:
            return (
                f"{counts[0]} calibration labels are too few for sets that cover "
                f"{self.coverage:.2%}: every set is all classes; at least {needed} are needed"
            )
        few = np.flatnonzero(counts < needed)
        names = getattr(self, "group_names_", np.arange(len(counts)))
        counted = ", ".join(f"{names[g]}: {counts[g]}" for g in few[:5])
        what, so = "groups", "their sets are all classes"
        if self._kind == "class":
            what, so = "classes", "they are in every set"
        return (
            f"{few.size} of {len(counts)} {what} have fewer than the {needed} calibration labels "
            f"that {self.coverage:.2%} coverage needs ({counted}{', …' * (few.size > 5)}): {so}"
        )


def node_weights(wrong: Bools, weight: float) -> Floats:
    """Weights of calibration nodes, 1 on average: ``weight`` of an error, less of a right node."""
    share = float(wrong.mean())
    if share in (0.0, 1.0):
        return np.ones(len(wrong))
    # However large the selection bias, it cannot have made every right answer.
    weight = min(weight, (1.0 + 1.0 / share) / 2.0)
    return np.where(wrong, weight, (1.0 - weight * share) / (1.0 - share))


def rank(count: int, level: float) -> int:
    """Which of ``count`` sorted scores is the threshold: ⌈(count + 1) · level⌉, exactly."""
    # 0.9 is meant as nine tenths, not as the nearest binary fraction.
    return math.ceil((count + 1) * Fraction(repr(float(level))))


def labels_needed(level: float) -> int:
    """The smallest number of labels for which a threshold at ``level`` exists."""
    exact = Fraction(repr(float(level)))
    return math.ceil(exact / (1 - exact))


def conformal_quantile(scores: Floats, level: float, weights: Floats | None = None) -> float:
    """The threshold under which a new score falls with probability ``level`` at least.

    Infinite if scores are too few. With weights the new score counts for as many as the others do.
    """
    position = rank(len(scores), level)
    if position > len(scores):
        return math.inf
    if weights is None:
        return float(np.partition(scores, position - 1)[position - 1])
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    needed = level * reached[-1] * (1 + 1 / len(scores))
    place = int(np.searchsorted(reached, needed * (1 - ROUNDING)))
    return float(scores[order[min(place, len(scores) - 1)]])


def group_quantiles(
    scores: Floats, groups: Ints, num_groups: int, level: float, weights: Floats | None = None
) -> Floats:
    """The `conformal_quantile` of every group by itself (Mondrian conformal prediction)."""
    order = np.argsort(groups, kind="stable")
    parts = np.split(order, np.searchsorted(groups[order], np.arange(1, num_groups)))
    given = [None if weights is None else weights[part] for part in parts]
    pairs = zip(parts, given, strict=True)
    return np.array([conformal_quantile(scores[part], level, own) for part, own in pairs])


def overlapping_quantile(
    scores: Floats, members: Bools, member: Bools, level: float, weights: Floats | None = None
) -> float:
    """The threshold of a node in several groups at once, so that each of them is covered.

    Gibbs, Cherian and Candès (2023): the level-quantile of the scores as a linear function of the
    memberships, fitted on the labelled nodes *and* the new one. The threshold is the largest score
    at which the new node still lies below its own fit; as a linear programme, by its dual,

        max Σ s_i η_i  subject to  Σ η_i φ_i = −level · w φ,  (level − 1) w_i ≤ η_i ≤ level · w_i,

    with φ the memberships (and 1, for all nodes together) and w the weights, of the new node their
    mean. Infinite if there is no solution: too few labels.
    """
    level = level - LEVEL_SLACK
    phi = sp.csr_matrix(np.column_stack([np.ones(len(scores)), members]).T)
    own = np.concatenate([[1.0], member.astype(np.float64)])
    w = np.ones(len(scores)) if weights is None else weights / weights.mean()
    bounds = np.column_stack([(level - 1.0) * w, level * w])
    found = linprog(-scores, A_eq=phi, b_eq=-level * own, bounds=bounds, method="highs")
    if found.status not in (0, 2):
        raise RuntimeError(f"the linear programme of a threshold failed: {found.message}")
    return float(-own @ found.eqlin.marginals) if found.status == 0 else math.inf


def quantile_edges(values: Array, groups: int) -> Floats:
    """Inner edges that cut ``values`` into about equal parts; equal values stay together."""
    ordered = np.sort(values)
    cuts = [len(ordered) * g // groups for g in range(1, groups)]
    # An edge is the first value of the upper part; one at the bottom would cut off nothing.
    return np.unique(ordered[[c for c in cuts if ordered[c] > ordered[0]]]).astype(np.float64)


def degree_groups(graph: Graph, edges: Floats) -> Ints:
    """Which part of the degrees a node's lies in."""
    return np.searchsorted(edges, graph.degree.numpy(), side="right")


def read_groups(groups: object, num_nodes: int) -> Array:
    """Check what users pass: one whole number per node, or a boolean matrix of memberships."""
    array = as_numpy(groups, "groups")
    if array.ndim not in (1, 2) or array.shape[0] != num_nodes:
        raise ValueError(
            f"groups have shape {list(array.shape)}; expected one group per node [{num_nodes}] "
            f"or memberships [{num_nodes}, groups]"
        )
    if array.ndim == 2 and not np.isin(array, (0, 1)).all():
        raise ValueError("memberships must be true or false: does a node belong to a group?")
    if array.ndim == 1 and array.dtype.kind not in "iub":
        raise ValueError(f"groups must be whole numbers, one per node; got {array.dtype}")
    return array.astype(np.bool_ if array.ndim == 2 else np.int64)
