"""Ratio-binned scaling (RBS)."""

from typing import ClassVar

import torch
from torch import Tensor

from simi_mailbox.calibrators.base import Shapes, TemperatureCalibrator
from simi_mailbox.mailbox import support
from simi_mailbox.parameters import Count, hyperparameters
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.temperature import group_temperatures
from simi_mailbox.validation import CalibrationData, NodeInputs


@hyperparameters
class RatioBinnedScaling(TemperatureCalibrator):
    """One temperature for each range of how much the neighbours support the prediction.

        s_i = mean over neighbours j of p_j[ŷ_i]        (1 for nodes without neighbours)
        q_i = softmax(z_i / T_b(i)),   b(i) the bin of s_i among ``bins`` equal ones on [0, 1]

    (RBS; Liu et al., IJCNN 2022.) Each T_b minimises the cross-entropy of the calibration nodes of
    its bin. The closest ancestor of Simi-Mailbox, which adds the confidence as a second coordinate.

    Parameters
    ----------
    bins : int
        The authors use 2 to 4, chosen for each graph and model.

    Attributes
    ----------
    temperatures_ : float64 array [bins]

    Notes
    -----
    Bins are (l, u]. Differs from the released code in the exact solver instead of BFGS, and in bins
    whose optimum does not exist (no node, or all right): they take the common temperature.

    Examples
    --------
    >>> given = {"graph": [[0, 2], [1, 3]], "mask": range(4)}
    >>> RatioBinnedScaling().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], **given).temperatures_.round(2)
    array([1.82, 1.82, 1.82])
    """

    name = "ratio-binned"
    fitted: ClassVar[Shapes] = {"temperatures_": ("bins",)}
    required_inputs = frozenset({"graph"})

    bins: Count = 3

    def _fit(self, data: CalibrationData) -> None:
        z, nodes = data.calibration_logits, data.calibration
        bins = self._bin(data)[nodes.index]
        self.temperatures_ = group_temperatures(z, nodes.y, bins, self.bins)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.from_numpy(self.temperatures_)[self._bin(data)]

    def _bin(self, data: NodeInputs) -> Tensor:
        edges = torch.arange(1, self.bins, dtype=torch.float64) / self.bins
        return torch.bucketize(mean_support(data), edges)


def mean_support(data: NodeInputs) -> Tensor:
    """s_i of `RatioBinnedScaling`, in float64."""
    graph = data.neighbourhoods
    probs = scaled_softmax(data.logits)
    total = support(probs, data.logits.argmax(dim=1), graph).to(torch.float64)
    return torch.where(graph.degree > 0, total / graph.degree.clamp(min=1), 1.0)
