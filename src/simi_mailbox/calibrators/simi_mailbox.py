"""Simi-Mailbox, robust: groups depart from one temperature only as far as evidence supports."""

from __future__ import annotations

import os
import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.base import BELOW_ONE, NodeTemperatures, Shapes, check_within
from simi_mailbox.calibrators.temperature import bound_message
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.inputs import CalibrationData, NodeInputs
from simi_mailbox.mailbox import mailbox
from simi_mailbox.parameters import Count, Positive, Whole, hyperparameters
from simi_mailbox.prior.baseline import Baseline, blend, degree_terms, error_rate, fit_baseline
from simi_mailbox.prior.files import LEARNED, resolve
from simi_mailbox.prior.model import Prior, between_groups
from simi_mailbox.softmax import confidence, scaled_softmax
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


class GroupedTemperatures(NodeTemperatures):
    """Nodes are grouped by (confidence, mailbox); T_i is the temperature of the node's group.

    Attributes
    ----------
    temperatures_ : array [groups]
    groups_ : array [n]
        Group of every node that ``fit`` saw.
    centroids_, shift_, scale_ : arrays
        What assigns unseen nodes: see `simi_mailbox.grouping.Grouping`.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"graph"})
    fitted: ClassVar[Shapes] = {
        "temperatures_": ("groups",),
        "centroids_": ("groups", 2),
        "shift_": (2,),
        "scale_": (2,),
    }

    n_groups: int
    scaling: Scaling
    seed: int

    temperatures_: Floats
    groups_: Ints
    centroids_: Floats
    shift_: Floats
    scale_: Floats

    @property
    def grouping_(self) -> Grouping:
        """The fitted scaling and centroids."""
        return Grouping(self.shift_, self.scale_, self.centroids_)

    def _make_groups(self, data: CalibrationData, points: Floats) -> None:
        """Group all nodes by their points (no label is read)."""
        wanted, labelled = self.n_groups, len(data.calibration)
        if labelled < wanted:
            warnings.warn(
                f"{labelled} calibration nodes cannot support {wanted} groups: "
                "falling back to one temperature for all nodes",
                CalibrationWarning,
                stacklevel=4,
            )
            wanted = 1
        grouping = find_groups(points, wanted, scaling=self.scaling, seed=self.seed)
        self.shift_, self.scale_ = grouping.shift, grouping.scale
        self.centroids_ = grouping.centroids
        self.groups_ = grouping.assign(points)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.from_numpy(self.temperatures_[self.grouping_.assign(self._points(data))])

    def _points(self, data: NodeInputs) -> Floats:
        """What nodes are grouped by, before scaling: (confidence, mailbox)."""
        return node_points(data)


@hyperparameters
class SimiMailbox(GroupedTemperatures):
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

    name: ClassVar[str] = "simi-mailbox"

    n_groups: Count = 20
    prior: str | os.PathLike[str] | None = LEARNED
    prior_strength: Positive | None = None
    scaling: Scaling = "min-max"
    seed: Whole = 0

    @property
    def blind_share(self) -> float:
        """Share of blind guesses in the probabilities."""
        return float(self.baseline_["blind"])

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits, data.calibration.y
        self.temperature_, at_bound = global_temperature(z, y)
        if at_bound:
            warnings.warn(bound_message(data, self.temperature_), CalibrationWarning, stacklevel=3)
        prior = None if self.prior is None else resolve(self.prior)
        if len(data.calibration) < self.n_groups:
            prior = None  # too few labels for groups: temperature scaling, and nothing else
        baseline = self._fit_baseline(data, prior, at_bound)
        self.prior_: dict[str, Any] = {} if prior is None else prior.to_dict()
        self.baseline_: dict[str, float] = asdict(baseline)
        self._make_groups(data, node_points(data, None if prior is None else baseline))
        n_groups = len(self.centroids_)
        group = self.groups_[data.calibration.index.numpy()]
        self.counts_: Ints = np.bincount(group, minlength=n_groups)
        if n_groups == 1:
            self.prior_means_, self.prior_strength_ = np.zeros(1), self._plain_strength
            self.temperatures_ = np.array([baseline.temperature])
            self.at_bound_: Bools = np.array([at_bound])
            return
        scale = None if prior is None else baseline.scale(data.neighbourhoods)
        curve = ConfidenceCurve(data.logits, torch.from_numpy(self.groups_), n_groups, scale)
        theta = np.full(n_groups, -np.log(baseline.temperature))
        at_start = curve(theta)
        mean = at_start[0]
        shift = self._shift(data, baseline, mean, group, prior)
        self.prior_means_, self.prior_strength_ = shift.means, shift.strength
        target = bounded_target(mean, shift.value / (1.0 - baseline.blind), data.num_classes)
        bounds = theta_bounds(data.logits)
        solution = fit_confidence(curve, target, bounds, start=theta, at_start=at_start)
        self.temperatures_, self.at_bound_ = solution.temperatures, solution.at_bound

    @property
    def _plain_strength(self) -> float:
        return PLAIN_STRENGTH if self.prior_strength is None else self.prior_strength

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
        mean_log, mean_inverse = means.tolist()
        return replace(found, mean_log_degree=mean_log, mean_inverse_degree=mean_inverse)

    def _check_state(self) -> None:
        if not isinstance(self.baseline_, dict) or not isinstance(self.prior_, dict):
            raise ValueError("baseline_ and prior_ must be tables of numbers")
        baseline = Baseline.read(self.baseline_)
        check_within("the temperature of baseline_", baseline.temperature, 1e-300, 1e300)
        check_within("the blind share of baseline_", baseline.blind, 0.0, BELOW_ONE)
        check_within("the effects of baseline_", list(asdict(baseline).values())[1:], -1e3, 1e3)

    def _shift(
        self,
        data: CalibrationData,
        baseline: Baseline,
        mean: Floats,
        group: Ints,
        prior: Prior | None,
    ) -> Shift:
        """Residual of every group, shrunk toward what is to be expected.

        Only calibration nodes and means of groups are looked at: no further pass over the logits.
        """
        z, index = data.calibration_logits, data.calibration.index
        node = baseline.temperature / baseline.scale(data.neighbourhoods)[index]
        c = blend(confidence(z, node), baseline.blind, data.num_classes).numpy()
        residual = (z.argmax(dim=1) == data.calibration.y).numpy() - c
        variance = c * (1.0 - c)
        total, spread, counts = (
            np.bincount(group, values, minlength=len(mean)).astype(np.float64)
            for values in (residual, variance, np.ones_like(c))
        )
        means, strength = np.zeros(len(mean)), self._plain_strength
        if prior is not None:
            whole = (1.0 - baseline.blind) * mean + baseline.blind / data.num_classes
            error = error_rate(confidence(z, self.temperature_))
            means = prior.level(whole, error, len(c))
            if self.prior_strength is None:
                between = between_groups(total, spread, counts)
                strength = prior.strength(*between, float(variance.mean()))
        return Shift((total + strength * means) / (counts + strength), means, strength)

    def _points(self, data: NodeInputs) -> Floats:
        return node_points(data, Baseline.read(self.baseline_) if self.prior_ else None)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return super()._temperatures(data) / Baseline.read(self.baseline_).scale(
            data.neighbourhoods
        )

    def _predict(self, data: NodeInputs) -> Tensor:
        probs = scaled_softmax(data.logits, self._temperatures(data))
        return blend(probs, self.blind_share, data.num_classes)


@dataclass(frozen=True)
class Shift:
    """By how much the mean confidence of every group moves, and what was expected of it."""

    value: Floats
    means: Floats
    strength: float


def node_points(data: NodeInputs, baseline: Baseline | None = None) -> Floats:
    """(confidence, mailbox) of every node, before scaling; confidence as the baseline sees it."""
    graph = data.neighbourhoods
    sure = confidence(data.logits) if baseline is None else baseline.confidence(data.logits, graph)
    return torch.stack([sure, mailbox(data.logits, graph).double()], dim=1).numpy()


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
