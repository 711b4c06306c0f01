"""Temperature scaling: one temperature for all nodes."""

from __future__ import annotations

import warnings
from typing import ClassVar

import torch
from torch import Tensor

from simi_mailbox.calibrators.base import TemperatureCalibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs


class TemperatureScaling(TemperatureCalibrator):
    """softmax(z / T) with one T that minimises the cross-entropy of the calibration nodes.

    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017. The problem is convex in
    1/T and is solved exactly; the published GNN tables used Adam with early stopping instead,
    which changes their figures by less than their spread.

    Attributes
    ----------
    temperature_ : float

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(2000, 3)) * 3
    >>> y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)  # drawn from softmax(z / 2)
    >>> cal = TemperatureScaling().fit(logits, y, mask=np.arange(2000))
    >>> round(cal.temperature_, 1)
    2.0
    """

    name: ClassVar[str] = "temperature"
    optional_inputs: ClassVar[frozenset[str]] = frozenset({"sample_weight"})
    fitted: ClassVar[Shapes] = {"temperature_": ()}

    def _fit(self, data: CalibrationData) -> None:
        z, labelled = data.calibration_logits, data.calibration
        self.temperature_, at_bound = global_temperature(z, labelled.y, weight=labelled.weight)
        if at_bound:
            warnings.warn(bound_message(data, self.temperature_), CalibrationWarning, stacklevel=3)

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.full((data.num_nodes,), self.temperature_, dtype=torch.float64)


def bound_message(data: CalibrationData, temperature: float) -> str:
    """Why the likelihood has no inner optimum."""
    wrong = int((data.calibration_logits.argmax(dim=1) != data.calibration.y).sum())
    n = len(data.calibration)
    reason = (
        f"all {n} calibration nodes are predicted right, so certainty is likeliest"
        if wrong == 0
        else f"the labels of the {n} calibration nodes are likeliest under a uniform guess"
    )
    return (
        f"the temperature lies on its bound ({temperature:.3g}): {reason}; check the labels, "
        "or use more calibration nodes"
    )
