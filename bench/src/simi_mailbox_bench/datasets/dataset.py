"""`NodeDataset`: a graph with features, labels and splits; `Split`: who trains, who is tested."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from simi_mailbox._arrays import Bools, Ints
from simi_mailbox.graph import Graph
from simi_mailbox.validation import NO_LABEL, read_classes

PARTS = ("train", "val", "test")
SHIFTS = ("popularity", "locality", "density")
SHIFT_PARTS = ("train", "valid_in", "test_in", "valid_out", "test_out")
"""Of the structural-shift splits: nodes like those trained on, and nodes unlike them."""


@dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint, non-empty sets of node numbers, each stored sorted and read-only."""

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
        """Build from three boolean masks of one length."""
        masks = [np.asarray(mask) for mask in (train, val, test)]
        if {(mask.dtype, mask.shape) for mask in masks} != {(np.dtype(bool), (masks[0].size,))}:
            given = ", ".join(f"{mask.dtype} of shape {list(mask.shape)}" for mask in masks)
            raise ValueError(f"masks must be boolean and of one length, got {given}")
        return cls(*(np.flatnonzero(mask) for mask in masks))

    def check(self, num_nodes: int) -> Split:
        """Return this split, or raise if it names a node that the graph does not have."""
        for part in PARTS:
            last = int(getattr(self, part)[-1])
            if last >= num_nodes:
                told = f"{part} holds node {last}, but nodes are numbered 0..{num_nodes - 1}"
                raise ValueError(f"the split does not fit the graph: {told}")
        return self

    def masks(self, num_nodes: int) -> tuple[Bools, Bools, Bools]:
        """Boolean masks (train, val, test) of length ``num_nodes``."""
        self.check(num_nodes)
        nodes = np.arange(num_nodes)
        return np.isin(nodes, self.train), np.isin(nodes, self.val), np.isin(nodes, self.test)

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
        return "Split(train={}, val={}, test={})".format(*self.sizes)


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
    """Labels of training and validation nodes, -1 elsewhere, and the number of classes."""
    labels = np.full(n, NO_LABEL, dtype=np.int64)
    used = np.concatenate([split.train, split.val])
    labels[used] = read_classes(y, used, n)
    read = labels[used]
    num_classes = int(read.max()) + 1 if num_classes is None else operator.index(num_classes)
    if read.min() < 0 or read.max() >= num_classes:
        raise ValueError(
            f"labels of training and validation nodes range over {read.min()}..{read.max()}; "
            f"expected 0..{num_classes - 1}"
        )
    return labels, num_classes


Features = Any  # scipy.sparse.csr_array or npt.NDArray[np.float32]; SciPy ships no types


@dataclass(frozen=True, eq=False)
class NodeDataset:
    """A node-classification dataset, checked on construction; its arrays are read-only.

    Features ``x`` [n, F] are as PyG delivers them, not row-normalised, and sparse when stored so;
    the graph has no self-loops. ``folds`` [s, n] are 3-fold splits: 0, 1, 2 = fold, 3 = test, -1 =
    in no part; ``public`` is Planetoid's split, ``official`` are those published with the data.
    Of the nodes ``unlabelled``, the class in ``y`` is a filler because the source gives none.
    ``shifts`` holds, by the name of a structural shift, the nodes of each of `SHIFT_PARTS`.
    """

    name: str
    graph: Graph
    x: Features
    y: Ints
    num_classes: int
    folds: npt.NDArray[np.int8] | None = None
    public: Split | None = None
    official: tuple[Split, ...] = ()
    unlabelled: Bools | None = None
    source: str = "memory"
    shifts: Mapping[str, Mapping[str, Ints]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, k = self.graph.num_nodes, self.num_classes
        if k < 2:
            raise ValueError(f"a dataset needs at least two classes, got num_classes={k}")
        if not np.issubdtype(np.asarray(self.y).dtype, np.integer):
            raise TypeError(f"labels must be integers, got {np.asarray(self.y).dtype}")
        y = _array(self, "y", np.int64, (n,))
        bad = np.flatnonzero((y < 0) | (y >= k))
        if bad.size:
            raise ValueError(f"node {bad[0]} has class {y[bad[0]]}; classes are 0..{k - 1}")
        object.__setattr__(self, "x", _features(self.x, n))
        if self.folds is not None:
            folds = _array(self, "folds", np.int8, (len(self.folds), n))
            if folds.size and (folds.min() < -1 or folds.max() > 3):
                raise ValueError("folds may hold only 0, 1, 2 (fold), 3 (test) and -1 (in no part)")
        if self.unlabelled is not None:
            _array(self, "unlabelled", np.bool_, (n,))
        for split in (self.public, *self.official):
            if split is not None:
                split.check(n)
        for shift, parts in self.shifts.items():
            if not np.array_equal(np.sort(np.concatenate(list(parts.values()))), np.arange(n)):
                raise ValueError(f"the parts of shift {shift!r} do not hold every node once")

    def shift_part(self, shift: str, part: str) -> Ints:
        """Nodes of one part of a shift, without those that have no label."""
        nodes = self.shifts[shift][part].astype(np.int64)
        return nodes[self.labelled[nodes]]

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_features(self) -> int:
        """Number of features of a node."""
        return int(self.x.shape[1])

    @property
    def labelled(self) -> Bools:
        """Mask of the nodes whose class is known."""
        if self.unlabelled is None:
            return np.ones(self.num_nodes, dtype=np.bool_)
        return ~self.unlabelled

    def homophily(self) -> float:
        """Share of edges that join two nodes of one class (nan without edges)."""
        source, target = self.graph.edge_index().numpy()
        return float(np.mean(self.y[source] == self.y[target])) if source.size else float("nan")

    def __repr__(self) -> str:
        return (
            f"NodeDataset({self.name!r}, nodes={self.num_nodes}, classes={self.num_classes}, "
            f"entries={self.graph.num_entries}, features={self.num_features})"
        )


def _features(x: Any, n: int) -> Features:
    if sp.issparse(x):
        x = sp.csr_array(x, dtype=np.float32)
        arrays = [x.data, x.indices, x.indptr]
    else:
        x = np.asarray(x, dtype=np.float32).view()
        arrays = [x]
    if x.ndim != 2 or x.shape[0] != n:
        raise ValueError(
            f"features have shape {list(x.shape)}, expected one row for each of {n} nodes"
        )
    if not np.isfinite(arrays[0]).all():
        raise ValueError("features hold NaN or infinite values")
    for array in arrays:
        array.flags.writeable = False
    return x


def _array(dataset: NodeDataset, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Give the dataset a read-only copy of one of its arrays."""
    array = np.array(getattr(dataset, name), dtype=dtype)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {list(array.shape)}, expected {list(shape)}")
    array.flags.writeable = False
    object.__setattr__(dataset, name, array)
    return array
