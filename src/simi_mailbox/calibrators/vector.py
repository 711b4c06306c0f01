"""Vector scaling: a scale and a bias for every class."""

from typing import ClassVar

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.base import Calibrator, Shapes
from simi_mailbox.calibrators.parts.newton import newton
from simi_mailbox.parameters import Positive, hyperparameters
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs


@hyperparameters
class VectorScaling(Calibrator):
    """Class-wise scaling of the logits: q_i = softmax(w ⊙ z_i + b) (Guo et al., ICML 2017).

    w and b minimise, over the m calibration nodes,

        mean CE + penalty / (2m) · ( ‖T w − 1‖² + ‖b‖² ),

    where T is that of temperature scaling. Convex, solved exactly by Newton's method. Predicted
    classes may change.

    Parameters
    ----------
    bias : bool
        Whether to learn b. The tables of GATS and of work built on its code come from
        ``bias=False``: its optimiser is handed only w.
    penalty : float
        Strength of the pull towards temperature scaling, positive. Without it, a class that no
        calibration node has gets a bias of minus infinity.

    Attributes
    ----------
    scales_, bias_ : float64 arrays [K]

    Notes
    -----
    Differs from the GATS code in the penalty and in the exact solution; there, Adam (learning rate
    0.01) walks from w = 1 and stops early on training nodes.

    Examples
    --------
    >>> cal = VectorScaling(bias=False).fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4))
    >>> cal.predict_proba([[2.0, 0.0]]).round(2).tolist()
    [[0.75, 0.25]]
    """

    name = "vector"
    shift_invariant = False
    fitted: ClassVar[Shapes] = {"scales_": ("classes",), "bias_": ("classes",)}

    bias: bool = True
    penalty: Positive = 1.0

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits.to(torch.float64), data.calibration.y.numpy()
        temperature = global_temperature(z, data.calibration.y)[0]
        x = z.numpy() / temperature
        (m, k), rows = x.shape, np.arange(len(y))
        rate, prior = self.penalty / m, np.repeat([1.0, 0.0], k)[: 2 * k if self.bias else k]
        free = len(prior)

        def scores(theta: Floats) -> Floats:
            return x * theta[:k] + (theta[k:] if self.bias else 0.0)

        def loss(theta: Floats) -> tuple[float, Floats]:
            log_q = log_softmax(scores(theta), axis=1)
            residual = np.exp(log_q)
            residual[rows, y] -= 1
            away = theta - prior
            slopes = np.concatenate([(residual * x).mean(axis=0), residual.mean(axis=0)])
            value = -log_q[rows, y].mean() + rate / 2 * (away @ away)
            return float(value), slopes[:free] + rate * away

        def curvature(theta: Floats) -> Floats:
            q = softmax(scores(theta), axis=1)
            both = np.concatenate([q * x, q], axis=1)
            mixed = np.diag((q * x).sum(axis=0))
            own = np.block([[np.diag((q * x * x).sum(axis=0)), mixed], [mixed, np.diag(q.sum(0))]])
            return np.asarray((own - both.T @ both)[:free, :free] / m + rate * np.eye(free))

        found = newton(loss, curvature, prior, "vector scaling")
        self.scales_ = found[:k] / temperature
        self.bias_ = found[k:] if self.bias else np.zeros(k)

    def _predict(self, data: NodeInputs) -> Tensor:
        scales, bias = torch.from_numpy(self.scales_), torch.from_numpy(self.bias_)
        return torch.softmax(data.logits * scales + bias, dim=1)
