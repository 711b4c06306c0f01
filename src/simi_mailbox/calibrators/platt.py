"""Platt scaling: a scale and a bias of the log-odds."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes
from simi_mailbox.calibrators.parts.logistic import logistic, platt_targets
from simi_mailbox.validation import CalibrationData, NodeInputs


def log_probabilities(z: Tensor) -> tuple[Tensor, Tensor]:
    """log p and log(1 − p) of every class, [n, K] each, exact also where p is 1 (float64)."""
    log_p = z.double().log_softmax(dim=1)
    if z.shape[1] == 2:
        return log_p, log_p.flip(1)
    each = torch.eye(z.shape[1], dtype=torch.bool)
    others = [log_p.masked_fill(own, -torch.inf).logsumexp(dim=1) for own in each]
    return log_p, torch.stack(others, dim=1)


class OneVersusRest(Calibrator):
    """P(class) through a logistic regression on two logarithms, class by class.

    Of two classes both fits are the same one. Of more, each class is held against the rest, and the
    K results are divided by their sum: a heuristic, not a likelihood of all classes.

    Examples
    --------
    >>> issubclass(PlattScaling, OneVersusRest)
    True
    """

    optional_inputs: ClassVar[frozenset[str]] = frozenset({"sample_weight"})
    fitted: ClassVar[Shapes] = {"coefficients_": ("kept classes", 3)}

    coefficients_: Floats

    def _fit(self, data: CalibrationData) -> None:
        log_p, log_rest = (part.numpy() for part in log_probabilities(data.calibration_logits))
        labels, given = data.calibration.y.numpy(), data.calibration.weight
        weight = np.ones(len(labels)) if given is None else given.numpy()
        self.coefficients_ = np.stack(
            [
                self._of_class(log_p[:, k], log_rest[:, k], labels == k, weight)
                for k in range(log_p.shape[1])
            ]
        )

    def _of_class(self, log_p: Floats, log_rest: Floats, is_class: Bools, weight: Floats) -> Floats:
        """Coefficients of log p, of log(1 − p) and of one."""
        raise NotImplementedError

    def _predict(self, data: NodeInputs) -> Tensor:
        log_p, log_rest = log_probabilities(data.logits)
        a, b, c = torch.from_numpy(self.coefficients_).T
        found = torch.sigmoid(a * log_p + b * log_rest + c)
        return found / found.sum(dim=1, keepdim=True)

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        return 3 * num_classes


class PlattScaling(OneVersusRest):
    """P(class) becomes σ(a s + b), with s the log-odds of the class (Platt, 1999).

    The usual method for two classes in industry. a and b minimise the cross-entropy of the
    calibration nodes with Platt's targets, (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2); the problem is
    convex and solved exactly. Predicted classes may change. For more than two classes: one against
    the rest, divided by the sum, which vector scaling does better.

    Attributes
    ----------
    coefficients_ : array [classes, 3]
        Of log p, log(1 − p) and one: (a, −a, b).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> s = rng.normal(size=4000) * 3
    >>> y = (rng.random(4000) < 1 / (1 + np.exp(2 - s / 2))).astype(int)  # σ(s / 2 − 2)
    >>> cal = PlattScaling().fit(s, y, mask=np.arange(4000), input_type="binary-logits")
    >>> cal.coefficients_[1].round(1).tolist()
    [0.5, -0.5, -2.0]
    """

    name: ClassVar[str] = "platt"

    def _of_class(self, log_p: Floats, log_rest: Floats, is_class: Bools, weight: Floats) -> Floats:
        x = np.stack([log_p - log_rest, np.ones(len(log_p))], axis=1)
        a, b = logistic(x, platt_targets(is_class, weight), weight)
        return np.array([a, -a, b])
