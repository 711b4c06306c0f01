"""How well a score separates known from unknown nodes: AUROC, AUPR, FPR95."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from simi_mailbox._arrays import Floats
from simi_mailbox.validation import as_numpy


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
    >>> evaluate([4, 1], [3, 2])
    Detection(auroc=0.5, aupr=0.75, fpr95=1.0)
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

    Examples
    --------
    >>> evaluate([0.9, 0.8, 0.7], [0.3, 0.75]).auroc
    0.8333333333333333
    """
    positive, negative = _scores(known, "known"), _scores(unknown, "unknown")
    scores = np.concatenate([positive, negative])
    is_known = np.arange(scores.size) < positive.size
    passed_unknown, passed_known, _ = roc_curve(is_known, scores, drop_intermediate=False)
    return Detection(
        auroc=float(roc_auc_score(is_known, scores)),
        aupr=float(average_precision_score(is_known, scores)),
        fpr95=float(passed_unknown[np.searchsorted(passed_known, 0.95)]),
    )


def _scores(values: Any, name: str) -> Floats:
    scores = as_numpy(values).astype(np.float64)
    if scores.ndim != 1 or scores.size == 0:
        raise ValueError(
            f"{name} must be a non-empty list of scores, one per node, got shape "
            f"{list(scores.shape)}"
        )
    if np.isnan(scores).any():
        raise ValueError(f"{name} holds NaN scores; the first is at {np.isnan(scores).argmax()}")
    return scores
