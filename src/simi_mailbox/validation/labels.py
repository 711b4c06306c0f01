"""Labels and the nodes that they belong to: masks, indices, classes.

Labels are cut down to the nodes of a mask here, so that reading another label is not forbidden but
impossible. Everything is read with NumPy; torch is imported where tensors are made, so that metrics
start without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simi_mailbox._arrays import Array, Ints
from simi_mailbox.validation.arrays import as_numpy

if TYPE_CHECKING:
    from torch import Tensor

NO_LABEL = -1
"""Stands where a label is not known or may not be read."""


@dataclass(frozen=True)
class Labelled:
    """Some nodes and their labels: ``y[k]`` is the label of node ``index[k]``."""

    index: Tensor
    y: Tensor

    def __len__(self) -> int:
        return int(self.index.numel())


def read_labels(y: Any, mask: Any, num_nodes: int, num_classes: int, name: str) -> Labelled:
    """Cut ``y`` down to the nodes of ``mask``; labels of other nodes are never looked at.

    Labels of the nodes of ``mask`` alone are in the order of ``mask``. Behind the door both are in
    the order of the nodes: what is learned depends on the set of nodes, not on how it was listed.

    Examples
    --------
    >>> read_labels([7, 5], [3, 1], num_nodes=4, num_classes=8, name="mask").y.tolist()
    [5, 7]
    """
    import torch

    index = read_index(mask, num_nodes, name)
    labels = read_classes(y, index, num_nodes, num_classes, of=name, only_these=True)
    order = np.argsort(index)
    return Labelled(torch.from_numpy(index[order]), torch.from_numpy(labels[order]))


def read_known(known: Any, num_nodes: int, num_classes: int) -> Labelled:
    """Nodes and labels that were named for a prediction: a pair of nodes and their labels.

    Examples
    --------
    >>> read_known(([4, 2], [0, 1]), num_nodes=5, num_classes=2).y.tolist()
    [0, 1]
    """
    import torch

    if not isinstance(known, tuple | list) or len(known) != 2:
        raise TypeError("known must be a pair: the nodes (boolean or indices), and their labels")
    nodes, labels = known
    index = read_index(nodes, num_nodes, "known", empty=True)
    y = read_classes(labels, index, num_nodes, num_classes, of="known", only_these=True)
    return Labelled(torch.from_numpy(index), torch.from_numpy(y))


def read_index(nodes: Any, num_nodes: int, name: str, *, empty: bool = False) -> Ints:
    """Numbers of distinct nodes, in the order given, from a boolean mask or an index array.

    Parameters
    ----------
    nodes : array
        Boolean [n] or indices.
    num_nodes : int
        Nodes are numbered 0..n-1.
    name : str
        What the caller's user calls it.
    empty : bool
        Whether no node at all is fine.

    Examples
    --------
    >>> read_index([True, False, True], 3, "mask").tolist()
    [0, 2]
    """
    if nodes is None:
        raise TypeError(
            f"{name} is missing: say which nodes' labels may be read, as a boolean mask or an "
            "index array (np.arange(n) if it is all of them)"
        )
    index = as_numpy(nodes, name)
    if index.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {list(index.shape)}")
    if index.dtype == np.bool_ and index.size:
        if index.size != num_nodes:
            raise ValueError(f"{name} has {index.size} entries for {num_nodes} nodes")
        index = np.flatnonzero(index)
    elif index.size and index.dtype.kind not in "iu":
        raise TypeError(f"{name} must be boolean or integer; got an array of {index.dtype}")
    if index.size == 0 and not empty:
        raise ValueError(f"{name} selects no node")
    outside = (index < 0) | (index >= num_nodes)
    if outside.any():
        raise ValueError(
            f"{name} names node {index[outside][0]}, but nodes are numbered 0..{num_nodes - 1}"
        )
    if np.unique(index).size != index.size:
        if index.size == num_nodes and index.max() <= 1:
            raise ValueError(
                f"{name} holds 0 and 1 for every node: pass a boolean mask, {name}.astype(bool) "
                f"({name}.bool() in torch)"
            )
        raise ValueError(f"{name} names a node twice")
    return index.astype(np.int64)


def refuse_shared(first: Any, second: Any, names: tuple[str, str], why: str) -> None:
    """Raise if two sets of nodes have a node in common.

    Examples
    --------
    >>> refuse_shared([1, 2], [2, 3], ("mask", "train_mask"), "take it out of one")
    Traceback (most recent call last):
    ValueError: mask and train_mask have 1 node in common (2): take it out of one
    """
    both = np.intersect1d(as_numpy(first), as_numpy(second))
    if both.size:
        count = f"{both.size} node{'s' if both.size > 1 else ''}"
        first_one = f"{both[0]}" if both.size == 1 else f"the first is {both[0]}"
        raise ValueError(f"{' and '.join(names)} have {count} in common ({first_one}): {why}")


def read_classes(
    y: Any,
    nodes: Ints,
    num_nodes: int,
    num_classes: int | None = None,
    *,
    name: str = "labels",
    of: str = "",
    only_these: bool = False,
) -> Ints:
    """Class numbers of ``nodes``; what ``y`` holds for other nodes is not looked at.

    Parameters
    ----------
    y : array [n] or [n, 1]
        Whole numbers of any type; [m] for ``nodes`` alone and in their order, if ``only_these``
        allows it.
    nodes : int64 [m]
        As of `read_index`.
    num_nodes : int
        Number of all nodes.
    num_classes : int, optional
        Classes are 0..K-1; any whole number is fine if not given.
    name, of : str
        What the caller's user calls the labels, and the nodes.
    only_these : bool
        Whether labels may come without those of other nodes.

    Examples
    --------
    >>> read_classes([0.0, 1.0, 0.5], np.array([0, 1]), 3).tolist()
    [0, 1]
    """
    given = as_numpy(y, name)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.shape != (num_nodes,) and not (only_these and given.shape == nodes.shape):
        rest = f", or one per node{of and f' of {of}'}, [{nodes.size}]" if only_these else ""
        if given.ndim == 2:
            rest += _of_columns(given)
        raise ValueError(
            f"{name} of shape {list(given.shape)}; expected one per node, [{num_nodes}]{rest}"
        )
    if only_these and nodes.size == num_nodes and (np.diff(nodes) < 0).any():
        raise ValueError(
            f"{of or 'the index array'} names all {num_nodes} nodes, not in their order: {name} "
            "could be in the one or the other; give both in the order of the nodes, "
            "np.arange(n)"
        )
    if given.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must be class numbers 0, 1, …, got an array of {given.dtype}; number the "
            "classes first, for example by np.unique(names, return_inverse=True)"
        )
    chosen = given[nodes] if given.size == num_nodes else given
    wrong = np.flatnonzero(chosen != np.rint(chosen)) if chosen.dtype.kind == "f" else nodes[:0]
    if wrong.size:
        raise ValueError(
            f"{name} must be whole numbers, the classes 0, 1, …; node {nodes[wrong[0]]} has "
            f"{chosen[wrong[0]]}"
        )
    if num_classes and chosen.size and not 0 <= chosen.min() <= chosen.max() < num_classes:
        k = int(np.flatnonzero((chosen < 0) | (chosen >= num_classes))[0])
        raise ValueError(
            f"node {nodes[k]}{of and f' of {of}'} has label {chosen[k]:.15g}, but the classes are "
            f"0..{num_classes - 1}"
        )
    return chosen.astype(np.int64)


def _of_columns(given: Array) -> str:
    """What to do with labels of several columns."""
    if given.dtype.kind in "biuf" and ((given != 0).sum(axis=1) == 1).all() and given.max() == 1:
        return "; of one column per class take argmax(axis=1)"
    return (
        "; several labels of a node cannot be calibrated together: take one column at a time, with "
        "logits [0, s] of that label"
    )
