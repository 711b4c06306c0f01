"""Calibration errors without bins: kernel densities, and smooth ECE at its own resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, bin_sum, check, check_class, top_label

GRID_SIZE = 2**14
GRID_LOW, GRID_HIGH = -0.6, 1.6
STEP = (GRID_HIGH - GRID_LOW) / (GRID_SIZE - 1)
# A kernel narrower than two grid steps is not resolved by the grid.
MIN_HALF_WIDTH = 2 * STEP


Bandwidth = Literal["released", "text"]


def kde_ece(probs: Array, y: Array, *, bandwidth: Bandwidth = "released") -> float:
    """Kernel-density calibration error of the predicted class (Zhang et al., ICML 2020).

    ∫ |x − acc(x)| f(x) dx / ∫ f(x) dx over [0, 1], where f is the density of the confidences and
    acc(x) = accuracy · f_correct(x) / f(x), at most 1. Both densities use a triweight kernel of
    standard deviation h = std(confidences of correct nodes) · (2n)^(-1/5), i.e. half-width 3h,
    on 2^14 grid points over [−0.6, 1.6], with the confidences mirrored at the nearer of 0 and 1.

    Where that recipe is undefined:

    * all confidences equal c: |c − accuracy|, the limit of a vanishing bandwidth;
    * fewer than two correct nodes, or all correct nodes of one confidence (h = 0): the standard
      deviation of all confidences replaces that of the correct ones;
    * no correct node: acc(x) = 0, so the result is about the mean confidence;
    * a half-width below two grid steps (2.7e-4) is raised to two grid steps.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.
    bandwidth : {"released", "text"}
        The half-width 3h above, as in the code behind the published tables; or 1.06 σ n^(-1/5),
        σ the standard deviation of all confidences, as in the text of Seo et al. (AAAI 2025).

    Examples
    --------
    >>> p = np.linspace(0.5, 0.999, 500)
    >>> probs = np.stack([p, 1 - p], axis=1)
    >>> round(kde_ece(probs, np.zeros(500, int)), 2)  # always right, 75 % confident on average
    0.25
    """
    if bandwidth not in get_args(Bandwidth):
        raise ValueError(f"bandwidth must be 'released' or 'text', got {bandwidth!r}")
    return KdeSums.of(*top_label(check(probs, y))).ece_of(bandwidth)


@dataclass(frozen=True, eq=False)
class KdeSums:
    """What KDE-ECE is made of, for all nodes and for those that are right; parts add up.

    ``grid`` [2, 16384] are their weights on the grid, ``moments`` [2, 3] their number and the sums
    of their confidences and of the squares.
    """

    grid: Floats
    moments: Floats

    @classmethod
    def of(cls, confidence: Floats, correct: Floats) -> KdeSums:
        """Of confidences in [0, 1] and 0/1 outcomes."""
        parts = (confidence, confidence[correct > 0])
        moments = [[len(part), part.sum(), (part * part).sum()] for part in parts]
        return cls(np.stack([_grid_weights(part) for part in parts]), np.array(moments))

    def __add__(self, other: KdeSums) -> KdeSums:
        return KdeSums(self.grid + other.grid, self.moments + other.moments)

    @property
    def ece(self) -> float:
        """KDE-ECE of the nodes behind the sums."""
        return self.ece_of("released")

    def ece_of(self, bandwidth: Bandwidth) -> float:
        """The same with a bandwidth of one's choice."""
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
        return _ece_on_grid(self.grid, count, max(float(half_width), MIN_HALF_WIDTH))


def _grid_weights(values: Floats) -> Floats:
    """Values and their reflections at the nearer of 0 and 1, by linear binning on the grid."""
    if values.size == 0:
        return np.zeros(GRID_SIZE)
    mirrored = np.where(values < 0.5, -values, 2 - values)
    position = (np.concatenate([values, mirrored]) - GRID_LOW) / STEP
    left = position.astype(np.int64)
    fraction = position - left
    return bin_sum(left, 1 - fraction, GRID_SIZE) + bin_sum(left + 1, fraction, GRID_SIZE)


