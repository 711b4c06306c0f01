import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from simi_mailbox._arrays import Arrays
from simi_mailbox_bench.datasets import loading
from simi_mailbox_bench.datasets.catalogue import Entry
from tiny import TINY


def save(path: Path, arrays: Arrays) -> Path:
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return path


def test_reads_what_was_written(tmp_path: Path, tiny_arrays: Arrays) -> None:
    dataset = loading.read_archive(save(tmp_path / "Tiny.npz", tiny_arrays), TINY)
    assert dataset.graph.edge_index().tolist() == [
        [1, 0, 2, 1, 4, 3, 5, 4],
        [0, 1, 1, 2, 3, 4, 4, 5],
    ]
    assert isinstance(dataset.x, sp.csr_array)
    assert dataset.x.toarray().tolist() == [
        [2, 0, 0],
        [0, 0, 0],
        [0, 0, 3],
        [0, 0.5, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]
    assert dataset.official[0].val.tolist() == [2, 3]


def test_directed_keeps_the_edges_as_pyg_has_them(tiny_arrays: Arrays) -> None:
    graph = loading.from_arrays(tiny_arrays, TINY, directed=True).graph
    assert graph.is_directed
    assert graph.edge_index().tolist() == [[0, 1, 3, 4], [1, 2, 4, 5]]


def test_directed_changes_nothing_where_pyg_has_both_directions(tiny_arrays: Arrays) -> None:
    del tiny_arrays["edge_index_pyg"]
    assert not loading.from_arrays(tiny_arrays, TINY, directed=True).graph.is_directed


def test_features_are_binary_where_pyg_makes_them_so(tiny_arrays: Arrays) -> None:
    tiny_arrays["pyg_binarises_x"] = np.array(True)
    x = loading.from_arrays(tiny_arrays, TINY).x
    assert x.data.tolist() == [1, 1, 1]
    assert x.indices.tolist() == [0, 2, 1]


def test_unlabelled_nodes_become_a_mask_and_keep_their_class(tiny_arrays: Arrays) -> None:
    tiny_arrays["unlabelled"] = np.array([1, 2])
    dataset = loading.from_arrays(tiny_arrays, TINY)
    assert dataset.unlabelled is not None
    assert np.flatnonzero(dataset.unlabelled).tolist() == [1, 2]
    assert dataset.y[[1, 2]].tolist() == [0, 0]


@pytest.mark.parametrize(
    "key", ["y", "edge_index", "x_data", "x_indices", "x_indptr", "x_shape", "val_masks"]
)
def test_a_missing_key_is_named(tmp_path: Path, tiny_arrays: Arrays, key: str) -> None:
    del tiny_arrays[key]
    with pytest.raises(ValueError, match=f"not a Tiny dataset: key '{key}' is missing"):
        loading.read_archive(save(tmp_path / "Tiny.npz", tiny_arrays), TINY)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("y", np.array([0, 0, 0, 1, 1], dtype=np.int16), "it has 5 nodes, expected 6"),
        ("y", np.array([0, 0, 0, 1, 1, 2], dtype=np.int16), "it has 3 classes, expected 2"),
        ("edge_index", np.zeros((2, 4), dtype=np.int32), "4 entries of edge_index, expected 9"),
        ("edge_index", np.full((2, 9), 6, dtype=np.int32), "edge 0 joins nodes 6 and 6"),
        ("x_shape", np.array([6, 4]), "it has 4 features, expected 3"),
        ("x_shape", np.array([7, 3]), "x_indptr is not a valid CSR index"),
        ("x_indptr", np.array([0, 2, 1, 2, 3, 3, 3]), "x_indptr is not a valid CSR index"),
        ("x_indptr", np.array([0, 1, 1, 2, 2, 2, 2]), "do not belong together"),
        ("x_indices", np.array([0, 3, 1], dtype=np.int32), "leave the 3 feature columns"),
        ("x_data", np.array([1, np.inf, 1], dtype=np.float32), "NaN or infinite"),
        ("train_masks", np.zeros((1, 6), dtype=bool), "train part of the split is empty"),
        ("train_masks", np.ones((1, 6), dtype=bool), "train and val share 2 nodes"),
        ("val_masks", np.zeros((2, 6), dtype=bool), "must have one shape"),
        ("gats_folds", np.zeros((5, 5), dtype=np.int8), "folds have shape"),
        ("unlabelled", np.array([6]), "unlabelled must list node numbers"),
    ],
)
def test_wrong_content_is_refused(
    tmp_path: Path, tiny_arrays: Arrays, key: str, value: Any, message: str
) -> None:
    tiny_arrays[key] = value
    with pytest.raises(ValueError, match=message) as caught:
        loading.read_archive(save(tmp_path / "Tiny.npz", tiny_arrays), TINY)
    assert "Tiny.npz is not a Tiny dataset" in str(caught.value)


