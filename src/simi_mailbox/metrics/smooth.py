"""Calibration errors without bins: kernel densities, and smooth ECE at its own resolution."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np
from scipy.fft import dct, idct, irfft, next_fast_len, rfft
from scipy.integrate import trapezoid
from scipy.optimize import brentq

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, bin_sum, check, check_choice, check_class, top_label

GRID_SIZE = 2**14
POINTS, STEP = np.linspace(-0.6, 1.6, GRID_SIZE, retstep=True)
GRID = 4096
"""Cells of [0, 1] for smooth ECE; the smallest kernel that they resolve is two cells wide."""

Bandwidth = Literal["released", "text"]


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
    smECE is the σ at which smECE_σ = σ: there is no bin to choose. Parameters are those of
    :func:`accuracy`, f the confidence of the predicted class; or those of
    :func:`class_reliability`, f the P(class).

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
