"""Logistic regressions on the logits: Platt, beta, vector scaling and Dirichlet calibration."""

import warnings
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_softmax
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.base import Calibrator, Shapes
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Positive, hyperparameters
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

Loss = Callable[[Floats], tuple[float, Floats]]
Curvature = Callable[[Floats], Floats]

DIAGONAL_PULL = 1e-6
# Of Newton's method: most steps, what keeps the curvature positive definite, and by how much a mean
# loss can still fall without a warning.
STEPS, RIDGE, UNSETTLED = 200, 1e-12, 1e-7
LARGEST = 3000  # numbers to find, beyond which their second derivatives take too much memory


class OneVersusRest(Calibrator):
    """P(class) through a logistic regression on log p and log(1 − p), class by class."""

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
    (n₊ + 2) and 1 / (n₋ + 2): separable labels have a finite fit. More than two classes are each
    held against the rest, and divided by their sum. Predicted classes may change.

    Attributes
    ----------
    coefficients_ : array [classes, 3]
        Of log p, log(1 − p) and one: (a, −a, b).

    Examples
    --------
    >>> given = {"mask": range(4), "input_type": "binary-logits"}
    >>> PlattScaling().fit([-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1], **given).coefficients_[1].round(2)
    array([ 0.2, -0.2,  0. ])
    """

    name = "platt"

    def _of_class(self, log_p: Floats, log_rest: Floats, target: Floats, weight: Floats) -> Floats:
        x = np.stack([log_p - log_rest, np.ones(len(log_p))], axis=1)
        a, b = logistic(x, target, weight)[0]
        return np.array([a, -a, b])


class BetaCalibration(OneVersusRest):
    """P(class) becomes σ(a log p − b log(1 − p) + c) with a, b ≥ 0 (Kull et al., AISTATS 2017).

    `PlattScaling`, if a = b, with the same targets (Kull: 0 and 1). Predicted classes may change.

    Attributes
    ----------
    coefficients_ : array [classes, 3]
        Of log p, log(1 − p) and one: (a, −b, c).

    Examples
    --------
    >>> given = {"mask": range(4), "input_type": "binary-probabilities"}
    >>> BetaCalibration().fit([0.1, 0.3, 0.7, 0.9], [0, 1, 0, 1], **given).coefficients_.shape
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


