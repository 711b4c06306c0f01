"""Acceptance: which predictions can be acted on with few errors, and which go to a person."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import binom

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.prior import LEARNED
from simi_mailbox.decide.base import (
    Rule,
    error_weight,
    like,
    read_calibration,
    read_cross_fitted,
    read_nodes,
)
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Level, check_parameters, hyperparameters

STEPS = 200
"""Shares of nodes that are tried as the accepted part."""
MOST_STARTS = 3


@hyperparameters
class Accept(Rule):
    """Accept the surest predictions, as many as possible with at most ``max_error`` wrong.

    With probability ``confidence`` over the draw of the calibration nodes, at most the share
    ``max_error`` of the accepted predictions is wrong. Thresholds on the largest probability are
    tried from strict to loose; each is tested by the exact binomial distribution of errors among
    the calibration nodes it accepts. The tests share what may go wrong by the fallback procedure
    (Wiens, 2003; Learn then Test, Angelopoulos et al., 2021): a part of 1 − confidence waits at a
    few strictnesses, each with twice the labels of the one before, and whatever a passed test had
    moves on to the next one, so that nothing is lost if all pass.

    With too few labels nothing is accepted, and a warning says how many are needed.

    Parameters
    ----------
    max_error : float
        Largest share of wrong predictions among the accepted.
    confidence : float
        How sure that shall be.
    prior : "learned", None or path
        Where the selection bias of calibration nodes that chose the model is looked up; as
        `PredictionSets` has it.

    Attributes
    ----------
    threshold_ : float
        Accepted are probabilities of the predicted class from here on; infinite: none.
    expected_share_ : float
        Share of nodes accepted, among those outside the mask (all, if there are none).
    accepted_labels_, errors_ : int
        Calibration nodes at or above the threshold, and how many of them are wrong.
    labels_needed_ : int
        Calibration nodes that must be accepted without an error for the guarantee to be possible.
    error_weight_ : float
        What an error among the calibration nodes counts: 1, or more if these nodes chose the model.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> sure = rng.uniform(0.5, 1.0, 4000)
    >>> probs = np.stack([sure, 1 - sure], axis=1)
    >>> y = (rng.random(4000) > sure).astype(int)
    >>> rule = Accept(max_error=0.1, confidence=0.9)
    >>> rule = rule.fit(probs, y, mask=range(1000), used_for_selection=False)
    >>> accepted = rule.accepts(probs)[1000:]
    >>> bool(y[1000:][accepted].mean() < 0.1), 0.2 < rule.expected_share_ < 0.45
    (True, True)
    """

    name: ClassVar[str] = "accept"

    max_error: Level = 0.05
    confidence: Level = 0.9
    prior: str | os.PathLike[str] | None = LEARNED

    def fit(
        self,
        probs: Any,
        y: Any,
        *,
        mask: Any,
        used_for_selection: bool = True,
        cross_fitted: Iterable[tuple[Any, Any]] | None = None,
    ) -> Self:
        """Find the threshold on the labels of the calibration nodes.

        Parameters
        ----------
        probs, y, mask, cross_fitted
            As `PredictionSets.fit` takes them.
        used_for_selection : bool
            Whether these nodes had a part in choosing the model. If they had, an error among them
            stands for more than one elsewhere, and so much fewer are allowed.
        """
        check_parameters(self)
        self._forget()
        nodes = read_nodes(probs, None, None)
        p = nodes.probs
        calibration = read_calibration(y, mask, p)
        del y  # from here on, no other label exists
        index, labels = calibration.index.numpy(), calibration.y.numpy()
        top = p.max(axis=1).astype(np.float64)
        sure, wrong = np.empty(len(index)), np.empty(len(index), dtype=np.bool_)
        for places, seen in read_cross_fitted(cross_fitted, nodes, index):
            shown = seen.probs[index[places]]
            sure[places] = shown.max(axis=1)
            wrong[places] = shown.argmax(axis=1) != labels[places]
        others = np.delete(top, index)
        pool = others if others.size else top
        limits = candidate_thresholds(pool)
        accepted, errors = count_errors(sure, wrong, limits)
        risk = 1.0 - self.confidence
        self.error_weight_ = error_weight(self.prior, used_for_selection, len(index))
        allowed = self.max_error / self.error_weight_
        self.labels_needed_ = labels_without_error(allowed, risk)
        best, starts = lowest_threshold(accepted, errors, allowed, risk)
        self.threshold_ = math.inf if best is None else float(limits[best])
        self.accepted_labels_ = 0 if best is None else int(accepted[best])
        self.errors_ = 0 if best is None else int(errors[best])
        self.expected_share_ = float((pool >= self.threshold_).mean())
        self.num_classes_ = int(p.shape[1])
        if best is None:
            self._warn_of_nothing(len(index), accepted[starts], errors[starts])
        return self

    def accepts(self, probs: Any) -> Any:
        """Whether each node's prediction is accepted [n]; NumPy or torch as given."""
        p = self._read_again(probs)
        return like(probs, p.max(axis=1).astype(np.float64) >= self.threshold_)

    def _told(self) -> list[str]:
        labels = f"{self.errors_} of {self.accepted_labels_} accepted calibration nodes are wrong"
        accepts = f"accepts {self.expected_share_:.1%}, from {self.threshold_:.4f} on"
        return [accepts, labels] if self.accepted_labels_ else ["accepts nothing"]

    def _warn_of_nothing(self, labels: int, accepted: Ints, errors: Ints) -> None:
        promise = f"at most {self.max_error:.2%} errors with {self.confidence:.0%} confidence"
        if not accepted.size:
            reason = (
                f"{labels} calibration labels are too few to guarantee {promise}; "
                f"at least {self.labels_needed_} are needed, more if any of them is wrong"
            )
        else:
            tried = ", ".join(f"{e} of {a}" for e, a in zip(errors, accepted, strict=True))
            reason = f"of the most confident nodes {tried} are wrong: too many for {promise}"
        warnings.warn(f"nothing is accepted: {reason}", CalibrationWarning, stacklevel=3)


