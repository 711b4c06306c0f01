"""Labels as users pass them, cut down to those that may be read."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from torch import Tensor

from simi_mailbox.data.split import IntArray, Split

NO_LABEL = -1


def split_labels(
    y: Any, split: Split, n: int, num_classes: int | None = None
) -> tuple[IntArray, int]:
    """Labels of training and validation nodes, -1 elsewhere, and the number of classes.

    Examples
    --------
    >>> labels, classes = split_labels([0, 1, 2, 1], Split([0], [1], [2]), 4)
    >>> labels.tolist(), classes
    ([0, 1, -1, -1], 2)
    """
    labels = np.full(n, NO_LABEL, dtype=np.int64)
    used = np.concatenate([split.train, split.val])
    labels[used] = read_classes(y, n, used)
    read = labels[used]
    if num_classes is None:
        num_classes = int(read.max()) + 1
    elif not isinstance(num_classes, numbers.Integral):
        raise TypeError(f"num_classes must be a whole number, got {num_classes!r}")
    if read.min() < 0 or read.max() >= num_classes:
        raise ValueError(
            f"labels of training and validation nodes range over {read.min()}..{read.max()}; "
            f"expected 0..{num_classes - 1}"
        )
    return labels, int(num_classes)


def read_classes(y: Any, n: int, nodes: IntArray, *, name: str = "labels") -> IntArray:
    """Class numbers of ``nodes``; what ``y`` [n] holds for other nodes is not looked at.

    Examples
    --------
    >>> read_classes([0.0, 1.0, 0.5], 3, np.array([0, 1])).tolist()
    [0, 1]
    """
    given = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if given.shape == (n, 1):
        given = given[:, 0]
    if given.shape != (n,):
        raise ValueError(f"{name} of shape {list(given.shape)}, expected one for each of {n} nodes")
    if given.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} must be class numbers 0, 1, …, got an array of {given.dtype}; number the "
            "classes first, for example by np.unique(names, return_inverse=True)"
        )
    chosen = given[nodes]
    with np.errstate(invalid="ignore"):
        whole = chosen.astype(np.int64)
    wrong = np.flatnonzero(whole != chosen)
    if wrong.size:
        raise ValueError(
            f"{name} must be whole numbers, the classes 0, 1, …; node {nodes[wrong[0]]} has "
            f"{chosen[wrong[0]]}"
        )
    return whole
