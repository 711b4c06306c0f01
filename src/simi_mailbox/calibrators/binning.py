"""Histogram binning and isotonic regression: maps of the confidence alone."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.base import Calibrator, Shapes
from simi_mailbox.parameters import Count, NonNegative, hyperparameters
from simi_mailbox.softmax import confidence, top_gaps
from simi_mailbox.validation import CalibrationData, NodeInputs


class ConfidenceMap(Calibrator):
    """The predicted class gets a function of its confidence, other classes share the rest."""

    keep_classes = True
    values_: Floats

    @abstractmethod
    def _map(self, confident: Floats) -> Floats:
        """From confidence to confidence."""

    def _predict(self, data: NodeInputs) -> Tensor:
        mapped = self._map(confidence(data.logits).numpy())
        return with_confidence(data.logits, torch.from_numpy(mapped))


@hyperparameters
class HistogramBinning(ConfidenceMap):
    """One confidence per bin: the share of its calibration nodes that are right.

    The calibration nodes, ordered by confidence, are cut into ``bins`` bins of (almost) equal
    count; nodes of equal confidence stay together. A node whose confidence falls into bin b gets

        c_b = (right_b + s · mean confidence_b) / (count_b + s),   s = ``prior_strength``,

    and its other classes keep their ratios and share the rest (Zadrozny & Elkan, ICML 2001, for
    two classes; Guo et al., ICML 2017, for the top label).

    Parameters
    ----------
    bins : int
        Largest number of bins; fewer if there are fewer calibration nodes or confidences.
    prior_strength : float
        Labels' worth of belief in the bin's mean confidence. 0 gives the plain share.

    Attributes
    ----------
    edges_, values_ : float64 arrays [bins - 1], [bins]
        Inner edges (they belong to the bin above), and the confidence of each bin.

    Notes
    -----
    Differs from the common code (Guo et al.; NN_calibration) in bins of equal count instead of
    equal width, in the pseudo-labels, and in keeping the predicted class.

    Examples
    --------
    >>> logits = [[4.0, 0.0]] * 10  # confidence 98 %, 7 of 10 right
    >>> cal = HistogramBinning(prior_strength=0).fit(logits, [0] * 7 + [1] * 3, mask=range(10))
    >>> cal.predict_proba(logits)[0].round(6).tolist()
    [0.7, 0.3]
    """

    name = "histogram"
    fitted: ClassVar[Shapes] = {"edges_": ("edges",), "values_": ("bins",)}

    bins: Count = 10
    prior_strength: NonNegative = 1.0

    def _fit(self, data: CalibrationData) -> None:
        conf, correct = confidence_and_correct(data)
        self.edges_ = equal_mass_edges(conf, self.bins)
        member = np.searchsorted(self.edges_, conf, side="right")
        count = np.bincount(member)
        right, mean = np.bincount(member, correct), np.bincount(member, conf) / count
        self.values_ = (right + self.prior_strength * mean) / (count + self.prior_strength)

    def _map(self, confident: Floats) -> Floats:
        return self.values_[np.searchsorted(self.edges_, confident, side="right")]


@hyperparameters
class Isotonic(ConfidenceMap):
    """The best non-decreasing map from confidence to the share of right predictions.

    f minimises Σ_i (t_i − f(c_i))² over the calibration nodes, where c_i is the confidence of node
    i and t_i is 1 if its predicted class is right and 0 if not (Zadrozny & Elkan, KDD 2002).
    Between the calibration nodes f is linear, outside it is constant.

    Parameters
    ----------
    prior_strength : float
        Labels' worth of belief in the model: t_i becomes (t_i + a c_i) / (1 + a) with a =
        ``prior_strength`` / m for m calibration nodes. Plain isotonic regression (0) says "certain"
        wherever no calibration node was wrong.

    Attributes
    ----------
    thresholds_, values_ : float64 arrays
        The knots of f.

    Notes
    -----
    Calibrates the top label and keeps predicted classes. One-vs-rest isotonic regression and that
    of all n·K probabilities at once (IRM: Mix-n-Match, the GATS code) do not.

    Examples
    --------
    >>> logits = [[4.0, 0.0]] * 10  # confidence 98 %, 7 of 10 right
    >>> cal = Isotonic(prior_strength=0).fit(logits, [0] * 7 + [1] * 3, mask=range(10))
    >>> cal.predict_proba(logits)[0].round(6).tolist()
    [0.7, 0.3]
    """

    name = "isotonic"
    fitted: ClassVar[Shapes] = {"thresholds_": ("steps",), "values_": ("steps",)}

    prior_strength: NonNegative = 1.0

    def _fit(self, data: CalibrationData) -> None:
        from sklearn.isotonic import IsotonicRegression

        conf, correct = confidence_and_correct(data)
        weight = self.prior_strength / len(data.calibration)
        target = (correct + weight * conf) / (1 + weight)
        fitted = IsotonicRegression().fit(conf, target)
        self.thresholds_, self.values_ = fitted.X_thresholds_, fitted.y_thresholds_

    def _map(self, confident: Floats) -> Floats:
        return np.interp(confident, self.thresholds_, self.values_)


def equal_mass_edges(values: Floats, bins: int) -> Floats:
    """Inner edges of at most ``bins`` bins of near-equal count, none of them empty."""
    ordered = np.sort(values)
    bins = min(bins, ordered.size)
    cuts = np.arange(1, bins) * ordered.size // bins
    edges = np.unique((ordered[cuts - 1] + ordered[cuts]) / 2)
    # Ties can leave nothing below an edge: that edge separates nothing.
    below = np.searchsorted(ordered, edges, side="left")
    return edges[np.diff(below, prepend=0) > 0]


def with_confidence(logits: Tensor, confidences: Tensor) -> Tensor:
    """Probabilities whose predicted class has the given confidence; the others are rescaled."""
    winner = logits.argmax(dim=1, keepdim=True)
    rest = top_gaps(logits).scatter_(1, winner, -torch.inf)
    # Softmax over the other classes alone: well defined even where the winner has all the mass.
    rest = torch.softmax(rest, dim=1)
    runner_up = rest.amax(dim=1)
    # With a lower confidence the runner-up would win.
    kept = torch.maximum(confidences.to(rest.dtype), runner_up / (1 + runner_up))
    rest *= (1 - kept).unsqueeze(1)
    return rest.scatter_(1, winner, kept.unsqueeze(1))


def confidence_and_correct(data: CalibrationData) -> tuple[Floats, Floats]:
    """Confidence, and whether the predicted class is right, of the calibration nodes."""
    z = data.calibration_logits
    correct = (z.argmax(dim=1) == data.calibration.y).to(torch.float64)
    return confidence(z).numpy(), correct.numpy()
