"""The released code's reading of Simi-Mailbox, which reads test labels.

The paper says that a group's target is the accuracy of its *validation* nodes. The authors' code
averages over *all* nodes of the group, test nodes included. This class does what the code does, to
show where the printed numbers come from. It is not in the registry, it cannot be had through
`calibrators.get`, and every table marks it: it is no method that anybody could use.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simi_mailbox.calibrators.base import TemperatureCalibrator
from simi_mailbox.calibrators.inputs import CalibrationData, NodeInputs
from simi_mailbox.grouping import Grouping, Scaling, find_groups
from simi_mailbox.mailbox import mailbox
from simi_mailbox.temperature import (
    ConfidenceCurve,
    CrossEntropy,
    confidence,
    fit_paper_loss,
    theta_bounds,
)

ORACLE = "simi-mailbox-oracle"


class SimiMailboxOracle(TemperatureCalibrator):
    """Simi-Mailbox with each group's accuracy taken over all its nodes: reads test labels.

    The loss is the paper's, CE(validation) + λ Σ_n (a_n − mean confidence of group n)², with a_n
    over every labelled node of the group. It is solved exactly instead of by Adam.

    Where a group has no validation node the released code sets a_n to 0, which pushes that group's
    temperature up for as long as Adam runs; solved exactly that would be the uniform distribution.
    Here such a group has the accuracy of all its nodes as its target, like the others.

    Parameters
    ----------
    n_groups
        Number of groups N.
    lam
        Weight λ of the gap term.
    scaling
        How the two coordinates are scaled before k-means: "min-max" or "standard".
    seed
        Seed of k-means.

    Notes
    -----
    ``fit`` takes the validation nodes as ``mask`` and all other nodes as ``holdout_mask``.

    Examples
    --------
    >>> from simi_mailbox import calibrators
    >>> "simi-mailbox-oracle" in calibrators.names()
    False
    >>> SimiMailboxOracle(n_groups=10)
    SimiMailboxOracle(n_groups=10)
    """

    name: ClassVar[str] = ORACLE
    needs: ClassVar[frozenset[str]] = frozenset({"graph"})
    reads_test_labels: ClassVar[bool] = True

    def __init__(
        self,
        *,
        n_groups: int = 15,
        lam: float = 50.0,
        scaling: Scaling = "min-max",
        seed: int = 0,
    ) -> None:
        self.n_groups = n_groups
        self.lam = lam
        self.scaling: Scaling = scaling
        self.seed = seed

    def _fit(self, data: CalibrationData) -> None:
        if data.holdout is None:
            raise ValueError("the oracle reads all labels: pass all other nodes as holdout_mask")
        points = _points(data)
        grouping = find_groups(points, self.n_groups, scaling=self.scaling, seed=self.seed)
        groups = torch.from_numpy(grouping.assign(points))
        number = len(grouping.centroids)
        curve = ConfidenceCurve(data.logits, groups, number)
        known = data.calibration
        ce = CrossEntropy(data.calibration_logits, known.y, groups[known.index], number)
        index = torch.cat([known.index, data.holdout.index])
        right = data.logits[index].argmax(dim=1) == torch.cat([known.y, data.holdout.y])
        accuracy = _group_means(right, groups[index], number)
        solution = fit_paper_loss(curve, ce, accuracy, self.lam, theta_bounds(data.logits))
        self.temperatures_ = solution.temperatures
        self.grouping_ = {
            "shift": grouping.shift,
            "scale": grouping.scale,
            "centroids": grouping.centroids,
        }

    def _temperatures(self, data: NodeInputs) -> Tensor:
        group = Grouping(**self.grouping_).assign(_points(data))
        return torch.from_numpy(self.temperatures_[group])


def _points(data: NodeInputs) -> npt.NDArray[np.float64]:
    similarity = mailbox(data.logits, data.neighbourhoods).to(torch.float64)
    return torch.stack([confidence(data.logits), similarity], dim=1).numpy()


def _group_means(right: Tensor, groups: Tensor, number: int) -> npt.NDArray[np.float64]:
    counts = torch.bincount(groups, minlength=number).double()
    hits = torch.bincount(groups, weights=right.double(), minlength=number)
    means: npt.NDArray[np.float64] = (hits / counts).numpy()  # NaN where nobody is labelled
    return means
