from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simi_mailbox_bench.datasets import Split


def test_parts_are_sorted_int64_and_read_only() -> None:
    split = Split([5, 1], np.array([2], dtype=np.int16), (4, 0))
    assert split.train.tolist() == [1, 5]
    assert split.test.tolist() == [0, 4]
    assert {part.dtype for part in (split.train, split.val, split.test)} == {np.dtype(np.int64)}
    with pytest.raises(ValueError, match="read-only"):
        split.train[0] = 3
    with pytest.raises(FrozenInstanceError):
        split.train = split.val  # type: ignore[misc]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1], [1], [2]), "train and val share 1 nodes .*node 1"),
        (([0], [1], [2, 0]), "train and test share"),
        (([0], [1, 3], [3]), "val and test share"),
        (([0, 0], [1], [2]), "train part holds node 0 more than once"),
        (([0], [], [2]), "val part of the split is empty"),
        (([0], [1], [-2, 2]), "negative node number -2"),
    ],
)
def test_impossible_splits_are_refused(parts: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Split(*parts)


@pytest.mark.parametrize("bad", [[[0, 1]], [0.5], [True, False]])
def test_parts_must_be_node_numbers(bad: Any) -> None:
    with pytest.raises(TypeError, match="one-dimensional array of node numbers"):
        Split(np.asarray(bad), [1], [2])


def test_a_split_that_does_not_fit_the_graph_is_refused() -> None:
    split = Split([0], [1], [9])
    assert split.check(10) is split
    with pytest.raises(ValueError, match=r"test holds node 9, but nodes are numbered 0\.\.8"):
        split.check(9)
    with pytest.raises(ValueError, match="does not fit"):
        split.masks(5)


def test_masks_of_different_length_or_kind_are_refused() -> None:
    yes = np.array([True, False, False])
    with pytest.raises(ValueError, match="different lengths"):
        Split.from_masks(yes, np.roll(yes, 1), np.array([False, False, True, True]))
    with pytest.raises(TypeError, match="val mask must be boolean"):
        Split.from_masks(yes, [0, 1, 0], np.roll(yes, 2))


@given(st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=3, max_size=40))
def test_masks_and_indices_are_the_same_split(parts: list[int]) -> None:
    part = np.array([*parts, 0, 1, 2])
    split = Split.from_masks(part == 0, part == 1, part == 2)
    assert Split.from_masks(*split.masks(part.size)) == split
    assert split.sizes == tuple(int((part == k).sum()) for k in range(3))
    assert split != Split(split.val, split.train, split.test)
    assert split != "split"