@hyperparameters
class VectorScaling(Calibrator):
    """Class-wise scaling of the logits: q_i = softmax(w ⊙ z_i + b) (Guo et al., ICML 2017).

    w and b minimise, over the m calibration nodes,

        mean CE + penalty / (2m) · ( ‖T w − 1‖² + ‖b‖² ),

    with the T of temperature scaling, exactly by Newton's method. Predicted classes may change.

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
    Differs from the GATS code in the penalty, and in the exact solution instead of Adam from w = 1.

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
        z, y = data.calibration_logits.to(torch.float64), data.calibration.y
        temperature, k = global_temperature(z, y)[0], z.shape[1]
        rows, columns = np.tile(np.arange(k), 2), np.repeat([0, k], k)
        columns[:k] += rows[:k]  # the diagonal, then the last column
        free = slice(2 * k if self.bias else k)
        prior, pull = np.repeat([1.0, 0.0], k)[free], np.full(2 * k, self.penalty / 2 / len(y))
        given = z.numpy() / temperature, y.numpy(), rows[free], columns[free], prior, pull[free]
        found = newton(*softmax_regression(*given), prior, "vector scaling")
        self.scales_ = found[:k] / temperature
        self.bias_ = found[k:] if self.bias else np.zeros(k)

    def _predict(self, data: NodeInputs) -> Tensor:
        scales, bias = torch.from_numpy(self.scales_), torch.from_numpy(self.bias_)
        return torch.softmax(data.logits * scales + bias, dim=1)


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
    weights_, bias_ : float64 arrays [K, K], [K]

    Notes
    -----
    Convex, solved by L-BFGS, and by Newton's method where that gives up (GATS code: Adam, stopped
    early). A pull of 10⁻⁶ of the diagonal of W towards 1/T of temperature scaling keeps it finite
    when all calibration nodes are right. Predicted classes may change.

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


def minimise_odir(
    x: Floats, y: Ints, diagonal: float, off_diagonal: float, intercept: float
) -> Floats:
    """[W, b] of least regularised cross-entropy, for log-probabilities ``x`` and labels ``y``."""
    from scipy.optimize import minimize

    k = x.shape[1]
    prior = np.eye(k, k + 1) * diagonal
    pull = np.full((k, k + 1), off_diagonal / (k * (k - 1)))
    np.fill_diagonal(pull, DIAGONAL_PULL / diagonal**2)
    pull[:, k] = intercept / k
    rows, columns = (places.ravel() for places in np.indices((k, k + 1)))
    loss, curvature = softmax_regression(x, y, rows, columns, prior.ravel(), pull.ravel())
    # In units of every number's own curvature, so that no direction is much steeper than another.
    scale = np.sqrt(np.append((x**2).mean(axis=0), 1.0) / k + 2 * pull).ravel()

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


def softmax_regression(
    x: Floats, y: Ints, rows: Ints, columns: Ints, prior: Floats, pull: Floats
) -> tuple[Loss, Curvature]:
    """Mean cross-entropy of softmax(W [x, 1]) plus Σ pull · (free − prior)²: loss and curvature by
    the ``free`` entries of W, at (``rows``, ``columns``); the others are zero."""
    (m, k), each = x.shape, np.arange(len(y))
    inputs = np.column_stack([x, np.ones(m)])

    def log_probabilities(free: Floats) -> Floats:
        w = np.zeros((k, k + 1))
        w[rows, columns] = free
        return np.asarray(log_softmax(inputs @ w.T, axis=1))

    def loss(free: Floats) -> tuple[float, Floats]:
        log_q, away = log_probabilities(free), free - prior
        residual = np.exp(log_q)
        residual[each, y] -= 1
        slopes = (residual.T @ inputs / m)[rows, columns] + 2 * pull * away
        return float(-log_q[each, y].mean() + pull @ away**2), slopes

    def curvature(free: Floats) -> Floats:
        seen = inputs[:, columns]
        spread = np.exp(log_probabilities(free))[:, rows] * seen
        own = (rows[:, None] == rows) * (spread.T @ seen)
        return np.asarray(np.diag(2 * pull) + (own - spread.T @ spread) / m)

    return loss, curvature


def newton(loss: Loss, curvature: Curvature, start: Floats, what: str) -> Floats:
    """Where ``loss`` (value and gradient) is least, by damped Newton steps."""
    at, left = start, np.inf
    value, gradient = loss(at)
    for _ in range(STEPS if start.size <= LARGEST else 0):
        matrix = curvature(at)
        unit = np.sqrt(matrix.diagonal())
        unit[unit == 0] = 1.0
        scaled = matrix / np.outer(unit, unit) + RIDGE * np.eye(len(unit))
        try:
            step = cho_solve(cho_factor(scaled), gradient / unit) / unit
        except np.linalg.LinAlgError:  # flat within rounding: nowhere to go
            break
        left, size = float(gradient @ step) / 2, 1.0
        enough = value + 1e-15 * abs(value)
        while (there := loss(at - size * step))[0] > enough - 1e-4 * size * left and size > 1e-10:
            size /= 2
        if size <= 1e-10:  # the decrease is below rounding: this is the minimum
            break
        at, (value, gradient) = at - size * step, there
        if left < 1e-15 * max(abs(value), 1e-14):
            break
    if left > UNSETTLED:
        warnings.warn(
            f"{what} did not settle: the loss could still fall by about {left:.2g}; a larger "
            "penalty, or smaller logits, make the problem easier",
            CalibrationWarning,
            stacklevel=5,
        )
    return at
