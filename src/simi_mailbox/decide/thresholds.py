"""Thresholds with a guarantee: which predictions to act on, and which nodes to review."""

import math
import os
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom, hypergeom

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED
from simi_mailbox.decide.base import Parts, Rule, cross_fitted_rows, like, read_nodes
from simi_mailbox.decide.scores import ScoredNodes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Count, Level, hyperparameters
from simi_mailbox.validation import as_numpy, read_positive

STEPS = 200
"""Shares of nodes that are tried as the accepted part."""
MOST_STARTS = 3
GOALS = ("min_precision", "min_recall", "max_alerts")
DRAWS = 20_000


@hyperparameters
class Accept(Rule):
    """Accept the most confident predictions, as many as possible with ``max_error`` wrong at most.

    With probability ``confidence`` over the draw of the calibration nodes, the *rate* of errors
    among accepted predictions is at most ``max_error``. Thresholds on the largest probability are
    tried from strict to loose, each by the exact binomial distribution of errors among the
    calibration nodes it accepts. The tests share the risk 1 − confidence by the fallback procedure
    (Wiens, 2003; Learn then Test, Angelopoulos et al., 2021): a part of it waits at a few
    thresholds, each with twice the labels of the one before; a passed test hands its part on to
    the next. With too few labels nothing is accepted, and a warning says how many are needed.

    Parameters
    ----------
    max_error, confidence : float
        Largest share of wrong predictions among the accepted, and confidence of that guarantee.
    per_class : bool
        Bound the errors of each predicted class, all together with ``confidence``: a rare class
        cannot hide among the others.
    finite : bool
        Bound the share of errors among the accepted nodes outside the mask, which `fit` must see,
        not the rate behind it (by the hypergeometric distribution).
    prior : "learned", None or path
        As `PredictionSets` has it.

    Attributes
    ----------
    threshold_, thresholds_ : float, array [K]
        Accepted are probabilities of the predicted class from here on; infinite: none. With
        ``per_class`` the lowest, and that of each predicted class.
    expected_share_ : float
        Share of nodes accepted, among those outside the mask (all, if there are none).
    accepted_labels_, errors_, missed_ : int, int, array [K]
        Calibration nodes that are accepted, how many of them wrongly, and of each class how many
        are accepted as another.
    labels_needed_ : int
        Calibration nodes that must be accepted without an error for the guarantee to be possible.

    Examples
    --------
    >>> probs = np.tile([0.9, 0.1], (300, 1))
    >>> rule = Accept(max_error=0.1).fit(probs, np.zeros(300, int), mask=range(200))
    >>> rule.threshold_, bool(rule.accepts(probs).all())
    (0.9, True)
    """

    name: ClassVar[str] = "accept"

    max_error: Level = 0.05
    confidence: Level = 0.9
    per_class: bool = False
    finite: bool = False
    prior: str | os.PathLike[str] | None = LEARNED

    def _fit(self, nodes: ScoredNodes, index: Ints, labels: Ints, parts: Parts) -> None:
        confidences, predicted = _top(cross_fitted_rows(index, parts))
        top, winner = _top(nodes.probs)
        other = np.ones(len(top), dtype=np.bool_)
        other[index] = False
        if self.finite and not other.any():
            raise ValueError("finite=True is about nodes outside the mask, and there are none")
        pool = other if other.any() else ~other
        allowed, wrong = self.max_error / self.error_weight_, predicted != labels
        k = self.num_classes_
        groups = [[c] for c in range(k)] if self.per_class else [list(range(k))]
        risk = (1.0 - self.confidence) / len(groups)
        self.labels_needed_ = labels_without_error(allowed, risk)
        self.thresholds_ = np.full(k, math.inf)
        tried: list[str] = []
        for group in groups:
            mine, theirs = np.isin(predicted, group), np.isin(winner, group) & pool
            if not (mine.any() and theirs.any()):
                continue
            # Of the finite rest, thresholds must not depend on which nodes have labels.
            limits = candidate_thresholds(top[np.isin(winner, group) if self.finite else theirs])
            accepted, errors = count_errors(confidences[mine], wrong[mine], limits)
            rest = None
            if self.finite:
                rest = np.searchsorted(np.sort(-top[theirs]), -limits, side="right")
            best, starts = lowest_threshold(accepted, errors, allowed, risk, rest=rest)
            if best is not None:
                self.thresholds_[group] = float(limits[best])
            tried += [f"{errors[at]} of {accepted[at]}" for at in starts]
        self.threshold_ = float(self.thresholds_.min())
        taken = confidences >= self.thresholds_[predicted]
        self.accepted_labels_, self.errors_ = int(taken.sum()), int(wrong[taken].sum())
        self.expected_share_ = float((top >= self.thresholds_[winner])[pool].mean())
        self.missed_ = np.bincount(labels[taken & wrong], minlength=k)
        complaint = self._complaint(np.bincount(labels, minlength=k), ", ".join(tried))
        if complaint:
            warnings.warn(complaint, CalibrationWarning, stacklevel=3)

    def accepts(self, probs: Any) -> Any:
        """Whether each node's prediction is accepted [n]; NumPy or torch as given."""
        top, winner = _top(self._read_again(probs))
        return like(probs, top >= self.thresholds_[winner])

    def _complaint(self, counts: Ints, tried: str) -> str:
        """Why nothing is accepted, or which classes may all be missed."""
        if not math.isfinite(self.threshold_):
            why = f"of the most confident nodes {tried} are wrong: too many for"
            if not tried:
                why = f"{counts.sum()} calibration labels are too few to show"
            return (
                f"nothing is accepted: {why} at most {self.max_error:.2%} errors with "
                f"{self.confidence:.0%} confidence; at least {self.labels_needed_} labels are "
                "needed, more if any is wrong"
            )
        # Who calls a rare class by another name errs less often than is allowed.
        rare = np.flatnonzero((counts > 0) & (counts < self.max_error * counts.sum()))
        if self.per_class or not rare.size:
            return ""
        worst = rare[np.argsort(-self.missed_[rare] / counts[rare], kind="stable")][:3]
        missed = ", ".join(f"{self.missed_[c]} of {counts[c]} of class {c}" for c in worst)
        return (
            f"max_error {self.max_error:.1%} is above the share of {len(rare)} of {len(counts)} "
            f"classes, which may all be missed: of the calibration nodes {missed} are accepted as "
            "another class; bound each class with per_class=True, or use Alert"
        )


