"""`Split`: which nodes are trained on, which calibrate, which are tested."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from simi_mailbox._arrays import Bools, Ints
from simi_mailbox.validation import NO_LABEL, read_classes

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint, non-empty sets of node numbers, each stored sorted and read-only.

    Parameters
    ----------
    train, val, test
        Node numbers of each part. Nodes may be in no part.

    Examples
    --------
    >>> split = Split(train=[2, 0], val=[1], test=[3, 4])
    >>> split.train.tolist()
    [0, 2]
    >>> split
    Split(train=2, val=1, test=2)
    """

    train: Ints
    val: Ints
    test: Ints

    def __post_init__(self) -> None:
        for part in PARTS:
            object.__setattr__(self, part, _indices(getattr(self, part), part))
        for first, second in combinations(PARTS, 2):
            shared = np.intersect1d(getattr(self, first), getattr(self, second), assume_unique=True)
            if shared.size:
                raise ValueError(
                    f"{first} and {second} share {shared.size} nodes (the first is node "
                    f"{shared[0]}); the parts of a split must be disjoint"
                )

    @classmethod
    def from_masks(cls, train: Any, val: Any, test: Any) -> Split:
        """Build from three boolean masks of one length.

        Examples
        --------
        >>> Split.from_masks([True, False, False], [False, True, False], [False, False, True])
        Split(train=1, val=1, test=1)
        """
        masks = [np.asarray(mask) for mask in (train, val, test)]
        for part, mask in zip(PARTS, masks, strict=True):
            if mask.dtype != np.bool_ or mask.ndim != 1:
                raise TypeError(
                    f"the {part} mask must be boolean with one axis, "
                    f"got {mask.dtype} of shape {list(mask.shape)}"
                )
        if len({mask.size for mask in masks}) != 1:
            raise ValueError(f"masks have different lengths: {[mask.size for mask in masks]}")
        return cls(*(np.flatnonzero(mask) for mask in masks))

    def check(self, num_nodes: int) -> Split:
        """Return this split, or raise if it names a node that the graph does not have."""
        for part in PARTS:
            last = int(getattr(self, part)[-1])
            if last >= num_nodes:
                raise ValueError(
                    f"the split does not fit the graph: {part} holds node {last}, "
                    f"but nodes are numbered 0..{num_nodes - 1}"
                )
        return self

    def masks(self, num_nodes: int) -> tuple[Bools, Bools, Bools]:
        """Boolean masks (train, val, test) of length ``num_nodes``."""
        self.check(num_nodes)
        masks = []
        for part in PARTS:
            mask = np.zeros(num_nodes, dtype=np.bool_)
            mask[getattr(self, part)] = True
            masks.append(mask)
        return masks[0], masks[1], masks[2]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of nodes in (train, val, test)."""
        return self.train.size, self.val.size, self.test.size

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Split):
            return NotImplemented
        return all(np.array_equal(getattr(self, p), getattr(other, p)) for p in PARTS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        train, val, test = self.sizes
        return f"Split(train={train}, val={val}, test={test})"


def _indices(value: Any, part: str) -> Ints:
    given = np.asarray(value)
    if given.size == 0:
        raise ValueError(f"the {part} part of the split is empty; every part needs a node")
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
        raise TypeError(
            f"the {part} part must be a one-dimensional array of node numbers, got "
            f"{given.dtype} of shape {list(given.shape)}; use Split.from_masks for masks"
        )
    unique, counts = np.unique(given.astype(np.int64), return_counts=True)
    if unique.size != given.size:
        raise ValueError(f"the {part} part holds node {unique[counts > 1][0]} more than once")
    if unique[0] < 0:
        raise ValueError(f"the {part} part holds the negative node number {unique[0]}")
    unique.flags.writeable = False
    return unique


def split_labels(y: Any, split: Split, n: int, num_classes: int | None = None) -> tuple[Ints, int]:
    """Labels of training and validation nodes, -1 elsewhere, and the number of classes.

    Examples
    --------
    >>> labels, classes = split_labels([0, 1, 2, 1], Split([0], [1], [2]), 4)
    >>> labels.tolist(), classes
    ([0, 1, -1, -1], 2)
    """
    labels = np.full(n, NO_LABEL, dtype=np.int64)
    used = np.concatenate([split.train, split.val])
    labels[used] = read_classes(y, used, n)
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
