"""The model's own probabilities, as a calibrator, so that tables need no special case."""

from typing import ClassVar

from torch import Tensor

from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.validation import CalibrationData, NodeInputs


class Uncalibrated(Calibrator):
    """softmax(z), whatever the labels say.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.zeros((3, 2))
    >>> Uncalibrated().fit(logits, [0, 1, 1], mask=[0]).predict_proba(logits)[0]
    array([0.5, 0.5])
    """

    name: ClassVar[str] = "uncalibrated"
    keep_classes = True

    def _fit(self, data: CalibrationData) -> None:
        pass

    def _predict(self, data: NodeInputs) -> Tensor:
        return scaled_softmax(data.logits)