@dataclass(frozen=True)
class Workload:
    """Nodes to review, of how many, and how many of the class are among them and among the others.

    ``hits`` and ``missed`` are expected number, and the ends of an interval.
    """

    alerts: int
    nodes: int
    hits: tuple[float, float, float]
    missed: tuple[float, float, float]

    def sentence(self, what: str) -> str:
        """In words; ``what`` is what nodes of the class are called."""
        found, missed = (f"({low:,.0f} … {high:,.0f})" for _, low, high in (self.hits, self.missed))
        return (
            f"review {self.alerts:,} of {self.nodes:,} nodes; expect {self.hits[0]:,.0f} {what} "
            f"{found}, miss {self.missed[0]:,.0f} {missed}"
        )


@hyperparameters
class Alert(Rule):
    """Alert to the nodes with the highest P(class): a threshold with a finite-sample guarantee.

    With probability ``confidence`` over the draw of the calibration nodes,

    - ``min_precision``: among all nodes at or above the threshold, at least this share is of the
      class; of the thresholds for which that can be shown, the lowest, which alerts to the most;
    - ``min_recall``: of the nodes of the class at least this share is at or above it; the highest;
    - ``max_alerts``: nothing is to be shown: the so many highest of the nodes at hand.

    Thresholds are tested by exact binomial tests (Learn then Test, Angelopoulos et al., 2021): from
    strict to loose for the precision, as `Accept` does, from loose to strict for the recall.

    Parameters
    ----------
    positive, classes : int or str, sequence of str
        The class: its number, or its name if the names of all ``classes`` are given.
    min_precision, min_recall, max_alerts : float, float, int
        One of the three.
    confidence : float
        Confidence of the guarantee, and the level of the intervals of `expected`.
    prior : "learned", None or path
        As `PredictionSets` has it.

    Attributes
    ----------
    threshold_ : float
        Alerts are the nodes with P(class) from here on; infinite: none.
    counts_ : dict
        Calibration nodes that are alerts, ``hits`` among them, others, and ``missed`` among these.
    labels_needed_ : int
        Labels without a failure that the guarantee needs: at or above a threshold for the
        precision, of the class for the recall.
    workload_ : dict
        The `Workload` of the nodes outside the mask (of all, if there are none).

    Examples
    --------
    >>> p = np.tile([0.1, 0.2, 0.9], 100)
    >>> rule = Alert(min_precision=0.8).fit(p, (p > 0.5).astype(int), mask=range(200))
    >>> rule.threshold_, int(rule.alerts(p).sum())
    (0.9, 100)
    """

    name: ClassVar[str] = "alert"

    positive: int | str = 1
    min_precision: Level | None = None
    min_recall: Level | None = None
    max_alerts: Count | None = None
    confidence: Level = 0.9
    classes: Any = None
    prior: str | os.PathLike[str] | None = LEARNED

    def _columns(self, probs: Any) -> Any:
        """P(class) [n] as both columns; anything else as it is."""
        given = as_numpy(probs, "probs")
        return np.stack([1 - given, given], axis=1) if given.ndim == 1 else probs

    def _read(self, probs: Any, graph: Any, features: Any) -> ScoredNodes:
        return read_nodes(self._columns(probs))

    def _fit(self, nodes: ScoredNodes, index: Ints, labels: Ints, parts: Parts) -> None:
        goals = [name for name in GOALS if getattr(self, name) is not None]
        if len(goals) != 1:
            got = " and ".join(goals) or "none"
            raise ValueError(f"Alert takes one of {', '.join(GOALS)}; got {got}")
        self.positive_ = column = read_positive(self.positive, self.num_classes_, self.classes)
        score = cross_fitted_rows(index, parts)[:, column].astype(np.float64)
        is_class = labels == column
        if not is_class.any():
            raise ValueError(
                f"none of the {len(index)} calibration nodes is of {self._what()}: alerts "
                "need labels of it; check positive=, or label more nodes"
            )
        everyone = nodes.probs[:, column].astype(np.float64)
        others = np.delete(everyone, index)
        pool = others if others.size else everyone
        if self.max_alerts is not None:
            self.threshold_, self.labels_needed_ = _highest(pool, self.max_alerts), 0
        else:
            self.threshold_ = self._threshold(score, is_class, candidate_thresholds(pool))
        above = score >= self.threshold_
        self.counts_ = {
            "alerts": int(above.sum()),
            "hits": int(is_class[above].sum()),
            "others": int((~above).sum()),
            "missed": int(is_class[~above].sum()),
        }
        self.workload_ = vars(self._workload(pool >= self.threshold_))

    def _threshold(self, score: Floats, is_class: Bools, limits: Floats) -> float:
        """The threshold that keeps the precision or the recall, or what is left without one."""
        precise, risk = self.min_precision is not None, 1.0 - self.confidence
        target = self.min_precision if precise else self.min_recall
        assert target is not None
        allowed = (1.0 - target) / self.error_weight_
        needed = self.labels_needed_ = labels_without_error(allowed, risk)
        shown = f"of {target:.0%} cannot be shown with {self.confidence:.0%} confidence"
        if precise:
            labels, wrong = count_errors(score, ~is_class, limits)
            expected = np.concatenate([[0.0], np.cumsum(1.0 - np.sort(score)[::-1])])[labels]
            best, starts = lowest_threshold(labels, wrong, allowed, risk, expected=expected)
            if best is not None:
                return float(limits[best])
            tried = ", ".join(f"{labels[at] - wrong[at]} of {labels[at]}" for at in starts)
            why = f"of the highest calibration nodes {tried} are of the class"
            without, told = math.inf, f"no alert: a precision {shown}: {why}"
        else:
            found = recall_threshold(score[is_class], limits, allowed, risk)
            if found is not None:
                return found
            few = f"{is_class.sum()} calibration nodes of the class; {needed} are needed"
            without, told = 0.0, f"every node is an alert: a recall {shown} with {few}"
        warnings.warn(told, CalibrationWarning, stacklevel=4)
        return without

    def alerts(self, probs: Any) -> Any:
        """Whether each node is an alert [n]; NumPy or torch as given."""
        score = self._read_again(self._columns(probs))[:, self.positive_].astype(np.float64)
        # The highest are those of these nodes, whatever fit saw.
        most = self.max_alerts
        return like(probs, score >= (self.threshold_ if most is None else _highest(score, most)))

    def expected(self, probs: Any) -> Workload:
        """What to expect of the alerts among these nodes, from the labels of ``fit``."""
        return self._workload(as_numpy(self.alerts(probs)))

    def _workload(self, above: Bools) -> Workload:
        counts, alerts, level = self.counts_, int(above.sum()), self.confidence
        hits = predicted_count(counts["hits"], counts["alerts"], alerts, level)
        missed = predicted_count(counts["missed"], counts["others"], len(above) - alerts, level)
        return Workload(alerts, len(above), hits, missed)

    def _what(self) -> str:
        return f"class {self.positive_ if self.classes is None else self.classes[self.positive_]}"

    def summary(self) -> str:
        """What to review and what to expect of it, then what was fitted, in a line."""
        self._check_fitted()
        workload = Workload(**self.workload_).sentence(f"nodes of {self._what()}")
        limit = f"; P ≥ {self.threshold_:.4g}" if math.isfinite(self.threshold_) else ""
        told = "{hits} of {alerts} alerted calibration nodes are of the class, {missed} are missed"
        return f"{workload}{limit}; {told.format(**self.counts_)}; {self!r}"


