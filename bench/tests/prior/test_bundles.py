"""Bundles: one set of names, and one sentence for each thing that can be wrong."""

import numpy as np
import pytest

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files.columns import NAMES
from simi_mailbox_bench.prior.bundles import read_bundle

LOGITS = np.zeros((4, 2))


@pytest.mark.parametrize(("part", "name"), [(p, n) for p, names in NAMES.items() for n in names])
def test_a_part_is_found_under_each_of_its_names(tmp_path, part, name):
    content = {"logits": LOGITS, "other": np.ones(2)} | {name: np.arange(8).reshape(4, 2)}
    np.savez(tmp_path / "bundle.npz", **content)
    parts = read_bundle(tmp_path / "bundle.npz")
    assert set(parts) == {"logits", part}
    np.testing.assert_array_equal(parts[part], np.arange(8).reshape(4, 2))


def test_no_name_stands_for_two_parts():
    names = [name for names in NAMES.values() for name in names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("content", "need", "message"),
    [
        ({"z": LOGITS}, ["logits"], "it has no array 'logits'; it has: z"),
        ({}, ["logits"], "it has no array 'logits'; it has: nothing"),
        (
            {"logits": LOGITS},
            ["logits", "labels", "edges"],
            "it has no array 'labels' or 'y', no 'edges' or 'edge_index'; it has: logits",
        ),
        ({"logits": LOGITS, "y": LOGITS, "labels": LOGITS}, ["logits"], "both 'labels' and 'y'"),
    ],
)
def test_what_is_missing_or_twice_is_named_with_the_file(tmp_path, content, need, message):
    path = tmp_path / "bundle.npz"
    np.savez(path, **content)
    with pytest.raises(FileFormatError, match=message) as caught:
        read_bundle(path, need)
    assert str(caught.value).startswith(f"{path}: ")


def test_parts_that_nobody_asked_for_are_left_alone(tmp_path):
    path = tmp_path / "bundle.npz"
    np.savez(path, logits=LOGITS, y=np.array([None]))
    assert set(read_bundle(path, may=["edges"])) == {"logits"}
    with pytest.raises(FileFormatError, match="array 'y' holds Python objects"):
        read_bundle(path)


def test_a_single_array_is_the_logits_and_nothing_more(tmp_path):
    path = tmp_path / "logits.npy"
    np.save(path, LOGITS)
    np.testing.assert_array_equal(read_bundle(path)["logits"], LOGITS)
    with pytest.raises(FileFormatError, match=r"it is a single array, not a \.npz file of several"):
        read_bundle(path, ["logits", "labels"])
