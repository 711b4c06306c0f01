"""Expected calibration error: of the predicted class, per class, and without its bias.

Every binned metric, the reliability arrays and the streaming state go through :func:`bin_outcomes`,
so no two of them can disagree about a bin edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.special import erf

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, Checked, bin_sum, check, top_label, unit

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


Norm: TypeAlias = Literal["l1", "l2"]


def ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    """Expected calibration error of the predicted class.

    ECE = Σ_b (n_b / n) · |mean confidence in b − accuracy in b|; empty bins contribute nothing.
    A fraction in [0, 1], not a percentage. :func:`noise_floor` is the ECE of a calibrated model.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.
    bins : int
        Number of bins M.
    binning : {"width", "mass"}
        ``"width"``: bins [k/M, (k+1)/M), the last closed, compared in float64. ``"mass"``: the
        sorted confidences cut at floor(k n / M); nodes of equal confidence share their mean
        outcome, so that the order of the nodes does not matter.

    Examples
    --------
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]])
    >>> round(ece(probs, np.array([0, 1, 1])), 6)
    0.166667
    """
    check_binning(bins, binning)
    return bin_outcomes(*top_label(check(probs, y)), bins, binning).ece


def classwise_ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    """Class-wise ECE: the ECE of p_k against 1[y = k] over all nodes, averaged over the classes.

    Most of each class's mass lies in the lowest bin, so values shrink as the number of classes
    grows; compare models of the same task only.

    Parameters: probs, y, bins, binning as in :func:`ece`.

    Examples
    --------
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25]])
    >>> classwise_ece(probs, np.array([0, 1]))
    0.25
    """
    check_binning(bins, binning)
    checked = check(probs, y)
    return classwise_of(class_gaps(checked, bins, binning), len(checked.y))


def class_gaps(checked: Checked, bins: int = 15, binning: Binning = "width") -> Floats:
    """Σ 1[y = k] − p_k of the nodes whose p_k lies in a bin, [K, M]."""
    probs, y = checked
    # One class at a time: memory grows with n, not n K.
    columns = ((unit(probs[:, k]), (y == k).astype(np.float64)) for k in range(probs.shape[1]))
    return np.stack([bin_outcomes(*column, bins, binning).gap_sum for column in columns])


def classwise_of(gaps: Floats, num_nodes: int) -> float:
    """Class-wise ECE from `class_gaps`, which add up over batches."""
    return float(np.abs(gaps).sum(axis=1).mean() / num_nodes)


def class_conditional_ece(probs: Array, y: Array, *, bins: int = 15) -> float:
    """ECE within the nodes of each predicted class, averaged over the nodes.

    Errors of opposite sign in two predicted classes do not cancel, so that it is never below
    :func:`ece`. Gupta and Ramdas (ICLR 2022) call it the top-label calibration error. The error of
    every class by itself: `analysis.by_class`.

    Parameters: probs, y, bins as in :func:`ece`.

    Examples
    --------
    >>> probs, y = np.array([[0.75, 0.25]] * 2 + [[0.25, 0.75]] * 2), np.array([0, 0, 0, 1])
    >>> ece(probs, y), class_conditional_ece(probs, y)
    (0.0, 0.25)
    """
    check_binning(bins)
    checked = check(probs, y)
    confidence, correct = top_label(checked)
    cell = checked.probs.argmax(axis=1) * bins + width_index(confidence, bins)
    gaps = bin_sum(cell, correct - confidence, checked.probs.shape[1] * bins)
    return float(np.abs(gaps).sum() / len(confidence))


def debiased_ece(
    probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width", norm: Norm = "l1"
) -> float:
    r"""ECE without the part that sampling noise adds.

    The gap of a bin is noisy, and the absolute value turns noise into error: a perfectly calibrated
    model has an ECE above zero. With r_i = correct_i − confidence_i, and in bin b
    R = Σ r_i, S² = Σ r_i²:

    ``norm="l1"`` (split halves)
        Take the *sign* of the gap from a random half of the bin and its *size* from the other half.
        The two are independent, so noise averages out. Averaged over all halvings (in the normal
        limit) this is

        (1/n) Σ_b [ R · erf(R / (S √2)) − 2 S φ(R / S) ],  φ the standard normal density.

        It has the unit of ECE, never exceeds it, is zero on average for a calibrated model, and
        tends to ECE where the gaps stand clear of the noise.

    ``norm="l2"`` (Bröcker 2012; Kumar, Liang and Ma, NeurIPS 2019)
        The unbiased estimate of the mean squared gap,

        E² = (1/n) Σ_b (R² − S²) / (n_b − 1),

        returned as sign(E²)·√|E²|. A root *mean square* gap is never below the mean gap, so this
        may exceed ECE. The variance is that of r_i, not of the outcome alone, because confidences
        differ within a bin; bins of one node contribute nothing.

    Parameters
    ----------
    probs, y, bins, binning
        As in :func:`ece`.
    norm : {"l1", "l2"}
        Which of the two estimates.

    Examples
    --------
    >>> probs = np.tile([0.75, 0.25], (100, 1))
    >>> y = np.r_[np.zeros(77, int), np.ones(23, int)]  # 77 % correct at confidence 75 %
    >>> round(ece(probs, y), 3), round(debiased_ece(probs, y), 3)
    (0.02, -0.023)
    """
    check_binning(bins, binning)
    if norm not in get_args(Norm):
        raise ValueError(f"norm is {norm!r}; expected one of {list(get_args(Norm))}.")
    return debiased_of(bin_outcomes(*top_label(check(probs, y)), bins, binning), norm)


def debiased_of(counts: BinnedCounts, norm: Norm = "l1") -> float:
    """Debiased ECE from the sums per bin, e.g. of a streamed :class:`BinnedCounts`.

    Parameters
    ----------
    counts : BinnedCounts
        Sums per bin, of at least one node.
    norm : {"l1", "l2"}
        As in :func:`debiased_ece`.

    Examples
    --------
    >>> batch = np.tile([0.9, 0.1], (100, 1)), np.repeat([0, 1], [60, 40])
    >>> counts = BinnedCounts.empty().update(*batch).update(*batch)
    >>> round(debiased_of(counts), 3)
    0.3
    """
    if counts.num_nodes == 0:
        raise ValueError("no node was counted yet; call update() first.")
    seen = counts.square_sum > 0  # elsewhere every residual, and with it the gap, is zero
    gap, square = counts.gap_sum[seen], counts.square_sum[seen]
    if norm == "l1":
        noise = np.sqrt(square)
        density = np.exp(-0.5 * gap**2 / square) / np.sqrt(2 * np.pi)
        terms = gap * erf(gap / (noise * np.sqrt(2))) - 2 * noise * density
        return float(terms.sum() / counts.num_nodes)
    size = counts.counts[seen]
    terms = (gap**2 - square)[size > 1] / (size[size > 1] - 1)
    mean_square = float(terms.sum() / counts.num_nodes)
    return float(np.copysign(np.sqrt(abs(mean_square)), mean_square))
