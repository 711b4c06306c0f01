"""How much groups of nodes differ in their residuals beyond what chance explains."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Floats

SMALLEST_VARIANCE = 1e-3
"""Of one node's residual: a group of certain nodes is not known to infinite precision."""


def between_groups(total: Floats, variance: Floats, count: Floats) -> tuple[float, float]:
    """Variance of the groups' true residuals, and its standard error if there were none.

    The moment estimate of a random-effects model (DerSimonian and Laird, 1986): what the weighted
    scatter of the groups' mean residuals exceeds its expectation under chance. It may come out
    negative.

    Parameters
    ----------
    total, variance : array [groups]
        Sum of the residuals of a group's nodes, and of their variances c(1 − c).
    count : array [groups]
        Number of nodes.

    Examples
    --------
    >>> count, total = np.full(20, 100.0), np.tile([8.0, -8.0], 10)
    >>> found, error = between_groups(total, 0.16 * count, count)
    >>> round(found, 4), round(error, 4)
    (0.0051, 0.0005)
    """
    seen = count > 0
    if seen.sum() < 3:
        return 0.0, np.inf
    n = count[seen]
    noise = np.maximum(variance[seen], SMALLEST_VARIANCE * n)
    weight = n**2 / noise
    mean = total[seen] / n
    scatter = float(weight @ (mean - weight @ mean / weight.sum()) ** 2)
    chance = len(n) - 1
    scale = float(weight.sum() - (weight**2).sum() / weight.sum())
    if not scale > 0:
        return 0.0, np.inf
    # Of a standardised sum of coin throws the square has variance 2 + about 1 / noise: a group
    # that expects less than one error is no normal variable.
    error = float(np.sqrt(2 * chance + (1.0 / noise).sum())) / scale
    return (scatter - chance) / scale, error
