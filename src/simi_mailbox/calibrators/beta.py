"""Beta calibration: Platt scaling with a scale of its own on either side."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.calibrators.parts.logistic import logistic, platt_targets
from simi_mailbox.calibrators.platt import OneVersusRest


class BetaCalibration(OneVersusRest):
    """P(class) becomes σ(a log p − b log(1 − p) + c) with a, b ≥ 0 (Kull et al., AISTATS 2017).

    With a = b it is Platt scaling; both sides of one half may be bent differently. The parameters
    minimise the cross-entropy of the calibration nodes with Platt's targets, which keep them finite
    where labels are separable (Kull's package uses 0 and 1). Predicted classes may change. For more
    than two classes: one against the rest, divided by the sum.

    Attributes
    ----------
    coefficients_ : array [classes, 3]
        Of log p, log(1 − p) and one: (a, −b, c).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(8000)
    >>> q = 1 / (1 + np.exp(-(0.5 * np.log(p) - 2 * np.log(1 - p) - 1)))
    >>> y = (rng.random(8000) < q).astype(int)
    >>> cal = BetaCalibration().fit(p, y, mask=np.arange(8000), input_type="binary-probabilities")
    >>> bool(np.abs(cal.coefficients_[1] - [0.5, -2.0, -1.0]).max() < 0.2)
    True
    """

    name: ClassVar[str] = "beta"

    def _of_class(self, log_p: Floats, log_rest: Floats, is_class: Bools, weight: Floats) -> Floats:
        target = platt_targets(is_class, weight)
        columns = np.stack([log_p, -log_rest, np.ones(len(log_p))], axis=1)
        best, lowest = np.zeros(3), np.inf
        for kept in ([0, 1, 2], [0, 2], [1, 2], [2]):
            found = np.zeros(3)
            found[kept] = logistic(columns[:, kept], target, weight)
            score = columns @ found
            loss = float(weight @ (np.logaddexp(0.0, score) - target * score))
            if loss < lowest and found[:2].min() >= 0:
                best, lowest = found, loss
                if len(kept) == 3:  # nothing within the bounds can be better
                    break
        return best * [1.0, -1.0, 1.0]
