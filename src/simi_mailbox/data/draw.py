"""Drawing nodes class by class: the random parts that the protocols are made of."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from simi_mailbox._arrays import Bools, Ints
from simi_mailbox.data.split import Split

TEST, NO_PART = 3, -1


def generator(*key: object) -> np.random.Generator:
    """Random generator that depends on the key alone, on every machine and in every process.

    Examples
    --------
    >>> int(generator("Cora", "sparse", 0).integers(100)) == int(
    ...     generator("Cora", "sparse", 0).integers(100))
    True
    """
    digest = hashlib.sha256("/".join(str(part) for part in key).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def stratified_folds(
    y: Ints,
    rng: np.random.Generator,
    *,
    labelled: Bools | None = None,
    share: float = 0.15,
    test_share: float = 0.85,
    num_folds: int = 3,
) -> npt.NDArray[np.int8]:
    """Fold of every node: 0..num_folds-1, 3 for test, -1 for nodes in no part.

    Of every class, ``int(share * n_c)`` nodes are drawn; the drawn list, class after class, is
    dealt round-robin into the folds. Of what is left of each class,
    ``int(test_share * left)`` nodes are the test part (72.25 % of all nodes, not 85 %).

    Examples
    --------
    >>> folds = stratified_folds(np.repeat([0, 1], 100), np.random.default_rng(0))
    >>> np.unique(folds, return_counts=True)[1].tolist()  # -1, 0, 1, 2, test
    [26, 10, 10, 10, 144]
    """
    drawn: list[Ints] = []
    folds = np.full(y.size, NO_PART, dtype=np.int8)
    for members in class_members(y, labelled):
        order = rng.permutation(members)
        taken = int(share * order.size)
        drawn.append(order[:taken])
        left = order[taken:]
        folds[left[: int(test_share * left.size)]] = TEST
    dealt = np.concatenate(drawn)
    folds[dealt] = np.arange(dealt.size) % num_folds
    return folds


def split_from_folds(folds: npt.NDArray[np.int8], fold: int) -> Split:
    """Split whose validation part is ``fold`` and whose training part is the other folds."""
    return Split(
        train=np.flatnonzero((folds >= 0) & (folds != TEST) & (folds != fold)),
        val=np.flatnonzero(folds == fold),
        test=np.flatnonzero(folds == TEST),
    )


def class_members(y: Ints, labelled: Bools | None = None) -> list[Ints]:
    """Nodes of every class that occurs, without those whose label is unknown."""
    known = np.arange(y.size) if labelled is None else np.flatnonzero(labelled)
    return [known[y[known] == c] for c in np.unique(y[known])]
