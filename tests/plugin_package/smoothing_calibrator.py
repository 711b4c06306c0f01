"""A calibrator in a package of its own: blind guesses are mixed into the model's probabilities."""

from typing import ClassVar

from torch import Tensor

from simi_mailbox.calibrators import Calibrator
from simi_mailbox.parameters import Positive, hyperparameters
from simi_mailbox.validation import CalibrationData, NodeInputs


@hyperparameters
class Smoothing(Calibrator):
    """q_i = (1 − s) softmax(z_i) + s / K, s the share of calibration nodes that are wrong."""

    name: ClassVar[str] = "smoothing"
    keep_classes = True
    version: ClassVar[int] = 1

    strength: Positive = 1.0

    fitted: ClassVar[dict[str, tuple[str | int, ...]]] = {"share_": ()}

    def _fit(self, data: CalibrationData) -> None:
        known = data.calibration
        wrong = (data.logits[known.index].argmax(dim=1) != known.y).double().mean()
        self.share_ = float((self.strength * wrong).clamp(max=0.9))

    def _predict(self, data: NodeInputs) -> Tensor:
        return (1 - self.share_) * data.logits.softmax(dim=1) + self.share_ / data.num_classes
