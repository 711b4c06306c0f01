"""Newton's method for convex losses."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from simi_mailbox._arrays import Floats
from simi_mailbox.exceptions import CalibrationWarning

STEPS = 200
LARGEST = 3000
"""Numbers to find, beyond which their second derivatives take too much memory."""
RIDGE = 1e-12
"""Of the curvature: keeps it positive definite where labels, within rounding, do not."""
UNSETTLED = 1e-7
"""By how much a mean loss can still fall without a warning."""


def newton(
    loss: Callable[[Floats], tuple[float, Floats]],
    curvature: Callable[[Floats], Floats],
    start: Floats,
    what: str,
) -> Floats:
    """Where ``loss`` (value and gradient) with second derivatives ``curvature`` is least.

    A step is halved until the loss falls. A warning says by how much it could still fall where the
    steps ran out.
    """
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
