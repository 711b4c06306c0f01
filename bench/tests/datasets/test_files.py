"""Archives of datasets: read as written, refused when anything is wrong with them."""

import hashlib
import os

import numpy as np
import pytest
import scipy.sparse as sp

from simi_mailbox_bench.datasets import loading
from tiny import TINY


@pytest.fixture
def path(tmp_path):
    return tmp_path / "Tiny.npz"


def read(path, arrays):
    np.savez_compressed(path, **arrays)
    return loading.read_archive(path, TINY)


def test_reads_what_was_written(path, tiny_arrays):
    dataset = read(path, tiny_arrays)
    ends = [[1, 0, 2, 1, 4, 3, 5, 4], [0, 1, 1, 2, 3, 4, 4, 5]]
    assert dataset.graph.edge_index().tolist() == ends
    assert isinstance(dataset.x, sp.csr_array)
    rows = [[2, 0, 0], [0, 0, 0], [0, 0, 3], [0, 0.5, 0], [0, 0, 0], [0, 0, 0]]
    assert dataset.x.toarray().tolist() == rows
    assert dataset.official[0].val.tolist() == [2, 3]
    assert TINY.edges == 4  # without the self-loop


def test_features_are_binary_where_pyg_makes_them_so(tiny_arrays):
    tiny_arrays["pyg_binarises_x"] = np.array(True)
    x = loading.from_arrays(tiny_arrays, TINY).x
    assert (x.data.tolist(), x.indices.tolist()) == ([1, 1, 1], [0, 2, 1])


@pytest.mark.parametrize(
    "key", ["y", "edge_index", "x_data", "x_indices", "x_indptr", "x_shape", "val_masks"]
)
def test_a_missing_key_is_named(path, tiny_arrays, key):
    del tiny_arrays[key]
    with pytest.raises(ValueError, match=f"not a Tiny dataset: key '{key}' is missing"):
        read(path, tiny_arrays)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("y", np.array([0, 0, 0, 1, 1], dtype=np.int16), "it has 5 nodes, expected 6"),
        ("y", np.array([0, 0, 0, 1, 1, 2], dtype=np.int16), "it has 3 classes, expected 2"),
        ("edge_index", np.zeros((2, 4), dtype=np.int32), "4 entries of edge_index, expected 9"),
        ("edge_index", np.full((2, 9), 6, dtype=np.int32), "edge 0 joins nodes 6 and 6"),
        ("x_shape", np.array([6, 4]), "it has 4 features, expected 3"),
        ("x_shape", np.array([7, 3]), "no CSR matrix"),
        ("x_indptr", np.array([0, 2, 1, 2, 3, 3, 3]), "no CSR matrix"),
        ("x_indptr", np.array([0, 1, 1, 2, 2, 2, 2]), "no CSR matrix: 3 values for 2 entries"),
        ("x_indices", np.array([0, 3, 1], dtype=np.int32), "no CSR matrix"),
        ("train_masks", np.ones((1, 6), dtype=bool), "train and val share 2 nodes"),
        ("val_masks", np.zeros((2, 6), dtype=bool), "must have one shape"),
        ("unlabelled", np.array([6]), "unlabelled must list node numbers"),
    ],
)
def test_wrong_content_is_refused(path, tiny_arrays, key, value, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(path, {**tiny_arrays, key: value})
    assert "Tiny.npz is not a Tiny dataset" in str(caught.value)


@pytest.mark.parametrize("damage", [0.0, 0.05, 0.5, 0.95, "a flipped byte", "a single array"])
def test_a_damaged_file_is_refused(path, tiny_arrays, damage):
    loading.write_archive(path, tiny_arrays)
    content = bytearray(path.read_bytes())
    if damage == "a single array":
        with path.open("wb") as stream:
            np.save(stream, np.arange(3))
    elif damage == "a flipped byte":
        content[120] ^= 0xFF
        path.write_bytes(content)
    else:
        path.write_bytes(content[: int(damage * len(content))])
    with pytest.raises(ValueError, match=r"cannot read .*Tiny\.npz.*intact copy"):
        loading.read_archive(path, TINY)


def test_verify_names_both_sums_and_notices_a_change(path):
    sums = [hashlib.sha256(content).hexdigest() for content in (b"right", b"wrong")]
    path.write_bytes(b"right")
    loading.verify(path, sums[0])
    path.write_bytes(b"wrong")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ValueError, match="wrong checksum") as caught:
        loading.verify(path, sums[0])
    assert all(one in str(caught.value) for one in sums)
    assert "replace it by the original, or delete it" in str(caught.value)
