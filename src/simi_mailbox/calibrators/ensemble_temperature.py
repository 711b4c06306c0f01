"""Ensemble temperature scaling (ETS)."""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.calibrators.parts.fitted_values import Shapes, check_within
from simi_mailbox.exceptions import CalibrationWarning, SolverError
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

STEPS = 10_000
UNSETTLED = 1e-5
"""What the loss can still fall by, at most, before a word is said of it."""


class EnsembleTemperatureScaling(Calibrator):
    """A mixture of temperature scaling, the model itself and knowing nothing.

        q_i = w₁ softmax(z_i / T) + w₂ softmax(z_i) + w₃ / K,   w ≥ 0,  w₁ + w₂ + w₃ = 1

    (ETS; Zhang et al., ICML 2020). T minimises the cross-entropy (CE) of the calibration nodes,
    then w minimises it with T fixed. Both problems are convex; the first is solved exactly, the
    second by SLSQP.

    Attributes
    ----------
    temperature_ : float
    weights_ : float64 array [3]
        w₁, w₂, w₃.

    Notes
    -----
    The loss is CE in both stages, as in the GATS code; Mix-n-Match's default is the squared error.
    Differs from both in the exact T, which is not stopped early on other nodes, in starting SLSQP
    from equal weights with the exact gradient (at w = (1, 0, 0) the loss can be infinite), and in
    subtracting the largest logit before exponentials, which overflow otherwise. All three terms
    have the same predicted class, so accuracy is preserved. ``early_stopping_mask`` is not used.

    Examples
    --------
    >>> logits = np.array([[9.0, 0.0, 0.0]] * 10)  # certain, and right 8 times of 10
    >>> y = np.array([0] * 8 + [1, 2])
    >>> cal = EnsembleTemperatureScaling().fit(logits, y, mask=np.arange(10))
    >>> cal.predict_proba(logits)[0].round(3).tolist()
    [0.8, 0.1, 0.1]
    """

    name: ClassVar[str] = "ensemble-temperature"
    fitted: ClassVar[Shapes] = {"temperature_": (), "weights_": (3,)}
    keep_classes = True

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits, data.calibration.y
        self.temperature_ = global_temperature(z, y)[0]
        self.weights_ = ensemble_weights(z, y, self.temperature_)

    def _check_state(self) -> None:
        check_within("weights_", self.weights_, 0.0, 1.0)
        check_within("the sum of weights_", self.weights_.sum(), 1 - 1e-6, 1 + 1e-6)

    def _predict(self, data: NodeInputs) -> Tensor:
        return ensemble_softmax(data.logits, self.temperature_, self.weights_)


def ensemble_softmax(logits: Tensor, temperature: float, weights: Floats) -> Tensor:
    """w₁ softmax(z / T) + w₂ softmax(z) + w₃ / K."""
    first, second, third = (float(weight) for weight in weights)
    probs = scaled_softmax(logits, temperature).mul_(first)
    probs += scaled_softmax(logits).mul_(second)
    return probs.add_(third / logits.shape[1])


def ensemble_weights(logits: Tensor, y: Tensor, temperature: float) -> Floats:
    """Weights of least cross-entropy on the given labelled nodes, for a fixed temperature."""
    from scipy.optimize import LinearConstraint, minimize

    z, column = logits.to(torch.float64), y[:, None]
    uniform = torch.full((len(y),), 1 / z.shape[1], dtype=torch.float64)
    members = (
        scaled_softmax(z, temperature).gather(1, column).squeeze(1),
        scaled_softmax(z).gather(1, column).squeeze(1),
        uniform,
    )
    given = torch.stack(members, dim=1).numpy()

    def loss(weights: Floats) -> tuple[float, Floats]:
        # A weight can leave the simplex by a rounding error during a line search.
        q = np.maximum(given @ weights, np.finfo(np.float64).tiny)
        return float(-np.log(q).mean()), -(given / q[:, None]).mean(axis=0)

    found = minimize(
        loss,
        np.full(3, 1 / 3),
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 3,
        constraints=[LinearConstraint(np.ones(3), 1.0, 1.0)],
        tol=1e-12,
        options={"maxiter": 500},
    )
    weights: Floats = np.clip(np.nan_to_num(found.x), 0.0, 1.0)
    if weights.sum() == 0:
        raise SolverError(f"the ensemble's weights could not be found: {found.message}")
    total: Floats = weights / weights.sum()
    for _ in range(STEPS):
        # How much better each member alone would do: the largest less one bounds what is left of
        # the loss, and multiplying by it (expectation-maximisation) never makes the loss worse.
        better = (given / np.maximum(given @ total, np.finfo(np.float64).tiny)[:, None]).mean(
            axis=0
        )
        left = float(better.max()) - 1
        if left < UNSETTLED:
            break
        total = total * better / (total @ better)
    else:
        warnings.warn(
            f"the ensemble's weights did not settle: the loss could still fall by {left:.2g}",
            CalibrationWarning,
            stacklevel=4,
        )
    return total