def _ece_on_grid(weights: Floats, count: Floats, half_width: float) -> float:
    nodes, correct = count
    grid = np.linspace(GRID_LOW, GRID_HIGH, GRID_SIZE)
    density, density_right = (
        _density(*part, half_width) for part in zip(weights, count, strict=True)
    )
    inside = (grid > 0) & (grid < 1)
    density[~inside] = density_right[~inside] = 0

    share = np.divide(density_right, density, out=np.zeros(GRID_SIZE), where=density > 0)
    integrand = np.abs(grid - np.minimum(correct / nodes * share, 1)) * density
    # Where both densities are below 1e-6 the reference copies the previous grid value instead.
    # With a smooth edge that value is as small as this one; with a narrow kernel the copy would
    # smear a peak over the gap beside it.
    return min(_trapezoid(integrand[inside]) / _trapezoid(density[inside]), 1.0)


def _density(weights: Floats, count: float, half_width: float) -> Floats:
    """Triweight kernel density of ``count`` mirrored values on the grid: convolution by FFT."""
    if count == 0:
        return np.zeros(GRID_SIZE)
    reach = int(half_width / STEP)
    offsets = np.arange(-reach, reach + 1) * (STEP / half_width)
    kernel = 35 / 32 * np.maximum(1 - offsets**2, 0) ** 3 / half_width
    size = 1 << (GRID_SIZE + 2 * reach).bit_length()
    shares = weights / (2 * count)
    full = np.fft.irfft(np.fft.rfft(shares, size) * np.fft.rfft(kernel, size), size)
    return 2 * np.maximum(full[reach : reach + GRID_SIZE], 0)


def _trapezoid(values: Floats) -> float:
    """Trapezoid rule with unit step (the step cancels in a ratio)."""
    return float(values.sum() - (values[0] + values[-1]) / 2)


GRID = 4096
"""Cells of [0, 1]; the smallest kernel that they resolve is two cells wide."""


def smooth_ece(
    probs: Array, y: Array, *, positive: int | str | None = None, sigma: float | None = None
) -> float:
    """Smooth calibration error (Błasiok and Nakkiran, ICLR 2024).

    smECE_σ = ∫₀¹ |(1/n) Σ_i (y_i − f_i) K_σ(t, f_i)| dt with K_σ a Gaussian reflected at 0 and 1;
    smECE is the σ at which smECE_σ = σ. It is consistent, and continuous in the confidences: there
    is no bin to choose.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`, or P(class) [n] and whether a node is of the class.
    positive : int, optional
        The class that f is the probability of; the confidence of the predicted class if not given.
    sigma : float, optional
        A fixed width of the kernel instead of its own.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> round(smooth_ece(p, rng.random(5000) < p), 2), round(smooth_ece(p, p >= 0), 2)
    (0.02, 0.5)
    """
    one_class = positive is not None or getattr(probs, "ndim", 2) == 1
    f, outcome = check_class(probs, y, positive) if one_class else top_label(check(probs, y))
    waves = dct(_on_grid(f, outcome - f), norm="ortho")
    if sigma is not None:
        if not sigma > 0:
            raise ValueError(f"sigma is {sigma}; expected a positive width.")
        return _smoothed(waves, sigma)
    finest = 2 / GRID
    if _smoothed(waves, finest) <= finest:
        return _smoothed(waves, finest)
    # An error is at most 1, whatever the width; 2 is beyond rounding.
    return float(brentq(lambda width: _smoothed(waves, width) - width, finest, 2.0, xtol=1e-7))


def _on_grid(f: Floats, residual: Floats) -> Floats:
    """Mean residuals, each shared between the centres of the two nearest cells."""
    place = np.clip(f * GRID - 0.5, 0.0, GRID - 1.0)
    left = np.minimum(place.astype(np.int64), GRID - 2)
    right = place - left
    sums = bin_sum(left, residual * (1 - right), GRID) + bin_sum(left + 1, residual * right, GRID)
    return sums / len(f)


def _smoothed(waves: Floats, sigma: float) -> float:
    """smECE_σ: a reflected Gaussian is a factor exp(−(πkσ)²/2) on the k-th cosine."""
    damping = np.exp(-0.5 * (np.pi * sigma * np.arange(GRID)) ** 2)
    return float(np.abs(idct(waves * damping, norm="ortho")).sum())
