"""Temperature scaling, the model's own probabilities, and a mixture of both."""

import warnings
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.base import Calibrator, Shapes, TemperatureCalibrator
from simi_mailbox.exceptions import CalibrationWarning, SolverError
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.temperature import global_temperature
from simi_mailbox.validation import CalibrationData, NodeInputs

STEPS = 10_000
UNSETTLED = 1e-5  # what the loss of the mixture can still fall by without a warning


class Uncalibrated(Calibrator):
    """softmax(z), whatever the labels say.

    >>> logits = np.zeros((3, 2))
    >>> Uncalibrated().fit(logits, [0, 1, 1], mask=[0]).predict_proba(logits)[0]
    array([0.5, 0.5])
    """

    name = "uncalibrated"
    keep_classes = True

    def _fit(self, data: CalibrationData) -> None:
        pass

    def _predict(self, data: NodeInputs) -> Tensor:
        return scaled_softmax(data.logits)


class TemperatureScaling(TemperatureCalibrator):
    """softmax(z / T) with one T that minimises the cross-entropy of the calibration nodes.

    Guo et al., "On Calibration of Modern Neural Networks", ICML 2017. Convex in 1/T and solved
    exactly; published GNN tables used Adam with early stopping.

    Attributes
    ----------
    temperature_ : float

    Examples
    --------
    >>> cal = TemperatureScaling().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4))
    >>> round(cal.temperature_, 2)
    1.82
    """

    name = "temperature"
    optional_inputs = frozenset({"sample_weight"})
    fitted: ClassVar[Shapes] = {"temperature_": ()}

    def _fit(self, data: CalibrationData) -> None:
        z, labelled = data.calibration_logits, data.calibration
        self.temperature_, at_bound = global_temperature(z, labelled.y, weight=labelled.weight)
        if at_bound:
            wrong = int((z.argmax(dim=1) != labelled.y).sum())
            count = f"{len(labelled)} calibration nodes"
            reason = f"all {count} are predicted right, so certainty is likeliest"
            if wrong:
                reason = f"the labels of the {count} are likeliest under a uniform guess"
            warnings.warn(
                f"the temperature lies on its bound ({self.temperature_:.3g}): {reason}; check the "
                "labels, or use more calibration nodes",
                CalibrationWarning,
                stacklevel=3,
            )

    def _temperatures(self, data: NodeInputs) -> Tensor:
        return torch.full((data.num_nodes,), self.temperature_, dtype=torch.float64)


class EnsembleTemperatureScaling(Calibrator):
    """A mixture of temperature scaling, the model itself and knowing nothing.

        q_i = w₁ softmax(z_i / T) + w₂ softmax(z_i) + w₃ / K,   w ≥ 0,  w₁ + w₂ + w₃ = 1

    (ETS; Zhang et al., ICML 2020). T minimises the cross-entropy of the calibration nodes, then w
    minimises it with T fixed; both problems are convex. Predicted classes stay.

    Attributes
    ----------
    temperature_, weights_ : float, float64 array [3]
        T, and w₁, w₂, w₃.

    Notes
    -----
    Cross-entropy in both stages, as in the GATS code (Mix-n-Match: squared error), and an exact T.

    Examples
    --------
    >>> logits = [[9.0, 0.0, 0.0]] * 10  # certain, and right 8 times of 10
    >>> cal = EnsembleTemperatureScaling().fit(logits, [0] * 8 + [1, 2], mask=range(10))
    >>> cal.predict_proba(logits)[0].round(3).tolist()
    [0.8, 0.1, 0.1]
    """

    name = "ensemble-temperature"
    fitted: ClassVar[Shapes] = {"temperature_": (), "weights_": (3,)}
    keep_classes = True

    def _fit(self, data: CalibrationData) -> None:
        z, y = data.calibration_logits, data.calibration.y
        self.temperature_ = global_temperature(z, y)[0]
        self.weights_ = ensemble_weights(z, y, self.temperature_)

    def _predict(self, data: NodeInputs) -> Tensor:
        z, (first, second, third) = data.logits, self.weights_.tolist()
        probs = scaled_softmax(z, self.temperature_).mul_(first)
        return probs.add_(scaled_softmax(z), alpha=second).add_(third / z.shape[1])


def ensemble_weights(logits: Tensor, y: Tensor, temperature: float) -> Floats:
    """Weights of least cross-entropy on the given labelled nodes, for a fixed temperature."""
    from scipy.optimize import LinearConstraint, minimize

    z = logits.to(torch.float64)
    each = [scaled_softmax(z, temperature), scaled_softmax(z), torch.full_like(z, 1 / z.shape[1])]
    given = torch.stack([probs.gather(1, y[:, None]).squeeze(1) for probs in each], dim=1).numpy()

    def loss(weights: Floats) -> tuple[float, Floats]:
        # A weight can leave the simplex by a rounding error during a line search.
        q = np.maximum(given @ weights, np.finfo(np.float64).tiny)
        return float(-np.log(q).mean()), -(given / q[:, None]).mean(axis=0)

    simplex = LinearConstraint(np.ones(3), 1.0, 1.0)
    how = {"method": "SLSQP", "bounds": [(0.0, 1.0)] * 3, "constraints": [simplex], "tol": 1e-12}
    found = minimize(loss, np.full(3, 1 / 3), jac=True, options={"maxiter": 500}, **how)
    weights: Floats = np.clip(np.nan_to_num(found.x), 0.0, 1.0)
    if weights.sum() == 0:
        raise SolverError(f"the ensemble's weights could not be found: {found.message}")
    weights /= weights.sum()
    for _ in range(STEPS):
        # How much better each member alone would do: the largest less one bounds what is left of
        # the loss, and multiplying by it (expectation-maximisation) never makes the loss worse.
        better = -loss(weights)[1]
        left = float(better.max()) - 1
        if left < UNSETTLED:
            return weights
        weights = weights * better / (weights @ better)
    warnings.warn(
        f"the ensemble's weights did not settle: the loss could still fall by {left:.2g}",
        CalibrationWarning,
        stacklevel=4,
    )
    return weights