def _top(probs: Array) -> tuple[Floats, Ints]:
    """The largest probability of each node, and its class."""
    return probs.max(axis=1).astype(np.float64), probs.argmax(axis=1)


def candidate_thresholds(confidence: Floats) -> Floats:
    """Thresholds that accept 1/STEPS, 2/STEPS, … of the nodes, strictest first."""
    ordered = np.sort(confidence)[::-1]
    places = np.unique(np.ceil(np.arange(1, STEPS + 1) / STEPS * len(ordered)).astype(int) - 1)
    return np.unique(ordered[places])[::-1]


def count_errors(confidence: Floats, wrong: Bools, limits: Floats) -> tuple[Ints, Ints]:
    """Labelled nodes at or above each threshold, and how many of them are wrong."""
    order = np.argsort(-confidence, kind="stable")
    accepted = np.searchsorted(-confidence[order], -limits, side="right")
    errors = np.concatenate([[0], np.cumsum(wrong[order])])
    return accepted, errors[accepted]


def labels_without_error(max_error: float, risk: float) -> int:
    """Accepted labels, none of them wrong, that make an error rate above ``max_error`` unlikely."""
    return math.ceil(math.log(risk) / math.log1p(-max_error))


def start_positions(accepted: Ints, max_error: float, risk: float) -> Ints:
    """Thresholds at which testing may begin anew: where labels suffice, twice as many, …."""
    for starts in range(MOST_STARTS, 0, -1):
        least = labels_without_error(max_error, risk / starts) * 2 ** np.arange(starts)
        if least[-1] * min(starts, 2) <= accepted[-1]:
            return np.unique(np.searchsorted(accepted, least))
    return np.empty(0, dtype=np.int64)


