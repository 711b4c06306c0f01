"""Accuracy and proper scores of nodes and of edges, and error rates of the most confident nodes."""

from dataclasses import dataclass

import numpy as np

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.metrics._inputs import Array, Checked, check, shared_by_equals, top_label
from simi_mailbox.metrics.calibration_error import bin_outcomes
from simi_mailbox.validation import as_numpy

#: Smallest probability the log-likelihood distinguishes from zero (the smallest normal float32).
#: The same for every dtype, so that float32 and float64 input agree; a zero costs 87.34 nats.
NLL_FLOOR = float(np.finfo(np.float32).tiny)


def accuracy(probs: Array, y: Array) -> float:
    """Share of nodes whose most probable class, of equals the first, is the label.

    Parameters
    ----------
    probs : ndarray or Tensor [n, K]
        Probabilities; rows sum to 1.
    y : ndarray or Tensor of int [n]
        Labels in 0..K-1.

    Examples
    --------
    >>> accuracy(np.array([[0.7, 0.3], [0.4, 0.6]]), np.array([0, 0]))
    0.5
    """
    return float(top_label(check(probs, y)).correct.mean())


def nll(probs: Array, y: Array) -> float:
    """Mean negative log-likelihood of the labels, in nats: mean of −ln max(p_y, 1.18e-38).

    A zero at the true class costs 87.34 nats instead of infinity, whatever the dtype. Parameters
    are those of :func:`accuracy`.
    """
    return float(node_nll(check(probs, y)).mean())


def brier(probs: Array, y: Array) -> float:
    """Multi-class Brier score: mean of Σ_k (p_k − 1[y = k])², for two classes twice the binary one.

    Parameters are those of :func:`accuracy`.
    """
    return float(node_brier(check(probs, y)).mean())


def node_nll(checked: Checked) -> Floats:
    """Negative log-likelihood of each node."""
    return -np.log(np.clip(_true_class(checked), NLL_FLOOR, 1.0))


def node_brier(checked: Checked) -> Floats:
    """Brier score of each node."""
    return _brier(_squares(checked), _true_class(checked))


def _brier(squares: Floats, true: Floats) -> Floats:
    # A row sum up to 1e-3 off, or rounding, must not leave the documented range.
    return np.clip(squares - 2 * true + 1, 0.0, 2.0)


def _squares(checked: Checked) -> Floats:
    # einsum casts in small buffers: no float64 copy of the whole matrix.
    squares: Floats = np.einsum("nk,nk->n", checked.probs, checked.probs, dtype=np.float64)
    return squares


def _true_class(checked: Checked) -> Floats:
    """Probability of the label of each node."""
    return checked.probs[np.arange(len(checked.y)), checked.y].astype(np.float64)


def edgewise_ece(probs: Array, y: Array, edges: Array, *, bins: int = 15) -> float:
    """ECE over edges: max p_i · max p_j against both predictions being correct.

    ``edges`` [2, E] are rows of ``probs``, with both ends in the test set; listing every edge in
    both directions does not change the result. Other parameters are those of :func:`ece`.

    Examples
    --------
    >>> edgewise_ece(np.full((2, 2), 0.5), np.array([0, 0]), np.array([[0], [1]]))
    0.75
    """
    checked, (left, right) = _check_edges(probs, y, edges)
    confidence, correct = top_label(checked)
    joint = confidence[left] * confidence[right]
    return bin_outcomes(joint, correct[left] * correct[right], bins).ece


def edgewise_nll(probs: Array, y: Array, edges: Array) -> float:
    """Mean over edges of −ln(p_i(y_i) p_j(y_j)), in nats; parameters as of :func:`edgewise_ece`."""
    checked, (left, right) = _check_edges(probs, y, edges)
    loss = node_nll(checked)
    return float((loss[left] + loss[right]).mean())


def edgewise_brier(probs: Array, y: Array, edges: Array) -> float:
    """Brier score of the joint distribution of both ends; parameters as of :func:`edgewise_ece`.

    Mean over edges of |p_i|² |p_j|² − 2 p_i(y_i) p_j(y_j) + 1.
    """
    checked, (left, right) = _check_edges(probs, y, edges)
    squares, true = _squares(checked), _true_class(checked)
    return float(_brier(squares[left] * squares[right], true[left] * true[right]).mean())


def _check_edges(probs: Array, y: Array, edges: Array) -> tuple[Checked, Ints]:
    checked = check(probs, y)
    array = as_numpy(edges, "edges")
    if array.ndim != 2 or len(array) != 2 or not array.size or array.dtype.kind not in "iu":
        raise ValueError(
            f"edges has shape {array.shape} and dtype {array.dtype}; expected integers [2, edges], "
            "at least one edge."
        )
    num_nodes = len(checked.y)
    outside = ((array < 0) | (array >= num_nodes)).any(axis=0)
    if outside.any():
        first = int(outside.argmax())
        raise ValueError(
            f"edge {first}, {tuple(array[:, first].tolist())}, names a node outside "
            f"0..{num_nodes - 1}; probs has {num_nodes} rows."
        )
    return checked, array.astype(np.int64, copy=False)


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
