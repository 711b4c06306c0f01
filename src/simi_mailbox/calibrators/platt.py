"""Platt scaling and beta calibration: logistic regressions, class by class."""

from typing import ClassVar

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.calibrators.base import Calibrator, Shapes
from simi_mailbox.calibrators.parts.newton import newton
from simi_mailbox.validation import CalibrationData, NodeInputs


class OneVersusRest(Calibrator):
    """P(class) through a logistic regression on log p and log(1 − p), class by class.

    Targets are Platt's, (n₊ + 1) / (n₊ + 2) for nodes of the class and 1 / (n₋ + 2) for others:
    separable labels then have a finite fit. Of more than two classes each is held against the rest,
    and the K results are divided by their sum. Predicted classes may change.
    """

    optional_inputs = frozenset({"sample_weight"})
    fitted: ClassVar[Shapes] = {"coefficients_": ("kept classes", 3)}

    coefficients_: Floats

    def _fit(self, data: CalibrationData) -> None:
        log_p, log_rest = (part.numpy() for part in log_probabilities(data.calibration_logits))
        labels, given = data.calibration.y.numpy(), data.calibration.weight
        weight = np.ones(len(labels)) if given is None else given.numpy()
        found = []
        for k in range(log_p.shape[1]):
            is_class: Bools = labels == k
            positive = float(weight @ is_class)
            negative = float(weight.sum()) - positive
            target = np.where(is_class, (positive + 1) / (positive + 2), 1 / (negative + 2))
            found.append(self._of_class(log_p[:, k], log_rest[:, k], target, weight))
        self.coefficients_ = np.stack(found)

    def _of_class(self, log_p: Floats, log_rest: Floats, target: Floats, weight: Floats) -> Floats:
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

    a and b minimise the cross-entropy of the calibration nodes with Platt's targets, (n₊ + 1) /
    (n₊ + 2) and 1 / (n₋ + 2), exactly. More than two classes are each held against the rest.
    Predicted classes may change.

    Attributes
    ----------
    coefficients_ : array [classes, 3]
        Of log p, log(1 − p) and one: (a, −a, b).

    Examples
    --------
    >>> s, y = [-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1]
    >>> cal = PlattScaling().fit(s, y, mask=range(4), input_type="binary-logits")
    >>> cal.coefficients_[1].round(2).tolist()
    [0.2, -0.2, 0.0]
    """

    name = "platt"

    def _of_class(self, log_p: Floats, log_rest: Floats, target: Floats, weight: Floats) -> Floats:
        x = np.stack([log_p - log_rest, np.ones(len(log_p))], axis=1)
        a, b = logistic(x, target, weight)[0]
        return np.array([a, -a, b])


class BetaCalibration(OneVersusRest):
    """P(class) becomes σ(a log p − b log(1 − p) + c) with a, b ≥ 0 (Kull et al., AISTATS 2017).

    Platt scaling, if a = b. Platt's targets keep parameters finite where labels are separable
    (Kull's package uses 0 and 1). More than two classes are each held against the rest. Predicted
    classes may change.

    Attributes
    ----------
    coefficients_ : array [classes, 3]
        Of log p, log(1 − p) and one: (a, −b, c).

    Examples
    --------
    >>> p, y = [0.1, 0.3, 0.7, 0.9], [0, 1, 0, 1]
    >>> cal = BetaCalibration().fit(p, y, mask=range(4), input_type="binary-probabilities")
    >>> cal.coefficients_.shape
    (2, 3)
    """

    name = "beta"

    def _of_class(self, log_p: Floats, log_rest: Floats, target: Floats, weight: Floats) -> Floats:
        columns = np.stack([log_p, -log_rest, np.ones(len(log_p))], axis=1)
        best, lowest = np.zeros(3), np.inf
        # With the bounds a, b ≥ 0 the minimum is that of some of the columns alone.
        for kept in ([0, 1, 2], [0, 2], [1, 2], [2]):
            found = np.zeros(3)
            found[kept], loss = logistic(columns[:, kept], target, weight)
            if loss < lowest and found[:2].min() >= 0:
                best, lowest = found, loss
        return best * [1.0, -1.0, 1.0]


def log_probabilities(z: Tensor) -> tuple[Tensor, Tensor]:
    """log p and log(1 − p) of every class, [n, K] each, exact also where p is 1 (float64)."""
    log_p = z.double().log_softmax(dim=1)
    each = torch.eye(z.shape[1], dtype=torch.bool)
    others = [log_p.masked_fill(own, -torch.inf).logsumexp(dim=1) for own in each]
    return log_p, torch.stack(others, dim=1)


def logistic(x: Floats, target: Floats, weight: Floats) -> tuple[Floats, float]:
    """Coefficients of least weighted cross-entropy between σ(x b) and the targets, and that."""
    share = weight / weight.sum()

    def loss(b: Floats) -> tuple[float, Floats]:
        s = x @ b
        value = float(share @ (np.logaddexp(0.0, s) - target * s))
        return value, x.T @ (share * (expit(s) - target))

    def curvature(b: Floats) -> Floats:
        p = expit(x @ b)
        return np.asarray(x.T @ ((share * p * (1 - p))[:, None] * x))

    found = newton(loss, curvature, np.zeros(x.shape[1]), "the logistic regression")
    return found, loss(found)[0]