def lowest_threshold(
    accepted: Ints,
    errors: Ints,
    allowed: float,
    risk: float,
    *,
    expected: Floats | None = None,
    rest: Ints | None = None,
) -> tuple[int | None, Ints]:
    """Position of the lowest threshold that keeps ``allowed`` (or None), and the starts.

    With ``rest``, the other nodes that each threshold accepts, it is kept among these. One more
    start, with half of the risk, is where ``expected`` errors are furthest below ``allowed``.
    """
    starts = start_positions(accepted, allowed, risk)
    own = np.zeros(len(accepted))
    own[starts] = risk / max(len(starts), 1)
    if expected is not None and len(accepted):
        likely = int(np.argmax((allowed * accepted - expected) / np.sqrt(accepted + 1.0)))
        own = own / 2 if len(starts) else own
        own[likely] += risk / 2 if len(starts) else risk
        starts = np.union1d(starts, [likely])
    if rest is None:
        return fallback(binom.cdf(errors, accepted, allowed), own), starts
    # The labelled nodes are a random part of all: one error more than allowed is in the rest.
    most = np.floor(allowed * rest + 1e-9).astype(np.int64)
    p_values = hypergeom.cdf(errors, accepted + rest, errors + most + 1, accepted)
    return fallback(np.where(rest > most, p_values, 0.0), own), starts


def fallback(p_values: Floats, own: Floats) -> int | None:
    """The last hypothesis rejected, each at its ``own`` part of the risk and what was handed on."""
    best, level = None, 0.0
    for position, (p, part) in enumerate(zip(p_values, own, strict=False)):
        level += part
        if level > 0 and p <= level:
            best = position
        else:
            level = 0.0
    return best


def recall_threshold(score: Floats, limits: Floats, allowed: float, risk: float) -> float | None:
    """The highest threshold below which at most ``allowed`` of the class' ``score`` is shown."""
    missed = np.searchsorted(np.sort(score), limits)
    passed = limits[binom.cdf(missed, len(score), allowed) <= risk]
    # Fewer nodes are missed below a lower threshold: those that pass are the lowest.
    return float(passed[0]) if passed.size else None


def predicted_count(hits: int, labels: int, nodes: int, level: float) -> tuple[float, float, float]:
    """Mean and interval of a binomial number of ``nodes``, its rate by Jeffreys' prior."""
    rng = np.random.default_rng(0)
    rate = rng.beta(hits + 0.5, labels - hits + 0.5, DRAWS)
    low, high = np.quantile(rng.binomial(nodes, rate), [(1 - level) / 2, (1 + level) / 2])
    return nodes * (hits + 0.5) / (labels + 1.0), float(low), float(high)


def _highest(score: Floats, count: int) -> float:
    """The lowest threshold that at most ``count`` nodes reach; of ties at the last place none."""
    if len(score) <= count:
        return 0.0
    above = score[score > np.sort(score)[-count - 1]]
    return float(above.min()) if above.size else math.inf