def candidate_thresholds(confidence: Floats, steps: int = STEPS) -> Floats:
    """Thresholds that accept 1/steps, 2/steps, … of the nodes, strictest first."""
    ordered = np.sort(confidence)[::-1]
    places = np.unique(np.ceil(np.arange(1, steps + 1) / steps * len(ordered)).astype(int) - 1)
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
    """Thresholds at which testing may begin anew: where labels suffice, twice as many, ….

    Looks at how many labelled nodes each threshold accepts, never at their labels. The starts
    share the risk, and labels suffice if they do at a start's part of it. The last one leaves room
    for looser thresholds, unless it is the only one.
    """
    for starts in range(MOST_STARTS, 0, -1):
        least = labels_without_error(max_error, risk / starts) * 2 ** np.arange(starts)
        if least[-1] * min(starts, 2) <= accepted[-1]:
            return np.unique(np.searchsorted(accepted, least))
    return np.empty(0, dtype=np.int64)


def lowest_threshold(
    accepted: Ints, errors: Ints, allowed: float, risk: float
) -> tuple[int | None, Ints]:
    """Position of the lowest threshold that keeps ``allowed`` (or None), and the starts."""
    starts = start_positions(accepted, allowed, risk)
    return fallback(binom.cdf(errors, accepted, allowed), starts, risk), starts


def fallback(p_values: Floats, starts: Ints, risk: float) -> int | None:
    """The last hypothesis rejected by the fallback procedure, or None.

    Every start has an equal part of the risk; a hypothesis is tested at its own part and what the
    one before hands on, which it does if it was rejected.
    """
    if not starts.size:
        return None
    part = risk / len(starts)
    own = np.zeros(len(p_values))
    own[starts] = part
    best, handed_on = None, 0.0
    for position, p in enumerate(p_values):
        level = own[position] + handed_on
        rejected = level > 0 and p <= level
        handed_on = level if rejected else 0.0
        if rejected:
            best = position
    return best
