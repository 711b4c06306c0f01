"""Group calibration (GC): learned groups of nodes, each calibrated on its own."""

import warnings
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from scipy.special import log_softmax, logsumexp
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.base import Calibrator, Holdout, Shapes
from simi_mailbox.calibrators.features import check_width, feature_matrix
from simi_mailbox.calibrators.temperature import ensemble_weights
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Count, NonNegative, Whole, hyperparameters
from simi_mailbox.softmax import scaled_softmax, top_gaps
from simi_mailbox.temperature import global_temperature, group_temperatures
from simi_mailbox.validation import CalibrationData, NodeInputs

START = 1.5
WIDEST = 7.0  # log τ stays within this of the start: a factor of about 1000 either way


@hyperparameters
class GroupCalibration(Calibrator):
    """Learned partitions of the nodes, one base calibrator per group, averaged over partitions.

    (GC; Yang et al., ICLR 2023.) Stage 1 learns each partition from its own random start: groups
    are linear in the features, u_i = W f_i, and W and one τ for each group minimise

        mean CE of q_i = Σ_g softmax(u_i)_g softmax(z_i / τ_g)   +   penalty · mean(W²).

    Stage 2 fits the base calibrator on the members of each group argmax_g u_ig. The result is the
    mean over the partitions. Accuracy is preserved.

    Parameters
    ----------
    base : "temperature" or "ensemble-temperature"
        Calibrator of a group.
    partitions, n_groups : int
        Number of partitions, and of groups in each.
    penalty, steps, seed : float, int, int
        Strength of mean(W²), L-BFGS iterations of stage 1, and seed of its random starts.

    Attributes
    ----------
    partitions_, temperatures_, weights_ : float64 arrays [partitions, n_groups, …]
        W, temperatures and ensemble weights, which are (1, 0, 0) for the base ``"temperature"``.

    Notes
    -----
    Stage 1 uses the calibration nodes; stage 2 those of ``early_stopping_mask``, if given (in the
    published comparison a tenth of the test nodes), else the same. Features: the hidden layer.

    Differs from the released code: features are divided by their root mean square; τ is positive
    and starts at 1.5 times the common temperature; gradients and temperatures are exact; a group
    without optimum takes the common temperature; the ensemble minimises cross-entropy.

    Examples
    --------
    >>> given = {"features": [[1.0], [2.0]] * 2}
    >>> cal = GroupCalibration().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4), **given)
    >>> cal.predict_proba([[2.0, 0.0]] * 4, **given).shape
    (4, 2)
    """

    name = "group-calibration"
    fitted: ClassVar[Shapes] = {
        "partitions_": ("partitions", "groups", "features"),
        "temperatures_": ("partitions", "groups"),
        "weights_": ("partitions", "groups", 3),
    }
    required_inputs = frozenset({"features"})
    keep_classes = True
    holdout: ClassVar[Holdout] = "separate"

    base: Literal["temperature", "ensemble-temperature"] = "temperature"
    partitions: Count = 20
    n_groups: Count = 2
    penalty: NonNegative = 0.1
    steps: Count = 100
    seed: Whole = 0

    def _fit(self, data: CalibrationData) -> None:
        first, features = data.calibration, feature_matrix(data)
        rows, rng = features[first.index.numpy()], np.random.default_rng(self.seed)
        unit = float(np.sqrt((rows * rows).mean())) or 1.0
        bound = 1 / np.sqrt(rows.shape[1])
        starts = rng.uniform(-bound, bound, (self.partitions, self.n_groups, rows.shape[1]))
        z, y = data.calibration_logits, first.y
        given = rows / unit, (top_gaps(z) / global_temperature(z, y)[0]).numpy(), y.numpy()
        learned = [learn_partition(*given, at, self.penalty, self.steps) for at in starts]
        self.partitions_ = np.stack([weights for weights, _ in learned]) / unit
        slopes = [slope for _, slope in learned if slope > 0]
        if slopes:
            warnings.warn(
                f"{len(slopes)} of {self.partitions} partitions were still being learned after "
                f"{self.steps} steps (largest slope of the loss: {max(slopes):.2g}): nodes on the "
                "border of two groups may change sides; more steps let them settle",
                CalibrationWarning,
                stacklevel=3,
            )
        second = first if data.holdout is None else data.holdout
        member = self._members(features[second.index.numpy()])
        z, y = data.logits[second.index], second.y
        self.temperatures_ = np.stack(
            [group_temperatures(z, y, torch.from_numpy(g), self.n_groups) for g in member]
        )
        self.weights_ = np.tile([1.0, 0.0, 0.0], (self.partitions, self.n_groups, 1))
        if self.base == "ensemble-temperature":
            self.weights_[:] = ensemble_weights(z, y, global_temperature(z, y)[0])
            for p, g in np.ndindex(self.partitions, self.n_groups):
                here = torch.from_numpy(member[p] == g)
                if bool(here.any()):
                    temperature = float(self.temperatures_[p, g])
                    self.weights_[p, g] = ensemble_weights(z[here], y[here], temperature)

    def _members(self, rows: Any) -> Ints:
        """Group of every row in every partition [partitions, rows]."""
        flat = self.partitions_.reshape(-1, self.partitions_.shape[2])
        scores = np.asarray(rows @ flat.T)
        member: Ints = scores.reshape(-1, self.partitions, self.n_groups).argmax(2).T
        return member

    def _predict(self, data: NodeInputs) -> Tensor:
        check_width(data, self.partitions_.shape[2])
        member = self._members(feature_matrix(data))
        z = data.logits
        plain = scaled_softmax(z)
        probs = torch.zeros(z.shape, dtype=torch.float64)
        for p in range(self.partitions):
            temperature = torch.from_numpy(self.temperatures_[p][member[p]])
            weights = torch.from_numpy(self.weights_[p][member[p]]).T.unsqueeze(2)
            probs += weights[0] * scaled_softmax(z, temperature) + weights[1] * plain
            probs += weights[2] / z.shape[1]
        return probs / self.partitions


