"""All metrics of one prediction at once."""

from __future__ import annotations

from simi_mailbox.metrics._inputs import Array, check, top_label
from simi_mailbox.metrics.binning import bin_outcomes, check_binning
from simi_mailbox.metrics.calibration_error import classwise_ece_of, debiased_of
from simi_mailbox.metrics.kde import kde_ece_of
from simi_mailbox.metrics.scores import node_brier, node_nll


def evaluate(probs: Array, y: Array, *, bins: int = 15) -> dict[str, float]:
    """Every metric of this package, with its default options.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.
    bins : int
        Number of bins of all binned metrics.

    Returns
    -------
    dict of str to float
        Keys ``accuracy``, ``ece``, ``ece_mass``, ``debiased_ece``, ``classwise_ece``, ``kde_ece``,
        ``nll`` and ``brier``; calibration errors as fractions, not percentages.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import evaluate
    >>> scores = evaluate(np.tile([0.75, 0.25], (4, 1)), np.array([0, 0, 0, 1]))
    >>> scores["accuracy"], scores["ece"], scores["brier"]
    (0.75, 0.0, 0.375)
    """
    check_binning(bins)
    checked = check(probs, y)
    top = top_label(checked)
    counts = bin_outcomes(*top, bins)
    return {
        "accuracy": float(top.correct.mean()),
        "ece": counts.ece,
        "ece_mass": bin_outcomes(*top, bins, "mass").ece,
        "debiased_ece": debiased_of(counts),
        "classwise_ece": classwise_ece_of(checked, bins),
        "kde_ece": kde_ece_of(*top),
        "nll": float(node_nll(checked).mean()),
        "brier": float(node_brier(checked).mean()),
    }
