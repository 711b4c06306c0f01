"""Accuracy and the two proper scores, negative log-likelihood and Brier."""

from __future__ import annotations

import numpy as np

from simi_mailbox._arrays import Floats
from simi_mailbox.metrics._inputs import Array, Checked, check, top_label

#: Smallest probability the log-likelihood distinguishes from zero (the smallest normal float32).
#: The same for every dtype, so that float32 and float64 input agree; a zero costs 87.34 nats.
NLL_FLOOR = float(np.finfo(np.float32).tiny)


def accuracy(probs: Array, y: Array) -> float:
    """Share of nodes whose most probable class is the label, in [0, 1].

    Between equally probable classes the first counts as predicted.

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
    return float(node_accuracy(check(probs, y)).mean())


def nll(probs: Array, y: Array) -> float:
    """Mean negative log-likelihood of the labels, in nats: mean of −ln p_y.

    Probabilities below 1.18e-38 (the smallest normal float32) count as 1.18e-38, so a zero at the
    true class costs 87.34 nats instead of infinity, whatever the dtype.

    Parameters: probs, y as in :func:`accuracy`.

    Examples
    --------
    >>> round(nll(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([1, 0])), 6)
    0.346574
    """
    return float(node_nll(check(probs, y)).mean())


def brier(probs: Array, y: Array) -> float:
    """Multi-class Brier score: mean of Σ_k p_k² − 2 p_y + 1, i.e. of Σ_k (p_k − 1[y = k])².

    In [0, 2]; for two classes twice the binary Brier score.

    Parameters: probs, y as in :func:`accuracy`.

    Examples
    --------
    >>> brier(np.array([[0.5, 0.5], [1.0, 0.0]]), np.array([1, 1]))
    1.25
    """
    return float(node_brier(check(probs, y)).mean())


def node_accuracy(checked: Checked) -> Floats:
    """Accuracy of each node: 0.0 or 1.0."""
    return top_label(checked).correct


def node_nll(checked: Checked) -> Floats:
    """Negative log-likelihood of each node."""
    return -np.log(np.clip(true_class(checked), NLL_FLOOR, 1.0))


def node_brier(checked: Checked) -> Floats:
    """Brier score of each node."""
    # einsum casts in small buffers: no float64 copy of the whole matrix.
    squares = np.einsum("nk,nk->n", checked.probs, checked.probs, dtype=np.float64)
    score: Floats = squares - 2 * true_class(checked) + 1
    # A row sum up to 1e-3 off, or rounding, must not leave the documented range.
    return np.clip(score, 0.0, 2.0)


def true_class(checked: Checked) -> Floats:
    """Probability of the label of each node."""
    rows = np.arange(len(checked.y))
    return checked.probs[rows, checked.y].astype(np.float64)
