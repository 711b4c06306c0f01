"""What the calibrators that learn a network share."""

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn

from simi_mailbox.calibrators.base import Calibrator, Holdout, TemperatureCalibrator
from simi_mailbox.calibrators.parts.training import restore, scaled_nll, stopping_split, train
from simi_mailbox.parameters import Count, NonNegative, Positive, Whole, hyperparameters
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs

SMALLEST_INVERSE = 1e-6
SCHEDULE = ("lr", "weight_decay", "epochs", "patience", "seed")


@hyperparameters
class NetworkCalibrator(Calibrator):
    """Trains the network that `_network` makes, by the rules of `parts.training`.

    Parameters
    ----------
    lr, weight_decay : float
        Learning rate and weight decay of Adam.
    epochs, patience : int
        Most epochs to train, and epochs without a better likelihood of the hold-out to stop after.
    seed : int
        Of the first weights, of dropout, and of the split where there is no hold-out.

    Attributes
    ----------
    weights_ : dict of Tensor
    epochs_, best_epoch_ : int
        Epochs trained, and the epoch whose weights were kept.
    """

    holdout: ClassVar[Holdout] = "training"

    lr: Positive = 0.01
    weight_decay: NonNegative = 5e-3
    epochs: Count = 2000
    patience: Count = 100
    seed: Whole = 0

    @abstractmethod
    def _network(self, data: NodeInputs) -> nn.Module:
        """The network for these nodes, with new weights."""

    def _train(
        self,
        data: CalibrationData,
        nodes: tuple[Labelled, Labelled | None] | None = None,
        **how: Any,
    ) -> None:
        """Fit the network; ``how`` is passed on to `parts.training.train`."""
        schedule: dict[str, Any] = {key: getattr(self, key) for key in SCHEDULE}
        # Dropout and noise are drawn in every epoch: the hold-out needs a forward pass without.
        noisy = any(getattr(self, word, 0) > 0 for word in ("dropout", "noise"))
        fit_on, stop_on = nodes or stopping_split(data, self.seed)
        network, self.epochs_, self.best_epoch_ = train(
            lambda: self._built(data), fit_on, stop_on, noisy=noisy, **schedule, **how
        )
        self.weights_: dict[str, Tensor] = network.state_dict()

    def _trained(self, data: NodeInputs) -> Any:
        """The network for these nodes, with the fitted weights."""
        return restore(lambda: self._built(data), self.weights_)

    def _built(self, data: NodeInputs) -> nn.Module:
        return self._network(data).to(data.logits.dtype)


@hyperparameters
class NetworkTemperatures(NetworkCalibrator, TemperatureCalibrator):
    """A network whose output is an inverse temperature for every node."""

    def _fit(self, data: CalibrationData) -> None:
        self._train(data, likelihood=scaled_nll(data.logits))

    def _temperatures(self, data: NodeInputs) -> Tensor:
        inverse: Tensor = self._trained(data)(None)
        return inverse.clamp_min_(SMALLEST_INVERSE).reciprocal_()
