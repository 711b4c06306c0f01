"""Accepting the most confident predictions only: the error rate at every share accepted."""

from dataclasses import dataclass

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, check, shared_by_equals, top_label


@dataclass(frozen=True)
class RiskCoverage:
    """Errors among the accepted nodes as more and more are accepted, most confident first.

    Arrays [n]: nodes ``accepted``, 1 … n, the error rate among them, the confidence of the last.
    Equally confident nodes share their mean: the curve does not depend on the order of nodes.
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
        """Error rate among the most confident ``share`` of the nodes, rounded up."""
        if not 0 < share <= 1:
            raise ValueError(f"share is {share}; expected a number in (0, 1].")
        # 0.3 of ten is three, whatever the rounding.
        last = max(int(np.ceil(share * len(self.risk) - 1e-9)), 1) - 1
        return float(self.risk[last])


def risk_coverage(probs: Array, y: Array) -> RiskCoverage:
    """The risk–coverage curve of accepting by confidence; parameters as of :func:`accuracy`."""
    confidence, correct = top_label(check(probs, y))
    order = np.argsort(-confidence, kind="stable")
    threshold = confidence[order]
    wrong = shared_by_equals(threshold, 1.0 - correct[order])
    accepted = np.arange(1, len(threshold) + 1)
    return RiskCoverage(accepted, np.cumsum(wrong) / accepted, threshold)


def aurc(probs: Array, y: Array) -> float:
    """Area under the risk–coverage curve: mean error rate over all shares accepted."""
    return risk_coverage(probs, y).aurc


def excess_aurc(probs: Array, y: Array) -> float:
    """`aurc` above that of a perfect ranking: what the order of confidences costs."""
    return risk_coverage(probs, y).excess_aurc


def error_at_share(probs: Array, y: Array, share: float = 0.8) -> float:
    """Error rate among the most confident ``share`` of the nodes."""
    return risk_coverage(probs, y).risk_at(share)
