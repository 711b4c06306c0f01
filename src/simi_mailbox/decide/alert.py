"""Alerts: which nodes to review for one class, with a guarantee on precision or recall."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED
from simi_mailbox.decide.accept import (
    candidate_thresholds,
    count_errors,
    labels_without_error,
    lowest_threshold,
)
from simi_mailbox.decide.base import ThresholdRule, like
from simi_mailbox.decide.scores import ScoredNodes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Count, Level, hyperparameters
from simi_mailbox.validation import as_numpy, read_positive

GOALS = ("min_precision", "min_recall", "max_alerts")
DRAWS = 20_000


@dataclass(frozen=True)
class Workload:
    """What a rule asks for on some nodes, and what to expect of it.

    Attributes
    ----------
    alerts, nodes : int
        Nodes to review, and all nodes.
    hits, missed : tuple of float
        Nodes of the class among the alerts and among the others: expected number, and an interval
        from the labels of ``fit``, at the rule's confidence.

    Examples
    --------
    >>> Workload(300, 5000, (40.0, 31.0, 50.0), (12.0, 7.0, 19.0)).sentence("frauds")
    'review 300 of 5,000 nodes; expect 40 frauds (31 … 50), miss 12 (7 … 19)'
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
class Alert(ThresholdRule):
    """Alert to the nodes with the highest P(class): a threshold with a finite-sample guarantee.

    With probability ``confidence`` over the draw of the calibration nodes,

    - ``min_precision``: among all nodes at or above the threshold, at least this share is of the
      class; of the thresholds for which that can be shown, the lowest, which alerts to the most;
    - ``min_recall``: of the nodes of the class at least this share is at or above it; the highest;
    - ``max_alerts``: nothing is to be shown: the so many highest of the nodes at hand.

    Thresholds are tested in a fixed order by the exact binomial distribution of the labels at or
    above them (Learn then Test, Angelopoulos et al., 2021): from strict to loose for the precision,
    as `Accept` does, and from loose to strict for the recall, until one fails.

    Parameters
    ----------
    positive : int or str
        The class: its number, or its name if ``classes`` are given.
    min_precision, min_recall : float, optional
    max_alerts : int, optional
        One of the three.
    confidence : float
        Confidence of the guarantee, and the level of the intervals of `expected`.
    classes : sequence of str, optional
        Names of the classes, for ``positive``, for summaries, and to know them again.
    prior : "learned", None or path
        As `Accept` has it.

    Attributes
    ----------
    threshold_ : float
        Alerts are the nodes with P(class) from here on; infinite: none.
    counts_ : dict
        Calibration nodes that are alerts, ``hits`` among them, others, and ``missed`` among these.
    labels_needed_ : int
        Labels without a failure that the guarantee needs: calibration nodes at or above a
        threshold for the precision, calibration nodes of the class for the recall.
    workload_ : Workload
        What to expect of the nodes outside the mask (of all, if there are none).
    error_weight_ : float
        As `Accept` has it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(0.1, 0.9, 6000)  # a tenth is of the class
    >>> y = (rng.random(6000) < p).astype(int)
    >>> rule = Alert(min_precision=0.5).fit(p, y, mask=range(3000), used_for_selection=False)
    >>> alerts = rule.alerts(p)[3000:]
    >>> bool(y[3000:][alerts].mean() >= 0.5), bool(alerts.sum() > 150)
    (True, True)
    """

    name: ClassVar[str] = "alert"

    positive: int | str = 1
    min_precision: Level | None = None
    min_recall: Level | None = None
    max_alerts: Count | None = None
    confidence: Level = 0.9
    classes: Any = None
    prior: str | os.PathLike[str] | None = LEARNED

    def _read(self, probs: Any) -> ScoredNodes:
        goals = [name for name in GOALS if getattr(self, name) is not None]
        if len(goals) != 1:
            raise ValueError(
                f"Alert takes one of {', '.join(GOALS)}; got {' and '.join(goals) or 'none'}"
            )
        return super()._read(_two_columns(probs))

    def _fit(self, probs: Array, index: Ints, labels: Ints, seen_probs: Array) -> None:
        self.positive_ = column = read_positive(self.positive, self.num_classes_, self.classes)
        is_class, score = labels == column, seen_probs[:, column].astype(np.float64)
        if not is_class.any():
            raise ValueError(
                f"none of the {len(index)} calibration nodes is of {self._what(column)}: alerts "
                "need labels of it; check positive=, or label more nodes"
            )
        everyone = probs[:, column].astype(np.float64)
        others = np.delete(everyone, index)
        pool = others if others.size else everyone
        self.threshold_, self.labels_needed_ = self._threshold(score, is_class, pool)
        above = score >= self.threshold_
        self.counts_ = {
            "alerts": int(above.sum()),
            "hits": int(is_class[above].sum()),
            "others": int((~above).sum()),
            "missed": int(is_class[~above].sum()),
        }
        self.workload_ = vars(self._expected(pool >= self.threshold_))

    def alerts(self, probs: Any) -> Any:
        """Whether each node is an alert [n]; NumPy or torch as given."""
        score = self._score(probs)
        limit = self.threshold_
        if self.max_alerts is not None:  # the highest of these nodes, whatever fit saw
            limit = _highest(score, self.max_alerts)
        return like(probs, score >= limit)

    def expected(self, probs: Any) -> Workload:
        """What to expect of the alerts among these nodes, from the labels of ``fit``."""
        return self._expected(as_numpy(self.alerts(probs)))

    def _score(self, probs: Any) -> Floats:
        return self._read_again(_two_columns(probs))[:, self.positive_].astype(np.float64)

    def _what(self, column: int) -> str:
        return f"class {column if self.classes is None else self.classes[column]}"

    def _threshold(self, score: Floats, is_class: Bools, pool: Floats) -> tuple[float, int]:
        """The threshold, and how many labels without a failure the guarantee needs."""
        risk = 1.0 - self.confidence
        if self.max_alerts is not None:
            return _highest(pool, self.max_alerts), 0
        limits = candidate_thresholds(pool)
        target = self.min_precision if self.min_recall is None else self.min_recall
        assert target is not None
        allowed = (1.0 - target) / self.error_weight_
        needed = labels_without_error(allowed, risk)
        certainty = f"with {self.confidence:.0%} confidence"
        if self.min_recall is None:
            labels, wrong = count_errors(score, ~is_class, limits)
            confident_wrong = np.concatenate([[0.0], np.cumsum(1.0 - np.sort(score)[::-1])])
            best, starts = lowest_threshold(
                labels, wrong, allowed, risk, expected=confident_wrong[labels]
            )
            if best is None:
                tried = _shown(labels[starts] - wrong[starts], labels[starts])
                why = f"of the highest calibration nodes {tried}" if tried else f"{needed} labels"
                why += " are of the class" if tried else " at or above a threshold are needed"
                _warn(f"no alert: a precision of {target:.0%} cannot be shown {certainty}: {why}")
                return math.inf, needed
            return float(limits[best]), needed
        best_recall = recall_threshold(score[is_class], limits, allowed, risk)
        if best_recall is None:
            _warn(
                f"every node is an alert: a recall of {target:.0%} cannot be shown {certainty} "
                f"with {int(is_class.sum())} calibration nodes of the class; {needed} are needed"
            )
            return 0.0, needed
        return best_recall, needed

    def _expected(self, above: Bools) -> Workload:
        counts = self.counts_
        alerts, rest = int(above.sum()), int((~above).sum())
        return Workload(
            alerts,
            alerts + rest,
            predicted_count(counts["hits"], counts["alerts"], alerts, self.confidence),
            predicted_count(counts["missed"], counts["others"], rest, self.confidence),
        )

    def _told(self) -> list[str]:
        what = f"nodes of {self._what(self.positive_)}"
        counts = self.counts_
        seen = (
            f"{counts['hits']} of {counts['alerts']} alerted calibration nodes are of the class, "
            f"{counts['missed']} are missed"
        )
        at = "" if not math.isfinite(self.threshold_) else f"P ≥ {self.threshold_:.4g}"
        return [part for part in (Workload(**self.workload_).sentence(what), at, seen) if part]

    def summary(self) -> str:
        """What to review and what to expect of it, then what was fitted, in a line."""
        self._check_fitted()
        workload, *rest = self._told()
        return "; ".join([workload, *rest, repr(self)])


