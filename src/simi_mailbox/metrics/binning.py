"""The one binning core: which bin a probability falls into, and the sums per bin.

Every binned metric, the reliability arrays and the streaming state go through :func:`bin_outcomes`,
so no two of them can disagree about a bin edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, bin_sum, check, top_label

Binning: TypeAlias = Literal["width", "mass"]


def check_binning(bins: int, binning: Binning = "width") -> None:
    """Raise unless ``bins`` is a positive integer and ``binning`` a known kind."""
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer):
        raise TypeError(f"bins is {bins!r}; expected a positive integer.")
    if bins < 1:
        raise ValueError(f"bins is {bins}; expected a positive integer.")
    if binning not in get_args(Binning):
        raise ValueError(f"binning is {binning!r}; expected one of {list(get_args(Binning))}.")


def width_edges(bins: int) -> Floats:
    """Edges 0, 1/M, …, 1 of the equal-width bins."""
    return np.arange(bins + 1, dtype=np.float64) / bins


def width_index(values: Floats, bins: int) -> Ints:
    """Equal-width bin of each value in [0, 1]: [k/M, (k+1)/M), the last bin closed.

    ``floor(value * M)`` alone is wrong at edges where the product rounds (0.29 * 100 < 29), so the
    candidate is corrected against the edges themselves.
    """
    edges = width_edges(bins)
    index = np.minimum((values * bins).astype(np.int64), bins - 1)
    index -= values < edges[index]
    index += (values >= edges[index + 1]) & (index < bins - 1)
    return index


@dataclass(frozen=True, eq=False)
class BinnedCounts:
    """Sums per confidence bin: all that ECE needs, in memory that does not grow with the nodes.

    Start from :meth:`empty`, feed batches with :meth:`update`, join workers with :meth:`merge`.
    Both return a new object; neither changes an old one.

    Parameters
    ----------
    edges : ndarray [M + 1]
        Bin edges.
    counts : ndarray of int [M]
        Nodes per bin.
    confidence_sum, correct_sum : ndarray [M]
        Sum of the confidences and number of correct nodes per bin.
    square_sum : ndarray [M]
        Sum of (correct − confidence)² per bin, from which the sampling noise is estimated.
    binning : {"width", "mass"}
        Only equal-width bins can be updated and merged; equal-mass edges depend on all nodes.

    Examples
    --------
    >>> state = BinnedCounts.empty(bins=10)
    >>> state = state.update(np.array([[0.75, 0.25]]), np.array([0]))
    >>> state = state.update(np.array([[0.75, 0.25]]), np.array([1]))
    >>> state.num_nodes, state.ece
    (2, 0.25)
    """

    edges: Floats
    counts: Ints
    confidence_sum: Floats
    correct_sum: Floats
    square_sum: Floats
    binning: Binning = "width"

    @classmethod
    def empty(cls, bins: int = 15) -> BinnedCounts:
        """Equal-width state that has seen no node."""
        check_binning(bins)
        zeros = np.zeros(bins)
        return cls(width_edges(bins), np.zeros(bins, np.int64), zeros, zeros, zeros)

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.counts)

    @property
    def num_nodes(self) -> int:
        """Number of nodes seen."""
        return int(self.counts.sum())

    @property
    def gap_sum(self) -> Floats:
        """Sum of (correct − confidence) per bin."""
        return self.correct_sum - self.confidence_sum

    @property
    def ece(self) -> float:
        """Expected calibration error of all nodes seen."""
        if self.num_nodes == 0:
            raise ValueError("no node was counted yet; call update() first.")
        return float(np.abs(self.gap_sum).sum() / self.num_nodes)

    def update(self, probs: Array, y: Array) -> BinnedCounts:
        """Return the state after a further batch of probabilities [n, K] and labels [n]."""
        return self.merge(bin_outcomes(*top_label(check(probs, y)), self.bins))

    def merge(self, other: BinnedCounts) -> BinnedCounts:
        """Return the state that has seen the nodes of both."""
        if self.binning != "width" or other.binning != "width":
            raise ValueError(
                "equal-mass bins cannot be merged, because their edges depend on the whole sample; "
                "use equal-width bins for streaming."
            )
        if self.bins != other.bins:
            raise ValueError(
                f"cannot merge {self.bins} bins with {other.bins}; use the same number."
            )
        return BinnedCounts(
            self.edges,
            self.counts + other.counts,
            self.confidence_sum + other.confidence_sum,
            self.correct_sum + other.correct_sum,
            self.square_sum + other.square_sum,
        )


def bin_outcomes(
    confidence: Floats, correct: Floats, bins: int, binning: Binning = "width"
) -> BinnedCounts:
    """Sum confidences in [0, 1] and their 0/1 outcomes per bin (input already checked)."""
    if binning == "width":
        edges, index = width_edges(bins), width_index(confidence, bins)
    else:
        edges, index, confidence, correct = _mass_bins(confidence, correct, bins)
    # correct·(1 − 2c) + c² is (correct − c)² for 0/1 outcomes and its mean for tied, shared ones.
    squares = correct * (1 - 2 * confidence) + confidence**2
    return BinnedCounts(
        edges,
        np.bincount(index, minlength=bins),
        bin_sum(index, confidence, bins),
        bin_sum(index, correct, bins),
        bin_sum(index, squares, bins),
        binning,
    )


def _mass_bins(
    confidence: Floats, correct: Floats, bins: int
) -> tuple[Floats, Ints, Floats, Floats]:
    """Equal-mass bins with boundaries floor(k n / M) on the sorted list.

    Nodes of equal confidence share their mean outcome. The reference implementation leaves them in
    the order of the sort, which makes the result depend on the order of the nodes.
    """
    n = len(confidence)
    order = np.argsort(confidence, kind="stable")
    values, outcomes = confidence[order], correct[order]
    outcomes = shared_by_equals(values, outcomes)
    starts = np.arange(bins + 1, dtype=np.int64) * n // bins
    edges = np.r_[0.0, values[np.minimum(starts[1:-1], n - 1)], 1.0]
    return edges, np.repeat(np.arange(bins, dtype=np.int64), np.diff(starts)), values, outcomes


def shared_by_equals(values: Floats, outcomes: Floats) -> Floats:
    """Outcomes of sorted values; equal values share their mean: their order is nothing."""
    first = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    size = np.diff(np.r_[first, len(values)])
    return np.repeat(np.add.reduceat(outcomes, first) / size, size)
