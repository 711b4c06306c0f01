"""Simi-Mailbox as its authors released it, which reads test labels.

The paper says that a group's target is the accuracy of its *validation* nodes. The released code
averages over *all* nodes of the group, test nodes included. This shows where the printed numbers
come from; it is not in the registry, and every table marks it: nobody could use such a method.
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar, Literal

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.adam import adam_path
from simi_mailbox.calibrators.simi_mailbox.paper import (
    RELEASED_BINS,
    GroupedTemperatures,
    Trial,
    group_accuracy,
    lowest,
    node_points,
)
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.parameters import Count, NonNegative, hyperparameters
from simi_mailbox.temperature import PaperLoss, fit_paper_loss, theta_bounds
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs

ORACLE = "simi-mailbox-oracle"
SOURCE = "hyunjin72/Simi_Mailbox @1a5b78d, src/calibrator/simi_calibrator.py, line 148"
"""Of November 2023: group accuracies in line 148, groups in 115 to 119, Adam's stop in 51 to 62."""
EPOCHS, PATIENCE = 2000, 100


@hyperparameters
class SimiMailboxOracle(GroupedTemperatures):
    """Simi-Mailbox as released: each group's accuracy is taken over all its nodes.

    With ``solver="adam"`` all is as in the released code (`SOURCE`): scikit-learn's k-means in
    single precision; a target accuracy of 0 for groups without validation node; Adam on
    CE(validation) + λ Σ_n (a_n − mean confidence of group n)²; the epoch of lowest ECE (10 bins) on
    the training nodes is kept. N and λ are the caller's: the released N = 1 is one temperature.
    With ``solver="exact"`` the same loss is minimised exactly, in the groups of
    `SimiMailboxPaper`; a group without validation node aims at the accuracy of all its nodes,
    because the exact solution for 0 would be the uniform distribution.
    """

    name: ClassVar[str] = ORACLE
    reads_test_labels: ClassVar[bool] = True
    shift_invariant: ClassVar[bool] = False
    version: ClassVar[int] = 2

    n_groups: Count = 15
    penalty: NonNegative = 50.0
    scaling: Scaling = "min-max"
    solver: Literal["adam", "exact"] = "adam"
    seed: int = 0

    def _fit(self, data: CalibrationData) -> None:
        if data.holdout is None or data.training is None:
            raise ValueError("the oracle reads all labels: pass early_stopping_mask and train_mask")
        everybody = Labelled(
            torch.cat([data.calibration.index, data.holdout.index]),
            torch.cat([data.calibration.y, data.holdout.y]),
        )
        points, adam = node_points(data), self.solver == "adam"
        if adam:
            grouping, labels = _released_groups(points, self.n_groups, self.scaling, self.seed)
        else:
            grouping = find_groups(points, self.n_groups, scaling=self.scaling, seed=self.seed)
            labels = grouping.assign(points)
        trial = Trial(data.logits, grouping, torch.from_numpy(labels), tabulated=adam)
        accuracy = group_accuracy(data.logits, everybody, trial.groups, trial.n_groups)
        loss = trial.loss_on(data.calibration, [self.penalty])
        if adam:
            accuracy = np.where(loss.known, accuracy, 0.0)
        loss = PaperLoss(loss.curve, loss.ce, accuracy, self.penalty)
        self.shift_, self.scale_ = grouping.shift, grouping.scale
        self.centroids_, self.groups_ = grouping.centroids, labels
        self.penalty_, self.epochs_ = self.penalty, 0
        self.at_bound_ = np.zeros(trial.n_groups, dtype=bool)
        if not adam:
            solution = fit_paper_loss(loss, theta_bounds(data.logits))
            self.temperatures_, self.at_bound_ = solution.temperatures, solution.at_bound
            return
        trained = torch.isin(data.holdout.index, data.training)
        judged = Labelled(data.holdout.index[trained], data.holdout.y[trained])
        ece = trial.ece_on([judged], RELEASED_BINS)
        path = ((found,) for found in islice(adam_path(loss), EPOCHS))
        self.epochs_ = int(lowest(path, ece, PATIENCE)[1][0])
        self.temperatures_ = next(islice(adam_path(loss), self.epochs_ - 1, None))[0]

    def _temperatures(self, data: NodeInputs) -> Tensor:
        """Of the nodes that it was fitted on: the released code knows no others."""
        return torch.from_numpy(self.temperatures_[self.groups_])


def _released_groups(
    points: Floats, n_groups: int, scaling: Scaling, seed: int
) -> tuple[Grouping, Ints]:
    x = points.astype(np.float32)
    if scaling == "min-max":
        shift, scale = x.min(axis=0), np.ptp(x, axis=0)
    else:
        shift, scale = x.mean(axis=0), x.std(axis=0)
    found = KMeans(n_groups, n_init="auto", random_state=seed).fit((x - shift) / scale)
    centroids = found.cluster_centers_.astype(np.float64)
    grouping = Grouping(shift.astype(np.float64), scale.astype(np.float64), centroids)
    return grouping, found.labels_.astype(np.int64)
