"""Acting on the surest predictions only: errors among the accepted, at every share accepted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, check, top_label
from simi_mailbox.metrics.binning import shared_by_equals
from simi_mailbox.metrics.sets import binomial_interval


@dataclass(frozen=True)
class RiskCoverage:
    """Errors among the accepted nodes as more and more are accepted, surest first.

    Attributes
    ----------
    accepted : array [n]
        1 … n: nodes accepted.
    risk : array [n]
        Share of wrong predictions among them. Equally sure nodes come in any order, so they share
        their mean: the curve does not depend on how nodes are numbered.
    threshold : array [n]
        Confidence of the last one accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import RiskCoverage
    >>> curve = RiskCoverage(np.array([1, 2]), np.array([0.0, 0.5]), np.array([0.9, 0.8]))
    >>> curve.aurc, curve.excess_aurc, curve.risk_at(0.5)
    (0.25, 0.0, 0.0)
    """

    accepted: Ints
    risk: Floats
    threshold: Floats

    @property
    def share(self) -> Floats:
        """Share of nodes accepted."""
        return np.asarray(self.accepted / len(self.accepted))

    @property
    def aurc(self) -> float:
        """Area under the curve: mean risk over all shares."""
        return float(self.risk.mean())

    @property
    def excess_aurc(self) -> float:
        """The area above that of a perfect ranking of the same errors (all right ones first)."""
        n = len(self.accepted)
        right = n - self.risk[-1] * n
        best = np.maximum(self.accepted - right, 0) / self.accepted
        return float(self.risk.mean() - best.mean())

    def risk_at(self, share: float) -> float:
        """Error rate among the surest ``share`` of the nodes (rounded up to whole nodes)."""
        if not 0 < share <= 1:
            raise ValueError(f"share is {share}; expected a number in (0, 1].")
        return float(self.risk[_last(share, len(self.risk))])

    def interval_at(self, share: float, level: float = 0.95) -> tuple[float, float]:
        """Exact (Clopper–Pearson) interval of `risk_at`, as if that many nodes had been drawn."""
        risk = self.risk_at(share)
        count = _last(share, len(self.risk)) + 1
        low, high = binomial_interval(np.array([round(risk * count)]), np.array([count]), level)
        return float(low[0]), float(high[0])


def risk_coverage(probs: Array, y: Array) -> RiskCoverage:
    """The risk–coverage curve of accepting by confidence.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import risk_coverage
    >>> probs = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    >>> curve = risk_coverage(probs, np.array([0, 1, 0]))
    >>> curve.risk.round(2).tolist(), round(curve.aurc, 3), round(curve.excess_aurc, 3)
    ([0.0, 0.5, 0.33], 0.278, 0.167)
    """
    confidence, correct = top_label(check(probs, y))
    order = np.argsort(-confidence, kind="stable")
    sure = confidence[order]
    wrong = shared_by_equals(sure, 1.0 - correct[order])
    accepted = np.arange(1, len(sure) + 1)
    return RiskCoverage(accepted, np.cumsum(wrong) / accepted, sure)


def aurc(probs: Array, y: Array) -> float:
    """Area under the risk–coverage curve: mean error rate over all shares accepted.

    Small if there are few errors, and if they are the unsure nodes.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import aurc
    >>> aurc(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]))
    0.25
    """
    return risk_coverage(probs, y).aurc


def excess_aurc(probs: Array, y: Array) -> float:
    """`aurc` above that of a perfect ranking: what the order of confidences costs.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import excess_aurc
    >>> excess_aurc(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([1, 0]))
    0.5
    """
    return risk_coverage(probs, y).excess_aurc


def error_at_share(probs: Array, y: Array, share: float = 0.8) -> float:
    """Error rate among the surest ``share`` of the nodes.

    Parameters
    ----------
    probs, y
        As in :func:`accuracy`.
    share : float
        Of nodes accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import error_at_share
    >>> error_at_share(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([0, 1]), share=0.5)
    0.0
    """
    return risk_coverage(probs, y).risk_at(share)


def _last(share: float, n: int) -> int:
    """Index of the last node accepted; 0.3 of ten is three, whatever the rounding."""
    return max(int(np.ceil(share * n - 1e-9)), 1) - 1
