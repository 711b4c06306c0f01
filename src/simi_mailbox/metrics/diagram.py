"""The arrays of a reliability diagram."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, check, top_label
from simi_mailbox.metrics.calibration_error import (
    BinnedCounts,
    Binning,
    bin_outcomes,
    check_binning,
)


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy per bin, for a reliability diagram. NaN marks empty bins.

    Parameters
    ----------
    edges : ndarray [M + 1]
        Bin edges from 0 to 1.
    confidence, accuracy : ndarray [M]
        Mean confidence and accuracy per bin.
    counts : ndarray of int [M]
        Nodes per bin.
    low, high : ndarray [M]
        Wilson score interval of the accuracy of each bin, at ``level``.
    ece : float
        ECE of the same bins.
    level : float
        Nominal coverage of each bin's interval by itself (not of all bins jointly).

    Examples
    --------
    >>> curve = reliability(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]), bins=2)
    >>> curve.counts.tolist(), curve.gap.round(3).tolist()
    ([0, 2], [nan, -0.4])
    """

    edges: Floats
    confidence: Floats
    accuracy: Floats
    counts: Ints
    low: Floats
    high: Floats
    ece: float
    level: float

    @property
    def gap(self) -> Floats:
        """Accuracy − confidence per bin: positive where the model is under-confident."""
        return self.accuracy - self.confidence


def reliability(
    probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width", band: float = 0.95
) -> Reliability:
    """Accuracy against confidence per bin, with a Wilson score interval on each accuracy.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.
    bins, binning
        As in :func:`ece`. Equal-mass bins report the confidences at which they were cut as edges.
    band : float
        Level of the interval, between 0 and 1. It treats nodes as independent; where neighbours err
        together it is too narrow.

    Examples
    --------
    >>> probs = np.tile([0.8, 0.2], (10, 1))
    >>> curve = reliability(probs, np.array([0] * 7 + [1] * 3), bins=5)
    >>> [round(float(row[4]), 3) for row in (curve.accuracy, curve.low, curve.high)]
    [0.7, 0.397, 0.892]
    """
    check_binning(bins, binning)
    return reliability_of(bin_outcomes(*top_label(check(probs, y)), bins, binning), band)


def reliability_of(counts: BinnedCounts, band: float = 0.95) -> Reliability:
    """Reliability arrays from the sums per bin, e.g. of a streamed :class:`BinnedCounts`.

    Parameters
    ----------
    counts : BinnedCounts
        Sums per bin, of at least one node.
    band : float
        Level of the Wilson interval.

    Examples
    --------
    >>> counts = BinnedCounts.empty(bins=2).update(np.array([[0.9, 0.1]]), np.array([0]))
    >>> reliability_of(counts).counts.tolist()
    [0, 1]
    """
    check_level(band, "band")
    size = np.where(counts.counts > 0, counts.counts, np.nan)
    accuracy = counts.correct_sum / size
    low, high = _wilson(accuracy, size, band)
    return Reliability(
        edges=counts.edges,
        confidence=counts.confidence_sum / size,
        accuracy=accuracy,
        counts=counts.counts,
        low=low,
        high=high,
        ece=counts.ece,
        level=band,
    )


def check_level(level: float, name: str) -> None:
    """Raise unless a coverage level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"{name} is {level}; expected a level between 0 and 1, such as 0.95.")


def _wilson(share: Floats, size: Floats, level: float) -> tuple[Floats, Floats]:
    z = float(ndtri(0.5 + level / 2))
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    return np.maximum(centre - half, 0), np.minimum(centre + half, 1)
