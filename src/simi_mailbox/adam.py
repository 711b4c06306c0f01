"""Adam on the paper's loss, all groups at once: what the paper optimises with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.temperature import Curve, PaperLoss, Three

LEARNING_RATE = 0.01
DECAY, SQUARE_DECAY, SMALLEST = 0.9, 0.999, 1e-8
STEP, LOWEST, HIGHEST = 0.05, -12.0, 20.0
"""A table's spacing and range in θ = log(1/T); beyond it probabilities are uniform, or 0 and 1."""


def adam_path(loss: PaperLoss, lr: float = LEARNING_RATE) -> Iterator[Floats]:
    """Temperatures [weights, groups] after every step of Adam from T = 1, without end; those that
    have come down to 1e-8 stay there, as in the released code."""
    parameter = np.ones((len(loss.penalty), loss.curve.n_groups))
    mean, square = np.zeros_like(parameter), np.zeros_like(parameter)
    temperature = parameter
    for step in count(1):
        theta = -np.log(temperature)  # a curve that is no table takes one row
        slope = (loss(theta[0])[1][None] if len(theta) == 1 else loss(theta)[1]) / -temperature
        slope[parameter <= SMALLEST] = 0.0
        mean = DECAY * mean + (1 - DECAY) * slope
        square = SQUARE_DECAY * square + (1 - SQUARE_DECAY) * slope**2
        scale = np.sqrt(square / (1 - SQUARE_DECAY**step)) + SMALLEST
        parameter = parameter - lr * mean / (1 - DECAY**step) / scale
        temperature = np.maximum(parameter, SMALLEST)
        yield temperature


class Tabulated:
    """A curve looked up in a table of one pass over all nodes for every `STEP` of θ; cubic in
    between, right to about 1e-8, its second derivative zero. θ may have rows."""

    def __init__(self, curve: Curve) -> None:
        self.curve, self.n_groups = curve, curve.n_groups
        self._table = np.full((3, self.n_groups, round((HIGHEST - LOWEST) / STEP) + 1), np.nan)

    def __call__(self, theta: Floats, wanted: Bools | None = None) -> Three:
        place = (np.clip(theta, LOWEST, HIGHEST) - LOWEST) / STEP
        left = np.minimum(place.astype(np.int64), self._table.shape[2] - 2)
        v0, d0, s0 = self._known(left)
        v1, d1, s1 = self._known(left + 1)
        t = place - left
        return _cubic(t, v0, v1, d0, d1), _cubic(t, d0, d1, s0, s1), np.zeros_like(t)

    def _known(self, column: Ints) -> Floats:
        every = np.arange(self.n_groups)
        found = self._table[:, every, column]
        if not np.isnan(found[0]).any():
            return found
        for row in np.atleast_2d(column):
            missing = np.isnan(self._table[0, every, row])
            if missing.any():
                theta: Floats = LOWEST + STEP * row.astype(np.float64)
                looked = np.stack(self.curve(theta, missing))
                self._table[:, every[missing], row[missing]] = looked[:, missing]
        return self._table[:, every, column]


def _cubic(t: Floats, v0: Floats, v1: Floats, slope0: Floats, slope1: Floats) -> Floats:
    """Hermite's cubic between two columns of a table."""
    u = 1 - t
    ends = u * u * (1 + 2 * t) * v0 + t * t * (3 - 2 * t) * v1
    value: Floats = ends + STEP * t * u * (u * slope0 - t * slope1)
    return value
