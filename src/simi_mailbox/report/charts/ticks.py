"""Round numbers for axes."""

from __future__ import annotations

import math


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most ``most`` multiples of 1, 2 or 5 times a power of ten between ``low`` and ``high``.

    Examples
    --------
    >>> ticks(0.21, 1.0)
    [0.4, 0.6, 0.8, 1.0]
    >>> ticks(0.93, 0.97)
    [0.93, 0.94, 0.95, 0.96, 0.97]
    """
    if not high > low:
        return [low]
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = power
    for factor in (1, 2, 5, 10):
        step = factor * power
        if (high - low) / step + 1 <= most + 1e-9:
            break
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]
