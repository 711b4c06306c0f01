"""Simi-Mailbox, robust: groups depart from one temperature only as far as evidence supports."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from simi_mailbox.calibrators.grouped import GroupedTemperature
from simi_mailbox.calibrators.inputs import CalibrationData
from simi_mailbox.calibrators.registry import register
from simi_mailbox.calibrators.temperature import bound_message, global_temperature
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Scaling
from simi_mailbox.prior.between import between_groups
from simi_mailbox.prior.shipped import LEARNED, resolve
from simi_mailbox.softmax import confidence
from simi_mailbox.temperature import ConfidenceCurve, fit_confidence, theta_bounds

Floats = npt.NDArray[np.float64]

PLAIN_STRENGTH = 100.0
"""Pseudo-labels behind the expectation of no residual, where no prior is used."""
LARGEST_CHANGE = 4.0
"""A group's distance from certainty, or from a blind guess, changes by at most this factor."""


@register("simi-mailbox")
class SimiMailbox(GroupedTemperature):
    """One temperature per group of nodes alike in confidence and neighbourhood similarity.

    First one global temperature by cross-entropy. Then, for every group n, the residual of its
    calibration nodes at that temperature, shrunk by s pseudo-labels toward the prior mean μ_n,

        r_n = (Σ (correct − confidence) + s μ_n) / (count + s),

    is added to the mean confidence of all nodes of the group, and the temperature that attains
    this target is solved for. The prior mean is what other graphs have shown to be wrong with
    temperature scaling (`simi_mailbox.prior.Prior`), as far as the calibration nodes as a whole
    bear it out; s is small where groups differ by more than chance.

    The grouping is that of Seo et al. (AAAI 2025); the estimation differs because a group's
    accuracy on a handful of labels is mostly noise. `SimiMailboxPaper` is the text to the letter.

    Parameters
    ----------
    n_groups : int
        Number of groups.
    prior : "learned", None or path
        The prior that comes with the package, none (plain shrinkage), or a file that
        ``simi-mailbox prior fit`` has written.
    prior_strength : float, optional
        Pseudo-labels s behind the prior. By default 100 without a prior, and by evidence with one.
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
    prior_means_ : array [groups]
    prior_strength_ : float
    prior_weight_ : float
        Trust in the prior: 0 where the calibration nodes speak against it, 1 where they confirm it.
    prior_ : dict
        The numbers of the prior that was used, and where they come from; empty without one.

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
    prior_means_: Floats
    prior_strength_: float
    prior_weight_: float
    prior_: dict[str, Any]

    def __init__(
        self,
        *,
        n_groups: int = 20,
        prior: str | os.PathLike[str] | None = LEARNED,
        prior_strength: float | None = None,
        scaling: Scaling = "min-max",
        seed: int = 0,
    ) -> None:
        self.n_groups = n_groups
        self.prior = prior
        self.prior_strength = prior_strength
        self.scaling = scaling
        self.seed = seed

    def _check_params(self) -> None:
        super()._check_params()
        if self.prior_strength is not None and not self.prior_strength > 0:
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
        group = self.groups_[data.calibration.index.numpy()]
        self.counts_ = np.bincount(group, minlength=n_groups)
        self.prior_means_, self.prior_weight_, self.prior_ = np.zeros(n_groups), 0.0, {}
        self.prior_strength_ = self.prior_strength or PLAIN_STRENGTH
        if n_groups == 1:
            self.temperatures_, self.at_bound_ = start.temperatures, start.at_bound
            return
        curve = ConfidenceCurve(data.logits, torch.from_numpy(self.groups_), n_groups)
        theta = np.full(n_groups, start.theta[0])
        mean = curve(theta)[0]
        confidences, residual = self._residuals(data)
        if self.prior is not None:
            overall = float(mean @ curve.counts / curve.counts.sum())
            self._expect(mean, overall, group, confidences, residual, 1.0 / data.num_classes)
        s = self.prior_strength_
        total = np.bincount(group, residual, minlength=n_groups)
        shift = (total + s * self.prior_means_) / (self.counts_ + s)
        target = bounded_target(mean, shift, data.num_classes)
        solution = fit_confidence(curve, target, theta_bounds(data.logits), start=theta)
        self.temperatures_, self.at_bound_ = solution.temperatures, solution.at_bound

    def _residuals(self, data: CalibrationData) -> tuple[Floats, Floats]:
        """Confidence of every calibration node at the global temperature; correct − confidence."""
        z = data.calibration_logits
        confidences = confidence(z, self.temperature_).numpy()
        right = (z.argmax(dim=1) == data.calibration.y).numpy()
        return confidences, right - confidences

    def _expect(
        self,
        mean: Floats,
        overall: float,
        group: npt.NDArray[np.int64],
        confidences: Floats,
        residual: Floats,
        blind: float,
    ) -> None:
        """What residual to expect of every group before its own labels are seen, how firmly.

        Only calibration nodes and means of groups are looked at: no further pass over the logits.
        """
        assert self.prior is not None
        prior = resolve(self.prior)
        self.prior_weight_ = prior.trust(confidences, residual, overall, blind)
        shape = self.prior_weight_ * prior.shape(mean, overall)
        self.prior_means_ = shape + prior.level(mean, len(confidences))
        if self.prior_strength is None:
            variance = confidences * (1.0 - confidences)
            total, spread = (
                np.bincount(group, values, minlength=len(mean)).astype(np.float64)
                for values in (residual - shape[group], variance)
            )
            between = between_groups(total, spread, self.counts_.astype(np.float64))
            self.prior_strength_ = prior.strength(*between, float(variance.mean()))
        self.prior_ = prior.to_dict()


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
