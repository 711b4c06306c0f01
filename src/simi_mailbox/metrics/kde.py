"""KDE-ECE: calibration error of a density estimate, without bins."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, bin_sum, check, top_label

GRID_SIZE = 2**14
GRID_LOW, GRID_HIGH = -0.6, 1.6
STEP = (GRID_HIGH - GRID_LOW) / (GRID_SIZE - 1)
# A kernel narrower than two grid steps is not resolved by the grid.
MIN_HALF_WIDTH = 2 * STEP


def kde_ece(probs: Array, y: Array) -> float:
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

    Returns
    -------
    float
        A fraction in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import kde_ece
    >>> p = np.linspace(0.5, 0.999, 500)
    >>> probs = np.stack([p, 1 - p], axis=1)
    >>> round(kde_ece(probs, np.zeros(500, int)), 2)  # always right, 75 % confident on average
    0.25
    """
    return kde_ece_of(*top_label(check(probs, y)))


def kde_ece_of(confidence: Floats, correct: Floats) -> float:
    """KDE-ECE of confidences in [0, 1] and 0/1 outcomes."""
    accuracy = float(correct.mean())
    if np.ptp(confidence) == 0:
        return abs(float(confidence[0]) - accuracy)

    right = confidence[correct > 0]
    spread = right.std() if right.size and np.ptp(right) > 0 else confidence.std()
    parts = grid_weights(confidence), grid_weights(right)
    return ece_on_grid(*parts, confidence.size, right.size, float(spread))


def grid_weights(values: Floats) -> Floats:
    """Values and their reflections at the nearer of 0 and 1, by linear binning on the grid.

    Of parts of the values they add up to those of all.
    """
    if values.size == 0:
        return np.zeros(GRID_SIZE)
    mirrored = np.where(values < 0.5, -values, 2 - values)
    position = (np.concatenate([values, mirrored]) - GRID_LOW) / STEP
    left = position.astype(np.int64)
    fraction = position - left
    return bin_sum(left, 1 - fraction, GRID_SIZE) + bin_sum(left + 1, fraction, GRID_SIZE)


def ece_on_grid(weights: Floats, right: Floats, nodes: int, correct: int, spread: float) -> float:
    """KDE-ECE from the weights of all ``nodes`` and of those that are right."""
    accuracy = correct / nodes
    half_width = max(3 * spread * (2 * nodes) ** -0.2, MIN_HALF_WIDTH)

    grid = np.linspace(GRID_LOW, GRID_HIGH, GRID_SIZE)
    density = _density(weights, nodes, half_width)
    density_right = _density(right, correct, half_width)
    inside = (grid > 0) & (grid < 1)
    density[~inside] = density_right[~inside] = 0

    share = np.divide(density_right, density, out=np.zeros(GRID_SIZE), where=density > 0)
    integrand = np.abs(grid - np.minimum(accuracy * share, 1)) * density
    # Where both densities are below 1e-6 the reference copies the previous grid value instead.
    # With a smooth edge that value is as small as this one; with a narrow kernel the copy would
    # smear a peak over the gap beside it.
    return min(_trapezoid(integrand[inside]) / _trapezoid(density[inside]), 1.0)


def _density(weights: Floats, count: int, half_width: float) -> Floats:
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
