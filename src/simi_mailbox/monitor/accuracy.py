"""How accurate predictions are on nodes without labels: an estimate, an interval, and how made.

A  mean calibrated confidence of the nodes
D  accuracy on the calibration nodes + agreement with a model of the features alone on the nodes
   − the same agreement on the calibration nodes
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox._arrays import Bools, Floats, Ints

# Fixed on the structural shifts of CoraML, Citeseer and Photo.
WEIGHT_OF_CONFIDENCE = 0.25
PER_DISTANCE = {"A": 0.10, "A and D": 0.07}
"""Standard error by which an estimate may be off, per unit of drift distance."""
PER_GAP = 0.25
Z = 1.96
FOLDS = 5


@dataclass(frozen=True)
class Estimate:
    """Accuracy, standard error (infinite if unknown), what it is made of, and A − D if both are."""

    accuracy: float
    error: float
    how: str
    gap: float | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval, within [0, 1]."""
        half = Z * self.error
        return max(self.accuracy - half, 0.0), min(self.accuracy + half, 1.0)


def estimate(
    confidence: Floats,
    reference: tuple[float, int],
    distance: float,
    agreement: tuple[Bools, Bools] | None,
) -> Estimate:
    """From the calibrated confidence of some nodes.

    ``reference`` is accuracy and number of the calibration nodes, ``agreement`` whether calibration
    nodes, and these nodes, are predicted alike by a model of the features alone.
    """
    a, n = float(confidence.mean()), len(confidence)
    before, m = reference
    variance = a * (1.0 - a) / n + before * (1.0 - before) / m
    if agreement is None:
        found, how, gap = a, "A", None
    else:
        then, now = (float(part.mean()) for part in agreement)
        d = min(max(before + now - then, 0.0), 1.0)
        found, how, gap = d + WEIGHT_OF_CONFIDENCE * (a - d), "A and D", a - d
        variance += (then * (1.0 - then) / m + now * (1.0 - now) / n) / 4.0
        if distance > 0.0:
            variance += PER_GAP * gap**2
    variance += (PER_DISTANCE[how] * distance) ** 2
    return Estimate(found, math.sqrt(variance), how, gap)


def with_labels(guess: Estimate, confidence: Floats, labelled: Ints, right: Bools) -> Estimate:
    """An estimate without labels, and what some labels tell, weighted by their precision."""
    off = right - confidence[labelled]
    told = float(np.clip(confidence.mean() + off.mean(), 0.0, 1.0))
    # As if one right and one wrong node had been added: a few labels, all right, prove little.
    spread = float(((off**2).sum() + 0.5) / (len(off) + 2.0))
    error = math.sqrt(spread / len(off))
    if math.isinf(guess.error):
        return Estimate(told, error, "labels", guess.gap)
    weights = np.array([guess.error**-2, error**-2])
    found = float(weights @ [guess.accuracy, told] / weights.sum())
    return Estimate(found, float(weights.sum()) ** -0.5, f"{guess.how} and labels", guess.gap)


def feature_predictions(features: Any, calibration: Ints, y: Ints) -> Ints:
    """Classes by logistic regression on features; of calibration nodes without their labels."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    x = features.tocsr() if hasattr(features, "tocsr") else np.asarray(features)
    model = LogisticRegression(max_iter=300)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    found: Ints = model.fit(x[calibration], y).predict(x)
    found[calibration] = cross_val_predict(model, x[calibration], y, cv=folds)
    return found
