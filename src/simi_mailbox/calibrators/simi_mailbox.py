"""Simi-Mailbox, robust: groups depart from one temperature only as far as evidence supports."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from simi_mailbox.calibrators.grouped import GroupedTemperature
from simi_mailbox.calibrators.inputs import CalibrationData
from simi_mailbox.calibrators.registry import register
from simi_mailbox.calibrators.temperature import bound_message, global_temperature
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Scaling
from simi_mailbox.softmax import confidence
from simi_mailbox.temperature import ConfidenceCurve, fit_confidence, theta_bounds

Floats = npt.NDArray[np.float64]

LARGEST_CHANGE = 4.0
"""A group's distance from certainty, or from a blind guess, changes by at most this factor."""


@register("simi-mailbox")
class SimiMailbox(GroupedTemperature):
    """One temperature per group of nodes alike in confidence and neighbourhood similarity.

    First one global temperature by cross-entropy. Then, for every group n, the residual of its
    calibration nodes at that temperature, shrunk by ``prior_strength`` pseudo-labels s toward the
    prior mean μ_n (zero),

        r_n = (Σ (correct − confidence) + s μ_n) / (count + s),

    is added to the mean confidence of all nodes of the group, and the temperature that attains
    this target is solved for. With no evidence a group keeps the global temperature.

    The grouping is that of Seo et al. (AAAI 2025); the estimation differs because a group's
    accuracy on a handful of labels is mostly noise. `SimiMailboxPaper` is the text to the letter.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    prior_strength : float
        Pseudo-labels s behind the prior.
    scaling : {"min-max", "standard"}
        How confidence and similarity are scaled before k-means.
    seed : int
        Seed of k-means++.

    Attributes
    ----------
    temperature_ : float
        The global temperature.
    temperatures_ : array [groups]
    groups_ : array [n]
    counts_ : array [groups]
        Calibration nodes in every group.
    at_bound_ : array [groups] of bool

    Examples
    --------
    >>> from simi_mailbox.data.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailbox(n_groups=5)
    >>> cal = cal.fit(problem.logits, problem.y, graph=problem.graph, mask=range(200))
    >>> cal.predict_proba(problem.logits, graph=problem.graph).shape
    (500, 3)
    """

    temperature_: float
    counts_: npt.NDArray[np.int64]
    at_bound_: npt.NDArray[np.bool_]

    def __init__(
        self,
        *,
        n_groups: int = 20,
        prior_strength: float = 100.0,
        scaling: Scaling = "min-max",
        seed: int = 0,
    ) -> None:
        self.n_groups = n_groups
        self.prior_strength = prior_strength
        self.scaling = scaling
        self.seed = seed

    def _check_params(self) -> None:
        super()._check_params()
        if not self.prior_strength > 0:
            raise ValueError(f"prior_strength must be positive, got {self.prior_strength}")

    def _fit(self, data: CalibrationData) -> None:
        start = global_temperature(data)
        if start.at_bound[0]:
            warnings.warn(
                bound_message(data, start.temperatures[0]), CalibrationWarning, stacklevel=3
            )
        self.temperature_ = float(start.temperatures[0])
        self._make_groups(data)
        n_groups = len(self.centroids_)
        residual_sum, self.counts_ = self._residuals(data, n_groups)
        if n_groups == 1:
            self.temperatures_, self.at_bound_ = start.temperatures, start.at_bound
            return
        curve = ConfidenceCurve(data.logits, torch.from_numpy(self.groups_), n_groups)
        theta = np.full(n_groups, start.theta[0])
        mean = curve(theta)[0]
        prior = self._prior_means(data)
        shift = (residual_sum + self.prior_strength * prior) / (self.counts_ + self.prior_strength)
        target = bounded_target(mean, shift, data.num_classes)
        solution = fit_confidence(curve, target, theta_bounds(data.logits), start=theta)
        self.temperatures_, self.at_bound_ = solution.temperatures, solution.at_bound

    def _residuals(
        self, data: CalibrationData, n_groups: int
    ) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Σ (correct − confidence) of the calibration nodes of every group, and their number."""
        z = data.calibration_logits
        right = (z.argmax(dim=1) == data.calibration.y).double()
        residual = (right - confidence(z, self.temperature_)).numpy()
        group = self.groups_[data.calibration.index.numpy()]
        total = np.bincount(group, residual, minlength=n_groups)
        return total, np.bincount(group, minlength=n_groups)

    def _prior_means(self, data: CalibrationData) -> Floats:
        """Residual expected of every group before its labels are seen."""
        return np.zeros(len(self.centroids_))


def bounded_target(mean: Floats, shift: Floats, num_classes: int) -> Floats:
    """``mean + shift``, kept away from certainty and from a blind guess.

    A target of 1 would make a group certain, and its first wrong node infinitely costly.

    Examples
    --------
    >>> bounded_target(np.array([0.6, 0.98]), np.array([0.1, 0.1]), num_classes=2)
    array([0.7  , 0.995])
    """
    guess = 1.0 / num_classes
    low = guess + (mean - guess) / LARGEST_CHANGE
    high = 1.0 - (1.0 - mean) / LARGEST_CHANGE
    return np.clip(mean + shift, low, high)
