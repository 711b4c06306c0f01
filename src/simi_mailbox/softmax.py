"""Softmax with a temperature per node, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK_ELEMENTS = 1 << 17
"""Logits looked at together: a block of float64 and its copy fit into a processor's cache."""


def row_blocks(rows: int, columns: int, elements: int = BLOCK_ELEMENTS) -> Iterator[slice]:
    """Cut ``rows`` into slices of at most ``elements`` numbers (and at least one row).

    Examples
    --------
    >>> [(s.start, s.stop) for s in row_blocks(5, 10, elements=20)]
    [(0, 2), (2, 4), (4, 5)]
    """
    step = max(1, elements // max(1, columns))
    for start in range(0, rows, step):
        yield slice(start, min(rows, start + step))


def scaled_softmax(logits: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """softmax(z_i / T_i) in the dtype of the logits; ``temperature`` is a number or one per node.

    The largest logit is subtracted before dividing, so that nothing overflows.

    Examples
    --------
    >>> scaled_softmax(torch.tensor([[1e4, -1e4]]), 1.0).tolist()
    [[1.0, 0.0]]
    """
    probs = logits - logits.amax(dim=1, keepdim=True)
    if isinstance(temperature, Tensor):
        probs /= temperature.to(probs.dtype).reshape(-1, 1)
    else:
        probs /= temperature
    probs.exp_()
    probs /= probs.sum(dim=1, keepdim=True)
    return probs


def confidence(logits: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    """Largest probability of every node, max_k softmax(z_i / T_i)_k, in float64.

    Examples
    --------
    >>> confidence(torch.zeros(1, 4)).tolist()
    [0.25]
    """
    n, k = logits.shape
    result = torch.empty(n, dtype=torch.float64)
    for rows in row_blocks(n, k):
        gaps = top_gaps(logits[rows])
        gaps /= temperature[rows, None] if isinstance(temperature, Tensor) else temperature
        result[rows] = gaps.exp_().sum(dim=1).reciprocal_()
    return result


def top_gaps(logits: Tensor) -> Tensor:
    """z_ik − max_l z_il in float64: never positive, zero at the predicted class.

    Examples
    --------
    >>> top_gaps(torch.tensor([[1.0, 3.0]])).tolist()
    [[-2.0, 0.0]]
    """
    z = logits.to(torch.float64)
    return z - z.amax(dim=1, keepdim=True)