def learn_partition(
    rows: Any, gaps: Floats, y: Ints, start: Floats, penalty: float, steps: int
) -> tuple[Floats, float]:
    """W of stage 1 (see `GroupCalibration`), and the largest slope left if the steps ran out."""
    from scipy.optimize import minimize

    groups, m = len(start), len(y)
    target = gaps[np.arange(m), y]

    def loss(flat: Floats) -> tuple[float, Floats]:
        beta, w = np.exp(-flat[:groups]), flat[groups:].reshape(start.shape)
        log_share = log_softmax(np.asarray(rows @ w.T), axis=1)
        # The largest gap is 0: no exponential overflows and no sum is below 1.
        e = np.exp(gaps[:, None, :] * beta[:, None])
        total = e.sum(axis=2)
        mean = (e @ gaps[:, :, None])[:, :, 0] / total
        joint = log_share + target[:, None] * beta - np.log(total)
        log_q = logsumexp(joint, axis=1, keepdims=True)
        duty = np.exp(joint - log_q)  # of each group for each node
        by_tau = beta * (duty * (target[:, None] - mean)).sum(axis=0) / m
        by_w = np.asarray(rows.T @ (np.exp(log_share) - duty)).T / m + 2 * penalty * w / w.size
        value = -float(log_q.mean()) + penalty * float((w**2).mean())
        return value, np.concatenate([by_tau, by_w.ravel()])

    centre = np.log(START)
    found = minimize(
        loss,
        np.concatenate([np.full(groups, centre), start.ravel()]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(centre - WIDEST, centre + WIDEST)] * groups + [(None, None)] * start.size,
        options={"maxiter": steps},
    )
    learned: Floats = found.x[groups:].reshape(start.shape)
    return learned, 0.0 if found.success else float(np.abs(loss(found.x)[1]).max())
