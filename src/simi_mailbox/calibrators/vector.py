"""Vector scaling: a scale and a bias for every class."""

from typing import ClassVar

import torch
from torch import Tensor

from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes
from simi_mailbox.exceptions import SolverError
from simi_mailbox.parameters import Positive, hyperparameters
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

MAX_STEPS = 200


@hyperparameters
class VectorScaling(Calibrator):
    """Class-wise scaling of the logits: q_i = softmax(w ⊙ z_i + b) (Guo et al., ICML 2017).

    w and b minimise, over the m calibration nodes,

        mean CE + penalty / (2m) · ( ‖T w − 1‖² + ‖b‖² ),

    where T is the temperature of plain temperature scaling: without evidence, a class keeps the
    common temperature and no bias. The problem is convex and is solved exactly by Newton's method.

    Parameters
    ----------
    bias : bool
        Whether to learn b. The tables of GATS and of every work built on its code come from a
        vector scaling *without* bias: its optimiser is handed only w, and the bias stays constant.
        ``bias=False`` is that variant.
    penalty : float
        Strength of the pull towards temperature scaling, positive. Without it, a class that no
        calibration node has gets a bias of minus infinity.

    Attributes
    ----------
    scales_, bias_ : float64 arrays [K]

    Notes
    -----
    Differs from the GATS code in the penalty and in the exact solution; there, Adam (learning rate
    0.01) walks from w = 1 and stops early on the GNN's training nodes. ``early_stopping_mask`` is
    not used. Predicted classes may change.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(4000, 3))
    >>> p = torch.softmax(torch.from_numpy(z * [1.0, 2.0, 3.0]), dim=1)
    >>> y = (p.cumsum(1) < torch.from_numpy(rng.random((4000, 1)))).sum(1)
    >>> cal = VectorScaling(bias=False).fit(z, y, mask=np.arange(4000))
    >>> cal.scales_.round()
    array([1., 2., 3.])
    """

    name: ClassVar[str] = "vector"
    shift_invariant: ClassVar[bool] = False
    fitted: ClassVar[Shapes] = {"scales_": ("classes",), "bias_": ("classes",)}

    bias: bool = True
    penalty: Positive = 1.0

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits.to(torch.float64), data.calibration.y
        temperature = global_temperature(z, y)[0]
        scales, bias = newton(z / temperature, y, self.penalty, self.bias)
        self.scales_ = (scales / temperature).numpy()
        self.bias_ = bias.numpy()

    def _predict(self, data: NodeInputs) -> Tensor:
        scales, bias = torch.from_numpy(self.scales_), torch.from_numpy(self.bias_)
        return torch.softmax(data.logits * scales + bias, dim=1)


def newton(x: Tensor, y: Tensor, penalty: float, bias: bool) -> tuple[Tensor, Tensor]:
    """Scales and bias of least penalised cross-entropy, by Newton's method with backtracking."""
    m, k = x.shape
    rate = penalty / m
    prior = torch.cat([torch.ones(k), torch.zeros(k)]).to(x.dtype)
    active = slice(0, 2 * k if bias else k)
    theta = prior.clone()

    def loss(at: Tensor) -> tuple[Tensor, Tensor]:
        log_q = torch.log_softmax(x * at[:k] + at[k:], dim=1)
        data_term = -log_q.gather(1, y[:, None]).mean()
        return data_term + rate / 2 * (at - prior).square().sum(), log_q

    value, log_q = loss(theta)
    for _ in range(MAX_STEPS):
        q = log_q.exp()
        residual = q.clone()
        residual[torch.arange(m), y] -= 1
        gradient = torch.cat([(residual * x).mean(0), residual.mean(0)]) + rate * (theta - prior)
        step = torch.zeros_like(theta)
        curvature = _hessian(x, q)
        # Of huge logits the penalty is below rounding, and without it the matrix is singular.
        curvature.diagonal().add_(max(rate, 1e-14 * float(curvature.diagonal().max())))
        step[active] = torch.linalg.solve(curvature[active, active], gradient[active])
        decrease = float(gradient @ step)
        if decrease <= 1e-28 or decrease <= 1e-15 * float(value):
            return theta[:k], theta[k:]
        length = 1.0
        while True:
            new_value, new_log_q = loss(theta - length * step)
            if new_value <= value - 1e-4 * length * decrease:
                break
            if length < 1e-10:  # the decrease is below rounding: this is the minimum
                return theta[:k], theta[k:]
            length /= 2
        theta, value, log_q = theta - length * step, new_value, new_log_q
    raise SolverError(f"vector scaling did not settle in {MAX_STEPS} Newton steps")


def _hessian(x: Tensor, q: Tensor) -> Tensor:
    """Second derivative of the mean cross-entropy by (scales, bias)."""
    moved = q * x
    both = torch.cat([moved, q], dim=1)
    k = x.shape[1]
    hessian = -(both.T @ both)
    hessian.diagonal()[:k] += (moved * x).sum(0)
    hessian.diagonal()[k:] += q.sum(0)
    hessian.diagonal(offset=k)[:] += moved.sum(0)
    hessian.diagonal(offset=-k)[:] += moved.sum(0)
    return hessian / len(x)