def test_pickled_content_is_refused_and_not_run(tmp_path: Path, tiny_arrays: Arrays) -> None:
    marker = tmp_path / "ran"

    class Payload:
        def __reduce__(self) -> tuple[Any, ...]:
            return (os.mkdir, (str(marker),))

    tiny_arrays["y"] = np.array([Payload()], dtype=object)
    with pytest.raises(ValueError, match="Python objects, which could run code when read"):
        loading.read_archive(save(tmp_path / "Tiny.npz", tiny_arrays), TINY)
    assert not marker.exists()


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.95])
def test_a_truncated_file_is_refused(tmp_path: Path, tiny_arrays: Arrays, share: float) -> None:
    path = save(tmp_path / "Tiny.npz", tiny_arrays)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"cannot read .*Tiny\.npz.*intact copy"):
        loading.read_archive(path, TINY)


def test_a_flipped_byte_is_refused(tmp_path: Path, tiny_arrays: Arrays) -> None:
    path = save(tmp_path / "Tiny.npz", tiny_arrays)
    content = bytearray(path.read_bytes())
    content[120] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match="Tiny"):
        loading.read_archive(path, TINY)


def test_a_single_array_is_not_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "Tiny.npz"
    with open(path, "wb") as stream:
        np.save(stream, np.arange(3))
    with pytest.raises(ValueError, match="cannot read"):
        loading.read_archive(path, TINY)


def test_verify_names_both_sums_and_notices_a_change(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"right")
    good = hashlib.sha256(b"right").hexdigest()
    loading.verify(path, good)
    path.write_bytes(b"wrong")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ValueError, match="wrong checksum") as caught:
        loading.verify(path, good)
    assert good in str(caught.value)
    assert hashlib.sha256(b"wrong").hexdigest() in str(caught.value)
    assert "replace it by the original, or delete it" in str(caught.value)


def test_write_leaves_the_archive_and_its_sum_only(tmp_path: Path, tiny_arrays: Arrays) -> None:
    path = tmp_path / "new" / "Tiny.npz"
    loading.write_archive(path, tiny_arrays)
    assert sorted(p.name for p in path.parent.iterdir()) == ["Tiny.npz", "Tiny.npz.sha256"]
    assert loading.read_checksum(path) == hashlib.sha256(path.read_bytes()).hexdigest()
    assert loading.read_archive(path, TINY).num_nodes == 6


def test_a_failed_write_leaves_the_old_file_untouched(
    tmp_path: Path, tiny_arrays: Arrays, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "Tiny.npz"
    loading.write_archive(path, tiny_arrays)
    before = path.read_bytes()

    def interrupted(stream: Any, **arrays: Any) -> None:
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(OSError, match="disk full"):
        loading.write_archive(path, tiny_arrays)
    assert path.read_bytes() == before
    assert loading.read_checksum(path) == hashlib.sha256(before).hexdigest()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["Tiny.npz", "Tiny.npz.sha256"]


def test_a_damaged_sum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "Tiny.npz.sha256").write_text("abc\n")
    with pytest.raises(ValueError, match="does not hold a sha256"):
        loading.read_checksum(tmp_path / "Tiny.npz")


def test_entry_counts_edges_without_self_loops(tiny: Entry) -> None:
    assert tiny.edges == 4
