"""Simi-Mailbox as the paper's text describes it, for reproduction."""

from __future__ import annotations

import warnings
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.adam import fit_adam
from simi_mailbox.calibrators.base import TemperatureCalibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.mailbox import mailbox
from simi_mailbox.parameters import Count, NonNegative, Whole, hyperparameters
from simi_mailbox.softmax import confidence
from simi_mailbox.temperature import ConfidenceCurve, CrossEntropy, fit_paper_loss, theta_bounds
from simi_mailbox.validation import CalibrationData, NodeInputs


def node_points(data: NodeInputs) -> Floats:
    """(confidence, mailbox) of every node as the paper has them, before scaling."""
    similarity = mailbox(data.logits, data.neighbourhoods).double()
    return torch.stack([confidence(data.logits), similarity], dim=1).numpy()


class GroupedTemperatures(TemperatureCalibrator):
    """Nodes are grouped by (confidence, mailbox); T_i is the temperature of the node's group.

    Attributes
    ----------
    temperatures_ : array [groups]
    groups_ : array [n]
        Group of every node that ``fit`` saw.
    centroids_, shift_, scale_ : arrays
        What assigns unseen nodes: see `simi_mailbox.grouping.Grouping`.
    """

    required_inputs: ClassVar[frozenset[str]] = frozenset({"graph"})
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
        wanted = self._supported_groups(len(data.calibration))
        grouping = find_groups(points, wanted, scaling=self.scaling, seed=self.seed)
        self.shift_, self.scale_ = grouping.shift, grouping.scale
        self.centroids_ = grouping.centroids
        self.groups_ = grouping.assign(points)

    def _supported_groups(self, labelled: int) -> int:
        """As many groups as are wanted, or one if there are fewer labels than that."""
        if labelled >= self.n_groups:
            return self.n_groups
        warnings.warn(
            f"{labelled} calibration nodes cannot support {self.n_groups} groups: "
            "falling back to one temperature for all nodes",
            CalibrationWarning,
            stacklevel=5,
        )
        return 1

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.from_numpy(self.temperatures_[self.grouping_.assign(self._points(data))])

    def _points(self, data: NodeInputs) -> Floats:
        """What nodes are grouped by, before scaling: (confidence, mailbox)."""
        return node_points(data)


@hyperparameters
class SimiMailboxPaper(GroupedTemperatures):
    """As described in the paper: group accuracies from calibration labels, no shrinkage.

    Seo et al., "Towards Precise Prediction Uncertainty in GNNs: Refining GNNs with
    Topology-grouping Strategy", AAAI 2025. Temperatures minimise

        CE(calibration nodes) + λ Σ_n (a_n − mean confidence of group n)²

    where a_n is the accuracy of the *calibration* nodes of group n and the mean runs over all nodes
    of the group. The released code averages a_n over all nodes, test nodes included; this class
    cannot. Groups without calibration node: their gap term is left out and T stays at 1, where
    gradient descent would leave it. With few labels per group a_n is mostly noise and this method
    loses to one global temperature: use `SimiMailbox`.

    Groups are made by the mean of σ(z_i · z_j) over neighbours j, as in the paper. It depends on
    the size of the logits and on a constant added to a node's: the same model whose output went
    through a log-softmax, or was scaled, has other groups and other probabilities. Pass the raw
    outputs of the model. Where every row sums to one after exp, ``fit`` warns.

    Parameters
    ----------
    n_groups, penalty
        N and λ: the paper searches 5..30 and 1..50 and publishes no choice.
    solver : {"exact", "adam"}
        ``"adam"`` runs the released optimiser and its settings (learning rate 0.01, up to 2,000
        epochs, hold-out ECE with 10 bins for stopping when ``early_stopping_mask`` is given).
    scaling, seed
        See `SimiMailbox`.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> cal = SimiMailboxPaper(n_groups=2)
    >>> cal = cal.fit(problem.logits, problem.y, graph=problem.graph, mask=range(200))
    >>> cal.temperatures_.shape
    (2,)
    """

    name: ClassVar[str] = "simi-mailbox-paper"
    shift_invariant: ClassVar[bool] = False

    n_groups: Count = 15
    penalty: NonNegative = 50.0
    scaling: Scaling = "min-max"
    solver: Literal["exact", "adam"] = "exact"
    seed: Whole = 0

    def _fit(self, data: CalibrationData) -> None:
        self._make_groups(data, node_points(data))
        groups = torch.from_numpy(self.groups_)
        accuracy = self._target_accuracy(data)
        if self.solver == "adam":
            self.temperatures_ = fit_adam(
                data.logits, groups, data.calibration, accuracy, self.penalty, holdout=data.holdout
            )
            self.at_bound_ = np.zeros(len(accuracy), dtype=bool)
            return
        solution = fit_paper_loss(
            ConfidenceCurve(data.logits, groups, len(accuracy)),
            CrossEntropy(
                data.calibration_logits,
                data.calibration.y,
                groups[data.calibration.index],
                len(accuracy),
            ),
            accuracy,
            self.penalty,
            theta_bounds(data.logits),
        )
        unlabelled = np.isnan(accuracy)
        self.temperatures_ = np.where(unlabelled, 1.0, solution.temperatures)
        self.at_bound_ = solution.at_bound & ~unlabelled

    def _target_accuracy(self, data: CalibrationData) -> Floats:
        """Accuracy of the calibration nodes of every group; NaN where there is none."""
        n = len(self.centroids_)
        right = data.calibration_logits.argmax(dim=1) == data.calibration.y
        group = self.groups_[data.calibration.index.numpy()]
        counts = np.bincount(group, minlength=n)
        hits = np.bincount(group, right.numpy(), minlength=n)
        return np.where(counts > 0, hits / np.maximum(counts, 1), np.nan)
