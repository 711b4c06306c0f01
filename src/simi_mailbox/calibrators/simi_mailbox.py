"""Simi-Mailbox, robust: groups depart from one temperature only as far as evidence supports."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.grouped import GroupedTemperature
from simi_mailbox.calibrators.registry import register
from simi_mailbox.calibrators.temperature import bound_message
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Scaling
from simi_mailbox.inputs import CalibrationData, NodeInputs
from simi_mailbox.mailbox import mailbox
from simi_mailbox.prior.baseline import Baseline, blend, degree_terms, error_rate, fit_baseline
from simi_mailbox.prior.files import LEARNED, resolve
from simi_mailbox.prior.model import Prior
from simi_mailbox.prior.random_effects import between_groups
from simi_mailbox.softmax import confidence
from simi_mailbox.temperature import (
    ConfidenceCurve,
    fit_confidence,
    global_temperature,
    theta_bounds,
)

PLAIN_STRENGTH = 100.0
"""Pseudo-labels behind the expectation of no residual, where no prior is used."""
LARGEST_CHANGE = 4.0
"""A group's distance from certainty, or from a blind guess, changes by at most this factor."""


@register("simi-mailbox")
class SimiMailbox(GroupedTemperature):
    """One temperature per group of nodes alike in confidence and neighbourhood similarity.

    First a baseline for all nodes (`simi_mailbox.prior.baseline`): a temperature that depends on
    the degree, and a share of blind guesses, likeliest given the calibration labels and what other
    graphs have shown (`simi_mailbox.prior.Prior`); without a prior it is temperature scaling. Then,
    for every group n, the residual of its calibration nodes, shrunk by s pseudo-labels toward the
    prior mean μ_n,

        r_n = (Σ (correct − confidence) + s μ_n) / (count + s),

    is added to the mean confidence of all nodes of the group, and the temperature that attains
    this target is solved for. μ_n is the luck that labels which also chose the GNN's checkpoint
    have had elsewhere; s is small where groups differ by more than chance.

    The grouping is that of Seo et al. (AAAI 2025), by the baseline's confidence; the estimation
    differs because a group's accuracy on a handful of labels is mostly noise. `SimiMailboxPaper`
    is the text to the letter.

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
        The temperature of temperature scaling.
    temperatures_ : array [groups]
        Of nodes of mean degree (without a prior: of all nodes).
    groups_ : array [n]
    counts_ : array [groups]
        Calibration nodes in every group.
    at_bound_ : array [groups] of bool
    baseline_ : dict
        The fields of a `simi_mailbox.prior.baseline.Baseline`. A node's temperature is that of its
        group, changed by its degree, and its probabilities are
        (1 − blind) softmax(z / T) + blind / K.
    prior_means_ : array [groups]
    prior_strength_ : float
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
    counts_: Ints
    at_bound_: Bools
    baseline_: dict[str, float]
    prior_means_: Floats
    prior_strength_: float
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
        z, y = data.calibration_logits, data.calibration.y
        self.temperature_, at_bound = global_temperature(z, y)
        if at_bound:
            warnings.warn(bound_message(data, self.temperature_), CalibrationWarning, stacklevel=3)
        prior = None if self.prior is None else resolve(self.prior)
        if len(data.calibration) < self.n_groups:
            prior = None  # too few labels for groups: temperature scaling, and nothing else
        self.prior_ = {} if prior is None else prior.to_dict()
        baseline = self._fit_baseline(data, prior, at_bound)
        self.baseline_ = asdict(baseline)
        self._make_groups(data)
        n_groups = len(self.centroids_)
        group = self.groups_[data.calibration.index.numpy()]
        self.counts_ = np.bincount(group, minlength=n_groups)
        self.prior_means_ = np.zeros(n_groups)
        self.prior_strength_ = self.prior_strength or PLAIN_STRENGTH
        if n_groups == 1:
            self.temperatures_ = np.array([baseline.temperature])
            self.at_bound_ = np.array([at_bound])
            return
        scale = None if prior is None else baseline.scale(data.neighbourhoods)
        curve = ConfidenceCurve(data.logits, torch.from_numpy(self.groups_), n_groups, scale)
        theta = np.full(n_groups, -np.log(baseline.temperature))
        mean = curve(theta)[0]
        shift = self._shift(data, baseline, mean, group, prior)
        target = bounded_target(mean, shift / (1.0 - baseline.blind), data.num_classes)
        solution = fit_confidence(curve, target, theta_bounds(data.logits), start=theta)
        self.temperatures_, self.at_bound_ = solution.temperatures, solution.at_bound

    def _fit_baseline(self, data: CalibrationData, prior: Prior | None, at_bound: bool) -> Baseline:
        if prior is None:
            return Baseline(self.temperature_)
        if at_bound:  # the labels say nothing about blind guesses: take the prior's word for them
            unit = error_rate(torch.ones(len(data.calibration))) ** 2
            return Baseline(self.temperature_, blind=float(min(unit * np.exp(prior.blind), 0.5)))
        terms = degree_terms(data.neighbourhoods)
        means = terms.mean(dim=0)
        z, y = data.calibration_logits, data.calibration.y
        centred = terms[data.calibration.index] - means
        found, _ = fit_baseline(z, y, centred, self.temperature_, prior)
        return replace(found, mean_many=float(means[0]), mean_few=float(means[1]))

    def _shift(
        self,
        data: CalibrationData,
        baseline: Baseline,
        mean: Floats,
        group: Ints,
        prior: Prior | None,
    ) -> Floats:
        """Residual of every group, shrunk toward what is to be expected.

        Only calibration nodes and means of groups are looked at: no further pass over the logits.
        """
        z, index = data.calibration_logits, data.calibration.index
        node = baseline.temperature / baseline.scale(data.neighbourhoods)[index]
        c = blend(confidence(z, node), baseline.blind, data.num_classes).numpy()
        residual = (z.argmax(dim=1) == data.calibration.y).numpy() - c
        variance = c * (1.0 - c)
        total, spread = (
            np.bincount(group, values, minlength=len(mean)).astype(np.float64)
            for values in (residual, variance)
        )
        if prior is not None:
            whole = (1.0 - baseline.blind) * mean + baseline.blind / data.num_classes
            error = error_rate(confidence(z, self.temperature_))
            self.prior_means_ = prior.level(whole, error, len(c))
            if self.prior_strength is None:
                between = between_groups(total, spread, self.counts_.astype(np.float64))
                self.prior_strength_ = prior.strength(*between, float(variance.mean()))
        s = self.prior_strength_
        shift: Floats = (total + s * self.prior_means_) / (self.counts_ + s)
        return shift

    def _points(self, data: NodeInputs) -> Floats:
        if not self.prior_:
            return super()._points(data)
        c = Baseline(**self.baseline_).confidence(data.logits, data.neighbourhoods)
        similarity = mailbox(data.logits, data.neighbourhoods).double()
        return torch.stack([c, similarity], dim=1).numpy()

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return super()._temperatures(data) / Baseline(**self.baseline_).scale(data.neighbourhoods)

    def _predict(self, data: NodeInputs) -> Tensor:
        return blend(super()._predict(data), self.baseline_["blind"], data.num_classes)


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
