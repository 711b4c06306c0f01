"""Acceptance: which predictions can be acted on with few errors, and which go to a person."""

import math
import os
import warnings
from typing import Any, ClassVar

import numpy as np
from scipy.stats import binom, hypergeom

from simi_mailbox._arrays import Array, Bools, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED
from simi_mailbox.decide.base import Parts, Rule, cross_fitted_rows, like
from simi_mailbox.decide.scores import ScoredNodes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Level, hyperparameters

STEPS = 200
"""Shares of nodes that are tried as the accepted part."""
MOST_STARTS = 3


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
    max_error : float
        Largest share of wrong predictions among the accepted.
    confidence : float
        Confidence of that guarantee.
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
    accepted_labels_, errors_ : int
        Calibration nodes at or above the threshold, and how many of them are wrong.
    missed_ : array [K]
        Calibration nodes of each class that are accepted as another class.
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
            rest = np.searchsorted(np.sort(-top[theirs]), -limits, side="right")
            best, starts = lowest_threshold(
                accepted, errors, allowed, risk, rest=rest if self.finite else None
            )
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

    With ``rest``, the other nodes that each threshold accepts, it is kept among these. Where the
    ``expected`` errors, of probabilities alone, are furthest below ``allowed``, one more start has
    half of the risk.
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
