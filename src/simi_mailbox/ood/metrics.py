"""How well a score separates known from unknown nodes: AUROC, AUPR, FPR95."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Detection:
    """Quality of an out-of-distribution detector; in-distribution nodes are the positives.

    Attributes
    ----------
    auroc : float
        Chance that a known node scores above an unknown one; higher is better, ½ is guessing.
    aupr : float
        Area under precision and recall of the known nodes; higher is better.
    fpr95 : float
        Share of unknown nodes let through when 95 % of the known ones are; lower is better.

    Examples
    --------
    >>> evaluate([0.9, 0.8, 0.7], [0.1, 0.75])
    Detection(auroc=0.8333333333333334, aupr=0.9166666666666666, fpr95=0.5)
    """

    auroc: float
    aupr: float
    fpr95: float


def evaluate(known: Any, unknown: Any) -> Detection:
    """Compare the scores of known (in-distribution) and unknown nodes.

    Parameters
    ----------
    known, unknown : array
        Scores, higher for nodes that look more like the training data. NumPy or torch.
    """
    positive, negative = _scores(known, "known"), _scores(unknown, "unknown")
    true_positives, false_positives = _curve(positive, negative)
    recall = true_positives / positive.size
    precision = true_positives / (true_positives + false_positives)
    steps = np.diff(recall, prepend=0.0)
    enough = int(np.searchsorted(recall, 0.95))
    return Detection(
        auroc=_auroc(positive, negative),
        aupr=float(np.sum(steps * precision)),
        fpr95=float(false_positives[enough] / negative.size),
    )


def _auroc(positive: Floats, negative: Floats) -> float:
    # Rank statistic of Mann and Whitney, ties counting one half.
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left")
    not_above = np.searchsorted(ordered, positive, side="right")
    return float((below + not_above).sum() / (2.0 * positive.size * negative.size))


def _curve(positive: Floats, negative: Floats) -> tuple[Floats, Floats]:
    """Known and unknown nodes at or above every distinct score, from the highest down."""
    scores = np.concatenate([positive, negative])
    order = np.argsort(-scores, kind="stable")
    is_known = np.arange(scores.size) < positive.size
    last_of_tie = np.append(np.diff(scores[order]) != 0, True)
    hits = np.cumsum(is_known[order])[last_of_tie].astype(np.float64)
    taken = (np.flatnonzero(last_of_tie) + 1).astype(np.float64)
    return hits, taken - hits


def _scores(values: Any, name: str) -> Floats:
    if isinstance(values, Tensor):
        values = values.detach().cpu().numpy()
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError(
            f"{name} must be a non-empty list of scores, one per node, got shape "
            f"{list(scores.shape)}"
        )
    if np.isnan(scores).any():
        raise ValueError(f"{name} holds NaN scores; the first is at {np.isnan(scores).argmax()}")
    return scores
