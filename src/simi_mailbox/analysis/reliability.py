"""The reliability curve of some nodes, with a bootstrap band."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from simi_mailbox.analysis.judged import judged_rows
from simi_mailbox.metrics import Reliability, reliability


def reliability_curve(
    probs: Any,
    y: Any,
    *,
    nodes: Any = None,
    bins: int = 15,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Reliability:
    """Reliability of ``nodes`` with counts and a bootstrap band around each accuracy.

    Nodes are drawn with replacement ``draws`` times. A bin's counts of right and wrong nodes in
    such a draw are multinomial, so that they are drawn directly: the cost does not grow with the
    number of nodes. Bins in which all nodes are right, or all wrong, show no spread under the
    bootstrap however few they are; they keep the Wilson interval of `metrics.reliability`.

    Parameters
    ----------
    probs, y, nodes
        As in `judge`; labels are needed.
    bins : int
        Number of bins of equal width.
    level : float
        Coverage of the band in each bin.
    draws, seed : int
        Number of bootstrap samples and seed.

    Returns
    -------
    Reliability
        As of `metrics.reliability`, with ``low`` and ``high`` from the bootstrap.

    Examples
    --------
    >>> curve = reliability_curve(np.tile([0.8, 0.2], (100, 1)), np.repeat([0, 1], [70, 30]))
    >>> bool(curve.low[12] < 0.7 < curve.high[12])
    True
    """
    rows = judged_rows(probs, y, nodes)
    curve = reliability(rows.probs, rows.known_labels, bins=bins, band=level)
    right = np.rint(np.nan_to_num(curve.accuracy * curve.counts)).astype(np.int64)
    cells = np.concatenate([right, curve.counts - right])
    total = int(cells.sum())
    drawn = np.random.default_rng(seed).multinomial(total, cells / total, size=draws)
    hits, size = drawn[:, :bins], drawn[:, :bins] + drawn[:, bins:]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(size > 0, hits / size, np.nan)
    mixed = (right > 0) & (right < curve.counts)
    low, high = curve.low.copy(), curve.high.copy()
    tails = [(1 - level) / 2, (1 + level) / 2]
    if mixed.any():
        low[mixed], high[mixed] = np.nanquantile(share[:, mixed], tails, axis=0)
    return dataclasses.replace(curve, low=low, high=high)
