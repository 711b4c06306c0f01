"""Smooth ECE: the calibration error at its own resolution, without bins."""

from __future__ import annotations

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, bin_sum, check, check_class, top_label

GRID = 4096
"""Cells of [0, 1]; the smallest kernel that they resolve is two cells wide."""


def smooth_ece(
    probs: Array, y: Array, *, positive: int | None = None, sigma: float | None = None
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
