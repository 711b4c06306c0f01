"""Dirichlet calibration."""

from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import block_diag
from scipy.special import log_softmax, softmax
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.base import Calibrator, Shapes
from simi_mailbox.calibrators.parts.newton import newton
from simi_mailbox.parameters import Positive, hyperparameters
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

DIAGONAL_PULL = 1e-6
"""Keeps the diagonal finite where labels do not: far below what any label says."""


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
    Convex, solved by L-BFGS, and by Newton's method where that gives up; in the GATS code Adam
    walks from W = identity and stops early. A pull of 10⁻⁶ of the diagonal of W towards 1/T of
    temperature scaling keeps it finite when all calibration nodes are right. Predicted classes may
    change.

    Examples
    --------
    >>> cal = Dirichlet().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4))
    >>> cal.predict_proba([[2.0, 0.0]]).round(2).tolist()
    [[0.75, 0.25]]
    """

    name = "dirichlet"
    fitted: ClassVar[Shapes] = {"weights_": ("classes", "classes"), "bias_": ("classes",)}

    penalty: Positive = 10.0
    intercept_penalty: Positive | None = None

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        return num_classes * (num_classes + 1)

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits, data.calibration.y
        x = torch.log_softmax(z.to(torch.float64), dim=1).numpy()
        intercept = self.penalty if self.intercept_penalty is None else self.intercept_penalty
        diagonal = 1 / global_temperature(z, y)[0]
        found = minimise_odir(x, y.numpy(), diagonal, self.penalty, intercept)
        self.weights_, self.bias_ = np.ascontiguousarray(found[:, :-1]), found[:, -1].copy()

    def _predict(self, data: NodeInputs) -> Tensor:
        x = torch.log_softmax(data.logits.to(torch.float64), dim=1)
        weights, bias = torch.from_numpy(self.weights_), torch.from_numpy(self.bias_)
        return torch.softmax(x @ weights.T + bias, dim=1)


def minimise_odir(
    x: Floats, y: Ints, diagonal: float, off_diagonal: float, intercept: float
) -> Floats:
    """[W, b] of least regularised cross-entropy, for log-probabilities ``x`` and labels ``y``."""
    from scipy.optimize import minimize

    (m, k), rows = x.shape, np.arange(len(y))
    inputs = np.column_stack([x, np.ones(m)])
    prior = np.eye(k, k + 1) * diagonal
    pull = np.full((k, k + 1), off_diagonal / (k * (k - 1)))  # half-weights of ((W, b) − prior)²
    np.fill_diagonal(pull, DIAGONAL_PULL / diagonal**2)
    pull[:, k] = intercept / k

    def loss(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(k, k + 1)
        log_q = log_softmax(inputs @ theta.T, axis=1)
        residual = np.exp(log_q)
        residual[rows, y] -= 1
        away = theta - prior
        value = -log_q[rows, y].mean() + (pull * away**2).sum()
        return float(value), (residual.T @ inputs / m + 2 * pull * away).ravel()

    def curvature(flat: Floats) -> Floats:
        q = softmax(inputs @ flat.reshape(k, k + 1).T, axis=1)
        spread = (q[:, :, None] * inputs[:, None, :]).reshape(m, -1)
        own = block_diag(*(inputs.T @ (share[:, None] * inputs) for share in q.T))
        return np.asarray(np.diag(2 * pull.ravel()) + (own - spread.T @ spread) / m)

    # In units of every number's own curvature, so that no direction is much steeper than another.
    scale = np.sqrt((inputs**2).mean(axis=0) / k + 2 * pull).ravel()

    def scaled(flat: Floats) -> tuple[float, Floats]:
        value, gradient = loss(flat / scale)
        return value, gradient / scale

    limits = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    start = prior.ravel() * scale
    found = minimize(scaled, start, jac=True, method="L-BFGS-B", options=limits)
    theta = found.x / scale
    if not found.success:
        # Logits orders of magnitude apart make a narrow bent valley, in which first-order steps
        # stay tiny; second derivatives lead out of it.
        theta = newton(loss, curvature, theta, "Dirichlet calibration")
    return np.asarray(theta.reshape(k, k + 1))
