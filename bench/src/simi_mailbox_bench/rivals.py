"""Methods of probmetrics, called from the installed package, beside ours on the same labels.

They know of no graph, and are what a user with few labels would pick instead. Nothing of them is
in the registry and nothing is copied: the bench installs it.
"""

import warnings
from typing import Any, ClassVar

import torch
from torch import Tensor

from simi_mailbox._extras import require
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.validation import CalibrationData, NodeInputs


class Rival(Calibrator):
    """A calibrator of probmetrics with that package's defaults, under its name there."""

    rival_: Any

    def _fit(self, data: CalibrationData) -> None:
        factory = require("probmetrics.calibrators.factory", extra="rivals")
        config = {f"{self.name}_print_init_info": False}
        self.rival_ = factory.get_calibrator(self.name, **config)
        with warnings.catch_warnings():  # of its optimiser; the metrics judge
            warnings.simplefilter("ignore")
            self.rival_.fit_torch(_logits(data.calibration_logits), data.calibration.y)

    def _predict(self, data: NodeInputs) -> Tensor:
        probs: Tensor = self.rival_.predict_proba_torch(_logits(data.logits)).get_probs()
        return probs


class TemperatureMixture(Rival):
    """One temperature, and a share 1 / (labels + 1) of the uniform distribution."""

    name: ClassVar[str] = "ts-mix"


class StructuredVectorScaling(Rival):
    """Vector scaling, shrunk toward one temperature."""

    name: ClassVar[str] = "svs"


class StructuredMatrixScaling(Rival):
    """Matrix scaling, shrunk toward one temperature."""

    name: ClassVar[str] = "sms"


RIVALS: dict[str, type[Rival]] = {
    cls.name: cls for cls in (TemperatureMixture, StructuredVectorScaling, StructuredMatrixScaling)
}


def _logits(z: Tensor) -> Any:
    """Probabilities, as its documentation passes them, by their logarithms: no zero is rounded."""
    distributions = require("probmetrics.distributions", extra="rivals")
    return distributions.CategoricalLogits(z.to(torch.float64).log_softmax(dim=1))
