"""How far probabilities are from the truth, in the worst bin."""

from __future__ import annotations

from typing import Any

import numpy as np


def largest_deviation(probs: Any, y: Any, bins: int = 10) -> float:
    """Largest gap, in standard errors, between frequency and probability over bins."""
    hit = (y[:, None] == np.arange(probs.shape[1])).ravel()
    p = probs.ravel()
    place = np.minimum((p * bins).astype(int), bins - 1)
    gaps = []
    for k in range(bins):
        inside = place == k
        variance = (p * (1 - p))[inside].sum()
        if variance > 5:
            gaps.append(abs((hit - p)[inside].sum()) / np.sqrt(variance))
    assert len(gaps) >= 5
    return float(max(gaps))
