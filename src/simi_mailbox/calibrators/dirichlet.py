"""Dirichlet calibration."""

import warnings
from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Positive, hyperparameters
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

DIAGONAL_PULL = 1e-6
"""Keeps the diagonal finite where labels do not: far below what any label says."""
NEWTON_STEPS = 100
LARGEST_NEWTON = 3000
"""Numbers to find, beyond which their second derivatives take too much memory."""
SMALLEST_STEP = 1e-6
SETTLED = 1e-15
UNSETTLED = 1e-7
"""By how much the loss can still fall: done, and worth a word."""


@hyperparameters
class Dirichlet(Calibrator):
    """Linear on log-probabilities: q_i = softmax(W log p_i + b) (Kull et al., NeurIPS 2019).

    W [K, K] and b [K] minimise, over the calibration nodes, the mean cross-entropy plus ODIR, the
    off-diagonal and intercept regularisation

        penalty · Σ_{j≠k} W_jk² / (K (K − 1))  +  intercept_penalty · Σ_k b_k² / K.

    Parameters
    ----------
    penalty : float
        ODIR's λ.
    intercept_penalty : float, optional
        ODIR's μ; equal to ``penalty`` if not given, as in the GATS code.

    Attributes
    ----------
    weights_ : float64 array [K, K]
    bias_ : float64 array [K]

    Notes
    -----
    Convex, solved by L-BFGS with the exact gradient until nothing moves. Differs from the GATS code
    in that: there, Adam walks from W = identity and stops early, by outputs computed before the
    step it judges. A pull of 10⁻⁶ of the diagonal of W towards 1/T of temperature scaling keeps it
    finite when all calibration nodes are right. ``early_stopping_mask`` is not used. Predicted
    classes may change.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(2000, 3)) * 2
    >>> p = torch.softmax(torch.from_numpy(z / 2), dim=1)  # overconfident by a factor of two
    >>> y = (p.cumsum(1) < torch.from_numpy(rng.random((2000, 1)))).sum(1)
    >>> cal = Dirichlet().fit(z, y, mask=np.arange(2000))
    >>> cal.weights_.diagonal().round(1)
    array([0.5, 0.5, 0.5])
    """

    name: ClassVar[str] = "dirichlet"
    fitted: ClassVar[Shapes] = {"weights_": ("classes", "classes"), "bias_": ("classes",)}

    penalty: Positive = 10.0
    intercept_penalty: Positive | None = None

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        return num_classes * (num_classes + 1)

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits, data.calibration.y
        temperature = global_temperature(z, y)[0]
        x = torch.log_softmax(z.to(torch.float64), dim=1).numpy()
        intercept = self.penalty if self.intercept_penalty is None else self.intercept_penalty
        self.weights_, self.bias_ = minimise_odir(
            x, y.numpy(), 1 / temperature, self.penalty, intercept
        )

    def _predict(self, data: NodeInputs) -> Tensor:
        x = torch.log_softmax(data.logits.to(torch.float64), dim=1)
        return torch.softmax(
            x @ torch.from_numpy(self.weights_).T + torch.from_numpy(self.bias_), dim=1
        )


def minimise_odir(
    x: Floats, y: Ints, diagonal: float, off_diagonal: float, intercept: float
) -> tuple[Floats, Floats]:
    """W and b of least regularised cross-entropy, for log-probabilities ``x`` and labels ``y``."""
    from scipy.optimize import minimize

    m, k = x.shape
    prior = np.zeros((k, k + 1))
    np.fill_diagonal(prior, diagonal)
    # Half-weights of ((W, b) − prior)².
    pull = np.full((k, k + 1), off_diagonal / (k * (k - 1)))
    np.fill_diagonal(pull, DIAGONAL_PULL / diagonal**2)
    pull[:, k] = intercept / k
    inputs = np.column_stack([x, np.ones(m)])
    # In units of every number's own curvature, so that no direction is much steeper than another.
    scale = np.sqrt((inputs**2).mean(axis=0) / k + 2 * pull)
    rows = np.arange(m)

    def loss(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(k, k + 1) / scale
        log_q = log_softmax(inputs @ theta.T, axis=1)
        residual = np.exp(log_q)
        residual[rows, y] -= 1
        away = theta - prior
        value = -log_q[rows, y].mean() + float((pull * away**2).sum())
        gradient = residual.T @ inputs / m + 2 * pull * away
        return float(value), (gradient / scale).ravel()

    found = minimize(
        loss,
        (prior * scale).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
    )
    theta = found.x.reshape(k, k + 1) / scale
    if not found.success:
        theta, left = finish(theta, inputs, y, pull, prior)
        if left > UNSETTLED:
            warnings.warn(
                f"Dirichlet calibration did not settle: the loss could still fall by about "
                f"{left:.2g}; a larger penalty makes the problem easier",
                CalibrationWarning,
                stacklevel=5,
            )
    return np.ascontiguousarray(theta[:, :k]), np.ascontiguousarray(theta[:, k])


def finish(
    theta: Floats, inputs: Floats, y: Ints, pull: Floats, prior: Floats
) -> tuple[Floats, float]:
    """Newton's steps from where L-BFGS stopped, and by how much the loss could still fall.

    Over logits that are orders of magnitude apart the loss is a narrow bent valley, in which
    first-order steps stay tiny. All second derivatives lead out of it in a few steps.
    """
    (k, width), m = theta.shape, len(y)
    rows = np.arange(m)

    def value(at: Floats) -> float:
        fit = -log_softmax(inputs @ at.T, axis=1)[rows, y].mean()
        return float(fit + (pull * (at - prior) ** 2).sum())

    if theta.size > LARGEST_NEWTON:
        return theta, np.inf
    now, left = value(theta), np.inf
    for _ in range(NEWTON_STEPS):
        q = np.exp(log_softmax(inputs @ theta.T, axis=1))
        residual = q.copy()
        residual[rows, y] -= 1
        gradient = (residual.T @ inputs / m + 2 * pull * (theta - prior)).ravel()
        spread = (q[:, :, None] * inputs[:, None, :]).reshape(m, -1)
        curvature = np.diag(2 * pull.ravel()) - spread.T @ spread / m
        for c in range(k):
            block = slice(c * width, (c + 1) * width)
            curvature[block, block] += inputs.T @ (q[:, c : c + 1] * inputs) / m
        unit = np.sqrt(curvature.diagonal())
        try:
            step = cho_solve(cho_factor(curvature / np.outer(unit, unit)), gradient / unit) / unit
        except np.linalg.LinAlgError:  # flat within rounding: nowhere to go
            break
        left = float(gradient @ step) / 2
        size = 1.0
        while size > SMALLEST_STEP:
            there = theta - size * step.reshape(theta.shape)
            then = value(there)
            if then <= now - 1e-4 * size * left + 1e-15 * abs(now):
                break
            size /= 2
        else:
            break
        theta, now = there, then
        if left < SETTLED:
            break
    return theta, left
