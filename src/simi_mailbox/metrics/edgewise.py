"""Edge-wise metrics: are the two ends of an edge jointly calibrated? (Hsu et al., NeurIPS 2022)."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Ints
from simi_mailbox.metrics._inputs import Array, Checked, check, to_numpy, top_label
from simi_mailbox.metrics.binning import bin_outcomes, check_binning
from simi_mailbox.metrics.scores import node_nll, true_class


def edgewise_ece(probs: Array, y: Array, edges: Array, *, bins: int = 15) -> float:
    """ECE over edges: joint confidence of the two predictions against both being correct.

    The confidence of edge (i, j) is max p_i · max p_j; it is correct if both ends are.

    Parameters
    ----------
    probs, y, bins
        As in :func:`ece`; bins are of equal width.
    edges : ndarray or Tensor of int [2, E]
        The edges to evaluate, as rows of ``probs``. Choose those with both ends in the test set;
        listing every edge in both directions does not change the result.

    Examples
    --------
    >>> probs = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> edgewise_ece(probs, np.array([0, 0]), np.array([[0], [1]]))
    0.75
    """
    check_binning(bins)
    checked, (left, right) = _check_edges(probs, y, edges)
    confidence, correct = top_label(checked)
    joint = confidence[left] * confidence[right]
    return bin_outcomes(joint, correct[left] * correct[right], bins).ece


def edgewise_nll(probs: Array, y: Array, edges: Array) -> float:
    """Mean over edges of −ln(p_i(y_i) p_j(y_j)), in nats; parameters as of :func:`edgewise_ece`.

    Examples
    --------
    >>> probs = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> round(edgewise_nll(probs, np.array([0, 1]), np.array([[0], [1]])), 6)
    1.386294
    """
    checked, (left, right) = _check_edges(probs, y, edges)
    loss = node_nll(checked)
    return float((loss[left] + loss[right]).mean())


def edgewise_brier(probs: Array, y: Array, edges: Array) -> float:
    """Brier score of the joint distribution of the two ends, in [0, 2].

    Mean over edges of |p_i|² |p_j|² − 2 p_i(y_i) p_j(y_j) + 1; parameters as of
    :func:`edgewise_ece`.

    Examples
    --------
    >>> probs = np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> edgewise_brier(probs, np.array([0, 1]), np.array([[0], [1]]))
    0.75
    """
    checked, (left, right) = _check_edges(probs, y, edges)
    squares = np.einsum("nk,nk->n", checked.probs, checked.probs, dtype=np.float64)
    true = true_class(checked)
    score = squares[left] * squares[right] - 2 * true[left] * true[right] + 1
    return float(np.clip(score, 0.0, 2.0).mean())


def _check_edges(probs: Array, y: Array, edges: Array) -> tuple[Checked, Ints]:
    checked = check(probs, y)
    array = to_numpy(edges, "edges")
    if array.ndim != 2 or array.shape[0] != 2:
        raise ValueError(f"edges has shape {array.shape}; expected [2, edges].")
    if array.shape[1] == 0:
        raise ValueError("edges holds no edge; a metric over an empty set is undefined.")
    if array.dtype.kind not in "iu":
        raise TypeError(f"edges has dtype {array.dtype}; expected integers.")
    num_nodes = len(checked.y)
    outside = ((array < 0) | (array >= num_nodes)).any(axis=0)
    if outside.any():
        first = int(outside.argmax())
        raise ValueError(
            f"edge {first}, {tuple(array[:, first].tolist())}, names a node outside "
            f"0..{num_nodes - 1}; probs has {num_nodes} rows."
        )
    return checked, array.astype(np.int64, copy=False)
