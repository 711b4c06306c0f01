"""Calibration errors: over bins of confidence, with the reliability diagram, and without bins.

Every binned metric goes through :func:`bin_outcomes`: no two can disagree about a bin edge.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, get_args

import numpy as np
from scipy.fft import dct, idct, irfft, next_fast_len, rfft
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.special import erf, ndtri

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import (
    Array,
    Checked,
    bin_sum,
    check,
    check_choice,
    check_class,
    check_level,
    shared_by_equals,
    top_label,
    unit,
)

Binning: TypeAlias = Literal["width", "mass"]
Bandwidth: TypeAlias = Literal["released", "text"]
GRID_SIZE = 2**14
POINTS, STEP = np.linspace(-0.6, 1.6, GRID_SIZE, retstep=True)
GRID = 4096
"""Cells of [0, 1] for smooth ECE; the smallest kernel that they resolve is two cells wide."""


def check_binning(bins: int, binning: Binning = "width") -> None:
    """Raise unless ``bins`` is a positive integer and ``binning`` a known kind."""
    whole = isinstance(bins, int | np.integer) and not isinstance(bins, bool)
    if not whole or bins < 1:
        raise ValueError(f"bins is {bins!r}; expected a positive integer.")
    check_choice(binning, "binning", get_args(Binning))


def width_edges(bins: int) -> Floats:
    """Edges 0, 1/M, …, 1 of the equal-width bins."""
    return np.arange(bins + 1, dtype=np.float64) / bins


def width_index(values: Floats, bins: int) -> Ints:
    """Equal-width bin of each value in [0, 1]: [k/M, (k+1)/M), the last bin closed."""
    # By the edges themselves: floor(value * M) is wrong where the product rounds (0.29 * 100 < 29).
    return np.searchsorted(width_edges(bins)[1:-1], values, side="right")


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence and accuracy per bin, for a reliability diagram. NaN marks empty bins.

    Attributes
    ----------
    edges : ndarray [M + 1]
        Bin edges from 0 to 1; of equal-mass bins the confidences at which they were cut.
    confidence, accuracy, counts, low, high : ndarray [M]
        Mean confidence, accuracy and number of nodes per bin; Wilson score interval of each
        accuracy (not of all jointly), at ``level``.
    ece : float
        ECE of the same bins.
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


@dataclass(frozen=True, eq=False)
class BinnedCounts:
    """Sums per confidence bin, of equal-width bins additive over batches; with (correct − c)²."""

    edges: Floats
    counts: Ints
    confidence_sum: Floats
    correct_sum: Floats
    square_sum: Floats

    def __add__(self, other: Self) -> Self:
        bins, others = len(self.counts), len(other.counts)
        if bins != others:
            raise ValueError(f"cannot merge {bins} bins with {others}; use the same number.")
        sums = ("counts", "confidence_sum", "correct_sum", "square_sum")
        return replace(self, **{s: getattr(self, s) + getattr(other, s) for s in sums})

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
        return float(np.abs(self.gap_sum).sum() / self.num_nodes)

    @property
    def debiased_ece(self) -> float:
        """Debiased ECE of all nodes seen, as :func:`debiased_ece` defines it."""
        noisy = self.square_sum > 0  # elsewhere every residual, and with it the gap, is zero
        gap, square = self.gap_sum[noisy], self.square_sum[noisy]
        noise = np.sqrt(square)
        density = np.exp(-0.5 * gap**2 / square) / np.sqrt(2 * np.pi)
        terms = gap * erf(gap / (noise * np.sqrt(2))) - 2 * noise * density
        return float(terms.sum() / self.num_nodes)

    def reliability(self, level: float = 0.95) -> Reliability:
        """Reliability arrays of all nodes seen, with a Wilson score interval per bin."""
        check_level(level, "level")
        size = np.where(self.counts > 0, self.counts, np.nan)
        share, z = self.correct_sum / size, float(ndtri(0.5 + level / 2))
        centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
        low, high = np.maximum(centre - half, 0), np.minimum(centre + half, 1)
        parts = (self.confidence_sum / size, share, self.counts, low, high)
        return Reliability(self.edges, *parts, ece=self.ece, level=level)


def bin_outcomes(
    confidence: Floats, correct: Floats, bins: int, binning: Binning = "width"
) -> BinnedCounts:
    """Sum confidences in [0, 1] and their 0/1 outcomes per bin (input already checked)."""
    check_binning(bins, binning)
    if binning == "width":
        edges, index = width_edges(bins), width_index(confidence, bins)
    else:
        n, order = len(confidence), np.argsort(confidence, kind="stable")
        confidence = confidence[order]
        # The reference implementation leaves equal confidences in the order of the sort, which
        # makes the result depend on the order of the nodes.
        correct = shared_by_equals(confidence, correct[order])
        starts = np.arange(bins + 1, dtype=np.int64) * n // bins
        edges = np.r_[0.0, confidence[np.minimum(starts[1:-1], n - 1)], 1.0]
        index = np.repeat(np.arange(bins, dtype=np.int64), np.diff(starts))
    # correct·(1 − 2c) + c² is (correct − c)² for 0/1 outcomes and its mean for tied, shared ones.
    squares = correct * (1 - 2 * confidence) + confidence**2
    sums = (bin_sum(index, column, bins) for column in (confidence, correct, squares))
    return BinnedCounts(edges, np.bincount(index, minlength=bins), *sums)


def ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    """Expected calibration error of the predicted class.

    ECE = Σ_b (n_b / n) · |mean confidence in b − accuracy in b|, a fraction in [0, 1].

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.
    bins, binning : int, {"width", "mass"}
        Number M and kind of bins. ``"width"``: [k/M, (k+1)/M), the last closed. ``"mass"``: the
        sorted confidences cut at floor(k n / M), where nodes of equal confidence share their mean
        outcome: the order of the nodes does not matter.

    Examples
    --------
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]])
    >>> round(ece(probs, np.array([0, 1, 1])), 6)
    0.166667
    """
    return bin_outcomes(*top_label(check(probs, y)), bins, binning).ece


def classwise_ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    """Class-wise ECE: the ECE of p_k against 1[y = k] over all nodes, averaged over the classes.

    Values shrink as the number of classes grows; compare models of the same task only. Parameters
    are those of :func:`ece`.

    Examples
    --------
    >>> classwise_ece(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
    0.25
    """
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


def debiased_ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    r"""ECE without the part that sampling noise adds.

    With r_i = correct_i − confidence_i, and in bin b R = Σ r_i, S² = Σ r_i²:

        (1/n) Σ_b [ R · erf(R / (S √2)) − 2 S φ(R / S) ]

    That is the *sign* of the gap from a random half of the bin and its *size* from the other,
    averaged over all halvings (in the normal limit): never above ECE, zero on average for a
    calibrated model, near ECE for gaps above the noise. Parameters are those of :func:`ece`.

    Examples
    --------
    >>> probs = np.tile([0.75, 0.25], (100, 1))
    >>> y = np.r_[np.zeros(77, int), np.ones(23, int)]  # 77 % correct at confidence 75 %
    >>> round(ece(probs, y), 3), round(debiased_ece(probs, y), 3)
    (0.02, -0.023)
    """
    return bin_outcomes(*top_label(check(probs, y)), bins, binning).debiased_ece


def reliability(
    probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width"
) -> Reliability:
    """Accuracy against confidence per bin, with a 95 % Wilson score interval on each accuracy.

    It treats nodes as independent; where neighbours err together it is too narrow. Parameters are
    those of :func:`ece`.

    Examples
    --------
    >>> curve = reliability(np.tile([0.8, 0.2], (10, 1)), np.arange(10) // 7, bins=5)
    >>> [round(float(row[4]), 3) for row in (curve.accuracy, curve.low, curve.high)]
    [0.7, 0.397, 0.892]
    """
    return bin_outcomes(*top_label(check(probs, y)), bins, binning).reliability()


def kde_ece(probs: Array, y: Array, *, bandwidth: Bandwidth = "released") -> float:
    """Kernel-density calibration error of the predicted class (Zhang et al., ICML 2020).

    ∫ |x − acc(x)| f(x) dx / ∫ f(x) dx over [0, 1], where f is the density of the confidences and
    acc(x) = accuracy · f_correct(x) / f(x), at most 1. Both densities use a triweight kernel of
    standard deviation h = std(confidences of correct nodes) · (2n)^(-1/5), i.e. half-width 3h,
    on 2^14 grid points over [−0.6, 1.6], with the confidences mirrored at the nearer of 0 and 1.
    All confidences equal c give |c − accuracy|; with h = 0 the standard deviation is that of all
    confidences; a half-width below two grid steps (2.7e-4) is raised to two.

    ``bandwidth="released"`` is the half-width 3h, as in the code behind the published tables;
    ``"text"`` is 1.06 σ n^(-1/5), σ the standard deviation of all confidences, as in the text of
    Seo et al. (AAAI 2025). Other parameters are those of :func:`accuracy`.

    Examples
    --------
    >>> kde_ece(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 0]))
    0.25
    """
    check_choice(bandwidth, "bandwidth", get_args(Bandwidth))
    return KdeSums.of(*top_label(check(probs, y))).ece(bandwidth)


@dataclass(frozen=True, eq=False)
class KdeSums:
    """What KDE-ECE is made of, for all nodes and for those that are right; parts add up."""

    grid: Floats  # weights on the grid [2, 16384]
    moments: Floats  # number, sum of confidences and of their squares [2, 3]

    @classmethod
    def of(cls, confidence: Floats, correct: Floats) -> Self:
        """Of confidences in [0, 1] and 0/1 outcomes."""
        parts = (confidence, confidence[correct > 0])
        moments = [[len(part), part.sum(), (part * part).sum()] for part in parts]
        weights = []
        for part in parts:
            mirrored = np.where(part < 0.5, -part, 2 - part)
            position = (np.concatenate([part, mirrored]) - POINTS[0]) / STEP
            weights.append(_shared_by_cells(position, np.ones(len(position)), GRID_SIZE))
        return cls(np.stack(weights), np.array(moments))

    def __add__(self, other: Self) -> Self:
        return type(self)(self.grid + other.grid, self.moments + other.moments)

    def ece(self, bandwidth: Bandwidth = "released") -> float:
        """KDE-ECE of the nodes behind the sums."""
        count, total, squares = self.moments.T
        mean = total / np.maximum(count, 1)
        std = np.sqrt(np.maximum(squares / np.maximum(count, 1) - mean**2, 0.0))
        std[std < 1e-7] = 0.0  # what rounding leaves of equal numbers is no spread
        if not std[0]:
            return float(abs(mean[0] - count[1] / count[0]))
        if bandwidth == "text":
            half_width = 1.06 * std[0] * count[0] ** -0.2
        else:
            half_width = 3 * (std[1] or std[0]) * (2 * count[0]) ** -0.2
        # The grid does not resolve a kernel that is narrower than two of its steps.
        density, right = _densities(self.grid, max(float(half_width), 2 * STEP))
        # Where both densities are below 1e-6 the reference copies the previous grid value instead.
        # With a smooth edge that value is as small as this one; with a narrow kernel the copy would
        # smear a peak over the gap beside it.
        accuracy = np.divide(right, density, out=np.zeros(GRID_SIZE), where=density > 0)
        gaps = np.abs(POINTS - np.minimum(accuracy, 1)) * density
        inside = (POINTS > 0) & (POINTS < 1)
        return min(float(trapezoid(gaps[inside]) / trapezoid(density[inside])), 1.0)


def _densities(weights: Floats, half_width: float) -> Floats:
    """Unnormalised triweight kernel densities on the grid."""
    reach = int(half_width / STEP)
    offsets = np.arange(-reach, reach + 1) * (STEP / half_width)
    kernel = np.maximum(1 - offsets**2, 0) ** 3
    size = next_fast_len(GRID_SIZE + 2 * reach, real=True)
    full: Floats = irfft(rfft(weights, size) * rfft(kernel, size), size)
    return np.maximum(full[:, reach : reach + GRID_SIZE], 0.0)


def _shared_by_cells(position: Floats, weights: Floats, cells: int) -> Floats:
    """Sum of weights on grid points, each shared between the two nearest ones."""
    left = np.minimum(position.astype(np.int64), cells - 2)
    right = position - left
    return bin_sum(left, weights * (1 - right), cells) + bin_sum(left + 1, weights * right, cells)


def smooth_ece(probs: Array, y: Array, *, positive: int | None = None) -> float:
    """Smooth calibration error (Błasiok and Nakkiran, ICLR 2024).

    smECE_σ = ∫₀¹ |(1/n) Σ_i (y_i − f_i) K_σ(t, f_i)| dt with K_σ a Gaussian reflected at 0 and 1;
    smECE is the σ at which smECE_σ = σ: there is no bin to choose. f is the confidence, with
    parameters as of :func:`accuracy`, or P(class), as of :func:`class_reliability`.

    Examples
    --------
    >>> round(smooth_ece(np.linspace(0, 1, 5000), np.ones(5000, bool)), 2)
    0.5
    """
    one_class = positive is not None or getattr(probs, "ndim", 2) == 1
    f, outcome = check_class(probs, y, positive) if one_class else top_label(check(probs, y))
    position = np.clip(f * GRID - 0.5, 0.0, GRID - 1.0)
    waves = dct(_shared_by_cells(position, (outcome - f) / len(f), GRID), norm="ortho")

    def smoothed(sigma: float) -> float:
        """A reflected Gaussian is a factor exp(−(πkσ)²/2) on the k-th cosine."""
        damping = np.exp(-0.5 * (np.pi * sigma * np.arange(GRID)) ** 2)
        return float(np.abs(idct(waves * damping, norm="ortho")).sum())

    finest = 2 / GRID
    if smoothed(finest) <= finest:
        return smoothed(finest)
    # An error is at most 1, whatever the width; 2 is beyond rounding.
    return float(brentq(lambda sigma: smoothed(sigma) - sigma, finest, 2.0, xtol=1e-7))
