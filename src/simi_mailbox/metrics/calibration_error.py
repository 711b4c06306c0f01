"""Expected calibration error, over the predicted class and per class."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from simi_mailbox.metrics._inputs import Checked, check, top_label, unit
from simi_mailbox.metrics.binning import Binning, bin_outcomes, check_binning

if TYPE_CHECKING:
    from simi_mailbox.metrics._inputs import Array


def ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    """Expected calibration error of the predicted class.

    ECE = Σ_b (n_b / n) · |mean confidence in b − accuracy in b|; empty bins contribute nothing.

    Parameters
    ----------
    probs : ndarray or Tensor [n, K]
        Probabilities; rows sum to 1.
    y : ndarray or Tensor of int [n]
        Labels in 0..K-1.
    bins : int
        Number of bins M.
    binning : {"width", "mass"}
        ``"width"``: bins [k/M, (k+1)/M), the last closed, compared in float64. ``"mass"``: the
        sorted confidences cut at floor(k n / M); nodes of equal confidence share their mean
        outcome, so that the order of the nodes does not matter.

    Returns
    -------
    float
        A fraction in [0, 1], not a percentage.

    See Also
    --------
    noise_floor : how large this is for a perfectly calibrated model.

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import ece
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25], [0.0, 1.0]])
    >>> round(ece(probs, np.array([0, 1, 1])), 6)
    0.166667
    """
    check_binning(bins, binning)
    return bin_outcomes(*top_label(check(probs, y)), bins, binning).ece


def classwise_ece(probs: Array, y: Array, *, bins: int = 15, binning: Binning = "width") -> float:
    """Class-wise ECE: the ECE of p_k against 1[y = k] over all nodes, averaged over the classes.

    Most of each class's mass lies in the lowest bin, so values shrink as the number of classes
    grows; compare models of the same task only.

    Parameters
    ----------
    probs : ndarray or Tensor [n, K]
        Probabilities; rows sum to 1.
    y : ndarray or Tensor of int [n]
        Labels in 0..K-1.
    bins, binning
        As in :func:`ece`.

    Returns
    -------
    float
        A fraction in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from simi_mailbox.metrics import classwise_ece
    >>> probs = np.array([[0.75, 0.25], [0.75, 0.25]])
    >>> classwise_ece(probs, np.array([0, 1]))
    0.25
    """
    check_binning(bins, binning)
    return classwise_ece_of(check(probs, y), bins, binning)


def classwise_ece_of(checked: Checked, bins: int = 15, binning: Binning = "width") -> float:
    """Class-wise ECE of checked input; one class at a time, so memory grows with n, not n K."""
    probs, y = checked
    return float(
        np.mean(
            [
                bin_outcomes(unit(probs[:, k]), (y == k).astype(np.float64), bins, binning).ece
                for k in range(probs.shape[1])
            ]
        )
    )
