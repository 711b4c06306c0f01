"""Histogram binning of the confidence."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes, check_within
from simi_mailbox.calibrators.parts.likelihood import confidence_and_correct, with_confidence
from simi_mailbox.parameters import Count, NonNegative, hyperparameters
from simi_mailbox.softmax import confidence
from simi_mailbox.validation import CalibrationData, NodeInputs


@hyperparameters
class HistogramBinning(Calibrator):
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
        Labels' worth of belief in the bin's mean confidence; keeps a bin whose few nodes are all
        right from claiming certainty. 0 gives the plain share.

    Attributes
    ----------
    edges_ : float64 array [bins - 1]
        Inner edges; a confidence equal to an edge belongs to the bin above.
    values_ : float64 array [bins]
        Confidence of each bin.

    Notes
    -----
    Differs from the common code (Guo et al.; NN_calibration) in bins of equal count instead of
    equal width, so that no bin is empty, in the pseudo-labels, and in keeping the predicted class:
    a confidence that would let the runner-up win is raised to the tie.

    Examples
    --------
    >>> logits = np.array([[4.0, 0.0]] * 10)  # confidence 98 %, 7 of 10 right
    >>> y = np.array([0] * 7 + [1] * 3)
    >>> cal = HistogramBinning(prior_strength=0).fit(logits, y, mask=np.arange(10))
    >>> cal.predict_proba(logits)[0].round(6).tolist()
    [0.7, 0.3]
    """

    name: ClassVar[str] = "histogram"
    fitted: ClassVar[Shapes] = {"edges_": ("edges",), "values_": ("bins",)}
    keep_classes = True

    bins: Count = 10
    prior_strength: NonNegative = 1.0

    def _fit(self, data: CalibrationData) -> None:
        conf, correct = (part.numpy() for part in confidence_and_correct(data))
        self.edges_ = equal_mass_edges(conf, self.bins)
        member = np.searchsorted(self.edges_, conf, side="right")
        bins = self.edges_.size + 1
        count, right, confident = (
            np.bincount(member, weights=part, minlength=bins)
            for part in (np.ones_like(conf), correct, conf)
        )
        self.values_ = (right + self.prior_strength * confident / count) / (
            count + self.prior_strength
        )

    def _check_state(self) -> None:
        check_within("values_", self.values_, 0.0, 1.0)
        if len(self.values_) != len(self.edges_) + 1 or (np.diff(self.edges_) < 0).any():
            raise ValueError("edges_ do not rise, or there is not one value between every two")

    def _predict(self, data: NodeInputs) -> Tensor:
        member = np.searchsorted(self.edges_, confidence(data.logits).numpy(), side="right")
        return with_confidence(data.logits, torch.from_numpy(self.values_[member]))


def equal_mass_edges(values: Floats, bins: int) -> Floats:
    """Inner edges of at most ``bins`` bins of near-equal count, none of them empty."""
    ordered = np.sort(values)
    bins = min(bins, ordered.size)
    cuts = np.arange(1, bins) * ordered.size // bins
    edges = np.unique((ordered[cuts - 1] + ordered[cuts]) / 2)
    # Ties can leave nothing below an edge: that edge separates nothing.
    below = np.searchsorted(ordered, edges, side="left")
    new: Bools = np.diff(below, prepend=0) > 0
    return edges[new]
