"""Probabilities whose largest stays where it was."""

from __future__ import annotations

import torch
from torch import Tensor

APART = 2e-6
"""Relative distance of pooled probabilities from their mean."""


def preserve_predictions(probs: Tensor, predicted: Tensor) -> float:
    """Replace rows, in place, by the nearest ones that have ``predicted`` on top; their share.

    Nearest by Kullback and Leibler: probabilities above that of the predicted class are pooled
    with it, that is replaced by their common mean, largest first, until none is above the mean.
    Rows whose largest probability is that of the predicted class are left alone.

    Examples
    --------
    >>> probs = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], dtype=torch.float64)
    >>> preserve_predictions(probs, torch.tensor([0, 0]))
    0.5
    >>> probs.round(decimals=2).tolist()
    [[0.35, 0.35, 0.3], [0.6, 0.3, 0.1]]
    """
    own = probs.gather(1, predicted[:, None])[:, 0]
    rows = (probs.amax(dim=1) > own).nonzero().flatten()
    if not len(rows):
        return 0.0
    q, top = probs[rows], predicted[rows][:, None]
    others = q.scatter(1, top, -1.0).sort(dim=1, descending=True).values[:, :-1]
    counts = torch.arange(1, q.shape[1], dtype=q.dtype) + 1.0
    mean = (others.cumsum(dim=1) + own[rows][:, None]).div_(counts)
    # The j-th largest is pooled if it is above the mean of the predicted class and those before it.
    before = torch.cat([own[rows][:, None], mean[:, :-1]], dim=1)
    pooled = (others > before).sum(dim=1, keepdim=True)
    level = mean.gather(1, pooled - 1)
    # A little apart, so that the predicted class is on top of logarithms in float32 as well.
    least = others.gather(1, pooled - 1)
    q = torch.where(q >= least, level * (1.0 - APART), q)
    probs[rows] = q.scatter_(1, top, level * (1.0 + APART * pooled.to(q.dtype)))
    return len(rows) / len(probs)
