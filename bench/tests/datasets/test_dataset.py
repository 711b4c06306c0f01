"""Datasets, splits, and the labels of a split that may be read."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox.graph import Graph
from simi_mailbox_bench import ood
from simi_mailbox_bench.backbones.gpn import train_gpn
from simi_mailbox_bench.datasets import NodeDataset, Split
from simi_mailbox_bench.datasets.dataset import split_labels

GRAPH = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)
SPLIT = Split([0, 1, 4, 5], [2, 6], [3, 7])
Y = np.repeat([0, 1], 4)


def build(**changes):
    given = {"name": "path", "graph": GRAPH, "x": np.eye(4), "y": Y[2:6], "num_classes": 2}
    return NodeDataset(**{**given, **changes})


def test_arrays_are_read_only_and_of_fixed_type():
    dataset = build(x=sp.csr_matrix(np.eye(4)), y=np.array([0, 0, 1, 1], dtype=np.int16))
    assert isinstance(dataset.x, sp.csr_array)
    assert (dataset.x.dtype, dataset.y.dtype) == (np.float32, np.int64)
    for array in (dataset.y, dataset.x.data):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.eye(3)}, "one row for each of 4 nodes"),
        ({"x": np.full((4, 2), np.nan)}, "NaN or infinite"),
        ({"y": np.array([0, 1])}, r"y has shape \[2\]"),
        ({"y": np.array([0, 1, 2, 0])}, r"node 2 has class 2; classes are 0\.\.1"),
        ({"y": np.array([0, -1, 1, 0])}, "node 1 has class -1"),
        ({"y": np.array([0.0, 0, 1, 1])}, "must be integers"),
        ({"num_classes": 1}, "at least two classes"),
        ({"folds": np.zeros((5, 3), dtype=np.int8)}, r"expected \[5, 4\]"),
        ({"folds": np.full((1, 4), 7)}, "only 0, 1, 2"),
        ({"unlabelled": np.array([True])}, "unlabelled has shape"),
        ({"public": Split([0], [1], [4])}, "does not fit the graph"),
        ({"official": (Split([0], [1], [2]), Split([0], [9], [2]))}, "val holds node 9"),
        ({"shifts": {"density": {"train": [0, 1], "test_out": [1, 2, 3]}}}, "every node once"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        build(**changes)


# --- splits -----------------------------------------------------------------------------------


def test_parts_are_sorted_int64_and_read_only():
    split = Split([5, 1], np.array([2], dtype=np.int16), (4, 0))
    assert (split.train.tolist(), split.test.tolist()) == ([1, 5], [0, 4])
    assert {part.dtype for part in (split.train, split.val, split.test)} == {np.dtype(np.int64)}
    with pytest.raises(ValueError, match="read-only"):
        split.train[0] = 3
    with pytest.raises(FrozenInstanceError):
        split.train = split.val


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [1], [2]), "train and val share 1 nodes .*node 1"),
        (([0], [1], [2, 0]), "train and test share"),
        (([0], [1, 3], [3]), "val and test share"),
        (([0, 0], [1], [2]), "train part holds node 0 more than once"),
        (([0], [], [2]), "val part of the split is empty"),
        (([0], [1], [-2, 2]), "negative node number -2"),
        (([[0, 1]], [1], [2]), "one-dimensional array of node numbers"),
        (([0.5], [1], [2]), "one-dimensional array of node numbers"),
        (([True, False], [1], [2]), "one-dimensional array of node numbers"),
    ],
)
def test_impossible_splits_are_refused(parts, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Split(*map(np.asarray, parts[:1]), *parts[1:])


def test_a_split_that_does_not_fit_the_graph_is_refused():
    split = Split([0], [1], [9])
    assert split.check(10) is split
    with pytest.raises(ValueError, match=r"test holds node 9, but nodes are numbered 0\.\.8"):
        split.check(9)
    with pytest.raises(ValueError, match="does not fit"):
        split.masks(5)


def test_masks_of_different_length_or_kind_are_refused():
    yes = np.array([True, False, False])
    with pytest.raises(ValueError, match=r"of one length, got .* bool of shape \[4\]"):
        Split.from_masks(yes, np.roll(yes, 1), np.array([False, False, True, True]))
    with pytest.raises(ValueError, match=r"masks must be boolean .*, int64 of shape \[3\]"):
        Split.from_masks(yes, [0, 1, 0], np.roll(yes, 2))


@given(st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=3, max_size=40))
def test_masks_and_indices_are_the_same_split(parts):
    part = np.array([*parts, 0, 1, 2])
    split = Split.from_masks(part == 0, part == 1, part == 2)
    assert Split.from_masks(*split.masks(part.size)) == split
    assert split.sizes == tuple(int((part == k).sum()) for k in range(3))
    assert split != Split(split.val, split.train, split.test)
    assert split != "split"


# --- labels of a split --------------------------------------------------------------------------


def test_labels_of_other_nodes_are_not_looked_at():
    spoiled = Y + np.where(np.isin(np.arange(8), SPLIT.test), 0.5, 0.0)
    spoiled[3] = np.nan
    assert split_labels(spoiled, SPLIT, 8)[0].tolist() == split_labels(Y, SPLIT, 8)[0].tolist()


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (Y + 0.5, ValueError, "whole numbers, the classes 0, 1, …; node 0 has 0.5"),
        (Y[:5], ValueError, r"labels of shape \[5\]; expected one per node, \[8\]"),
        (np.full(8, "cat"), TypeError, "number the classes first"),
        (Y - 1, ValueError, "range over -1..0; expected 0..0"),
    ],
)
@pytest.mark.parametrize("train", [None, ood.train_classifier, train_gpn])
def test_labels_that_make_no_sense_are_refused_everywhere(y, error, message, train):
    with pytest.raises(error, match=message):
        train(np.eye(8), Graph.empty(8), y, SPLIT) if train else split_labels(y, SPLIT, 8)
