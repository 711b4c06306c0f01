"""Distribution of the temperatures that a calibrator gives to nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.inputs import as_numpy


@dataclass(frozen=True)
class TemperatureHistogram:
    """How many nodes have which temperature.

    Attributes
    ----------
    edges : float64 [B + 1]
        Edges of equal width in log T; T = 1 changes nothing, above 1 lowers confidence.
    counts : int64 [B]
        Nodes between the edges.
    smallest, median, largest : float
        Of the temperatures themselves.
    """

    edges: Floats
    counts: Ints
    smallest: float
    median: float
    largest: float

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it; see `simi_mailbox.plots.temperature_histogram`."""
        from simi_mailbox.plots import temperature_histogram as draw

        return draw(self, ax, **options)


def temperature_histogram(temperatures: Any, *, bins: int = 30) -> TemperatureHistogram:
    """Count nodes by temperature, in bins of equal width on a logarithmic scale.

    Parameters
    ----------
    temperatures : array [n]
        Positive temperature of every node.
    bins : int
        Number of bins.

    Examples
    --------
    >>> import numpy as np
    >>> table = temperature_histogram(np.array([0.5, 1.0, 2.0]), bins=2)
    >>> table.edges.round(2).tolist(), table.counts.tolist(), table.median
    ([0.5, 1.0, 2.0], [1, 2], 1.0)
    """
    t = as_numpy(temperatures).astype(np.float64).ravel()
    if t.size == 0:
        raise ValueError("no temperature given")
    if not (np.isfinite(t).all() and t.min() > 0):
        raise ValueError("temperatures must be positive and finite")
    low, high = np.log(t.min()), np.log(t.max())
    if high - low < 1e-9:  # one temperature for all: a bin around it, not of width zero
        low, high = low - 0.05, high + 0.05
    counts, edges = np.histogram(np.log(t), bins=bins, range=(low, high))
    return TemperatureHistogram(
        np.exp(edges), counts.astype(np.int64), float(t.min()), float(np.median(t)), float(t.max())
    )
