"""How much ECE a perfectly calibrated model shows by chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, check_probs, unit
from simi_mailbox.metrics.binning import check_binning, width_index

# Above this variance the number of correct nodes of a bin is drawn from its normal limit; the error
# of a mean absolute gap is then below 0.1 %. Below it every node is drawn.
NORMAL_VARIANCE = 100.0
# Uniform numbers held at once (float32): 8 MB.
BLOCK = 2_000_000


@dataclass(frozen=True)
class NoiseFloor:
    """Mean and standard deviation of the ECE of a perfectly calibrated model.

    Examples
    --------
    >>> NoiseFloor(mean=0.019, std=0.004).mean
    0.019
    """

    mean: float
    std: float


def noise_floor(probs: Array, *, bins: int = 15, draws: int = 200, seed: int = 0) -> NoiseFloor:
    """Expected ECE of a perfectly calibrated model with these very confidences and node count.

    Labels are simulated so that each prediction is correct with exactly its confidence,
    independently of the others, and the equal-width ECE of each simulated set is computed. An
    observed ECE near ``mean`` cannot be told from perfect calibration. No label is read.

    Parameters
    ----------
    probs : ndarray or Tensor [n, K]
        Probabilities; rows sum to 1.
    bins : int
        Number of equal-width bins.
    draws : int
        Number of simulated label sets.
    seed : int
        Seed of the simulation.

    Returns
    -------
    NoiseFloor
        ``mean`` and ``std`` over the draws.

    Notes
    -----
    Within a bin only the number of correct nodes matters. Where its variance Σ c(1 − c) exceeds 100
    it is drawn from the normal distribution, elsewhere node by node.

    Examples
    --------
    >>> floor = noise_floor(np.tile([0.8, 0.2], (400, 1)), seed=0)
    >>> abs(floor.mean - (2 / np.pi * 0.8 * 0.2 / 400) ** 0.5) < 0.002
    True
    """
    check_binning(bins)
    if draws < 2:
        raise ValueError(f"draws is {draws}; expected at least 2, to estimate a spread.")
    confidence = unit(check_probs(probs).max(axis=1))
    simulated = calibrated_ece(confidence, bins, draws, np.random.default_rng(seed))
    return NoiseFloor(float(simulated.mean()), float(simulated.std(ddof=1)))


def calibrated_ece(confidence: Floats, bins: int, draws: int, rng: np.random.Generator) -> Floats:
    """ECE of ``draws`` simulated label sets for which the confidences are exactly right."""
    index = width_index(confidence, bins)
    variance = np.bincount(index, confidence * (1 - confidence), bins)
    total = np.zeros(draws)
    for b in np.flatnonzero(variance):
        if variance[b] > NORMAL_VARIANCE:
            total += np.abs(rng.standard_normal(draws)) * np.sqrt(variance[b])
        else:
            total += np.abs(_gaps(confidence[index == b], draws, rng))
    return total / len(confidence)


def _gaps(confidence: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Number correct minus its expectation, drawn node by node in blocks of bounded memory."""
    # Confidence 1 has no noise; such nodes can be the bulk of a saturated model's last bin.
    uncertain = confidence[(confidence > 0) & (confidence < 1)].astype(np.float64)
    gaps = np.full(draws, -uncertain.sum())
    rows = max(1, BLOCK // len(uncertain))
    for start in range(0, draws, rows):
        stop = min(start + rows, draws)
        uniform = rng.random((stop - start, len(uncertain)), dtype=np.float32)
        gaps[start:stop] += np.count_nonzero(uniform < uncertain, axis=1)
    return gaps