def recall_threshold(score: Floats, limits: Floats, allowed: float, risk: float) -> float | None:
    """The highest threshold below which at most ``allowed`` of the class is shown to lie.

    Of nodes of the class, ``score``; tested from the lowest threshold on, until one fails.

    Examples
    --------
    >>> recall_threshold(np.linspace(0, 1, 101), np.array([0.8, 0.2, 0.1, 0.0]), 0.3, 0.1)
    0.2
    """
    missed = len(score) - count_errors(score, score < 0, limits)[0]
    p_values = binom.cdf(missed, len(score), allowed)
    best = None
    for limit, p in zip(limits[::-1], p_values[::-1], strict=True):
        if p > risk:
            break
        best = float(limit)
    return best


def predicted_count(hits: int, labels: int, nodes: int, level: float) -> tuple[float, float, float]:
    """How many of ``nodes`` are of a class of which ``hits`` of ``labels`` are: mean and interval.

    The rate has Jeffreys' prior; the number is binomial given the rate.

    Examples
    --------
    >>> mean, low, high = predicted_count(13, 100, 300, 0.9)
    >>> round(mean), 20 < low < 30, 50 < high < 65
    (40, True, True)
    """
    if not nodes:
        return 0.0, 0.0, 0.0
    rng = np.random.default_rng(0)
    rate = rng.beta(hits + 0.5, labels - hits + 0.5, DRAWS)
    low, high = np.quantile(rng.binomial(nodes, rate), [(1 - level) / 2, (1 + level) / 2])
    return nodes * (hits + 0.5) / (labels + 1.0), float(low), float(high)


def _highest(score: Floats, count: int) -> float:
    """The lowest threshold that at most ``count`` nodes reach; of ties at the last place none."""
    if len(score) <= count:
        return 0.0
    last = float(np.partition(score, len(score) - count - 1)[len(score) - count - 1])
    above = score[score > last]
    return float(above.min()) if above.size else math.inf


def _two_columns(probs: Any) -> Any:
    """P(class) [n] as both columns; anything else as it is."""
    given = as_numpy(probs, "probs")
    if given.ndim != 1:
        return probs
    return np.stack([1 - given, given], axis=1)


def _shown(hits: Ints, labels: Ints) -> str:
    return ", ".join(f"{a} of {b}" for a, b in zip(hits, labels, strict=True))


def _warn(text: str) -> None:
    warnings.warn(text, CalibrationWarning, stacklevel=5)
