"""Metrics of one class: is P(class) calibrated, and what do the nodes with the highest P hold?"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from simi_mailbox.metrics._inputs import Array, check_class, shared_by_equals
from simi_mailbox.metrics.calibration_error import Binning, Reliability, bin_outcomes
from simi_mailbox.metrics.sampling import Interval
from simi_mailbox.metrics.sets import binomial_interval


def class_reliability(
    probs: Array,
    y: Array,
    *,
    positive: int | None = None,
    bins: int = 15,
    binning: Binning = "width",
) -> Reliability:
    """Reliability of P(class): its mean (``confidence``) and the share of the class per bin.

    Parameters
    ----------
    probs, y : ndarray or Tensor
        P(class) [n] and whether a node is of the class [n] (boolean or 0/1), or probabilities of
        all classes [n, K] and labels [n].
    positive : int, optional
        Number of the class, with probabilities of all classes.
    bins, binning
        As in :func:`reliability`; the share of the class stands for ``accuracy``.
    """
    return bin_outcomes(*check_class(probs, y, positive), bins, binning).reliability()


def class_ece(probs: Array, y: Array, *, positive: int | None = None, bins: int = 15) -> float:
    """ECE of P(class): Σ_b (n_b / n) · |mean P(class) in b − share of the class in b|.

    Parameters are those of `class_reliability`.
    """
    return class_reliability(probs, y, positive=positive, bins=bins).ece


def average_precision(probs: Array, y: Array, *, positive: int | None = None) -> float:
    """Area under the precision–recall curve, as scikit-learn has it; NaN without the class.

    Parameters are those of `class_reliability`.
    """
    from sklearn.metrics import average_precision_score

    p, is_class = check_class(probs, y, positive)
    return float(average_precision_score(is_class, p)) if is_class.any() else float("nan")


def auroc(probs: Array, y: Array, *, positive: int | None = None) -> float:
    """Area under the ROC curve: how often a node of the class has the higher P(class).

    Ties count one half. NaN if all nodes or none are of the class. Parameters are those of
    `class_reliability`.
    """
    from sklearn.metrics import roc_auc_score

    p, is_class = check_class(probs, y, positive)
    mixed = 0 < is_class.sum() < len(p)
    return float(roc_auc_score(is_class, p)) if mixed else float("nan")


@dataclass(frozen=True)
class Alerts:
    """What the nodes with the highest P(class) hold.

    Attributes
    ----------
    alerts, hits, nodes, positives : int, float, int, int
        Nodes with the highest P(class), how many of them are of the class (a fraction where ties at
        the last place are shared); all nodes, and how many of these are of the class.
    """

    alerts: int
    hits: float
    nodes: int
    positives: int

    @property
    def precision(self) -> float:
        """Share of the class among the alerts; NaN without alerts."""
        return self.hits / self.alerts if self.alerts else float("nan")

    @property
    def recall(self) -> float:
        """Share of the class that is alerted; NaN if no node is of the class."""
        return self.hits / self.positives if self.positives else float("nan")

    @property
    def lift(self) -> float:
        """Precision over the share of the class among all nodes."""
        return self.precision * self.nodes / self.positives if self.positives else float("nan")

    def interval(self, of: Literal["precision", "recall", "lift"]) -> Interval:
        """Exact (Clopper–Pearson) 95 % interval; for the lift the share of the class is known."""
        count = self.positives if of == "recall" else self.alerts
        scale = self.nodes / max(self.positives, 1) if of == "lift" else 1.0
        low, high = binomial_interval(np.array(self.hits), np.array(count))
        return Interval(float(low) * scale, float(high) * scale, 0.95)


def alerts(
    probs: Array,
    y: Array,
    *,
    threshold: float | None = None,
    top: int | None = None,
    positive: int | None = None,
) -> Alerts:
    """Precision, recall and lift of nodes with P(class) ≥ ``threshold``, or of the ``top`` nodes.

    Nodes of equal P(class) at the last place share their mean: the order of nodes does not matter.
    Other parameters are those of `class_reliability`.

    Examples
    --------
    >>> alerts(np.array([0.9, 0.8, 0.8]), np.array([1, 0, 1]), threshold=0.85).precision
    1.0
    """
    p, is_class = check_class(probs, y, positive)
    if (threshold is None) == (top is None):
        raise ValueError(f"threshold is {threshold} and top is {top}; pass one of them.")
    count = int((p >= (threshold or 0.0)).sum()) if top is None else top
    if not (top is None or 1 <= count <= len(p)):
        raise ValueError(f"top is {top}; expected a number of nodes between 1 and {len(p)}.")
    order = np.argsort(-p, kind="stable")
    shared = shared_by_equals(p[order], is_class[order])
    hits = round(float(shared[:count].sum()), 9)  # thirds of a tie add up to whole nodes
    return Alerts(count, hits, len(p), int(is_class.sum()))


@dataclass(frozen=True)
class Positives:
    """How many nodes of the class P(class) expects, its interval, and how many there are."""

    expected: float
    interval: Interval
    observed: int


def positives(probs: Array, y: Array, *, positive: int | None = None) -> Positives:
    """``expected`` and ``observed`` number of nodes of the class.

    The 95 % ``interval`` is where the observed number lies if P(class) is calibrated and nodes are
    independent, by mean, variance and skewness (Cornish and Fisher), in whole numbers. Parameters
    are those of `class_reliability`.
    """
    p, is_class = check_class(probs, y, positive)
    mean, variance = float(p.sum()), p * (1 - p)
    spread, z = np.sqrt(variance.sum()), float(ndtri(0.975))
    skew = float((variance * (1 - 2 * p)).sum()) / max(spread**3, 1e-12)
    low, high = (mean + spread * (side + skew * (z * z - 1) / 6) for side in (-z, z))
    # A whole number stands for the half on either side of it.
    low, high = max(float(np.floor(low + 0.5)), 0.0), min(float(np.ceil(high - 0.5)), len(p))
    return Positives(mean, Interval(low, high, 0.95), int(is_class.sum()))
