"""Shards by themselves: any run of rows of any layout, and what is wrong with a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.scale import shards as module
from simi_mailbox.scale.shards import Shard, Shards

RUNS = [(0, 23), (0, 1), (22, 23), (6, 9), (7, 14), (5, 20), (9, 9)]
"""Rows of 23, across and along groups of 7."""


def table(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=7)
    return path


@pytest.mark.parametrize("kind", ["<f4", ">f8", "<f2", "<i2", "|u1"])
@pytest.mark.parametrize("layout", ["C", "F", "long header"])
def test_any_rows_of_a_file_are_read(kind, layout, tmp_path):
    whole = np.arange(69).reshape(23, 3).astype(kind)
    path = tmp_path / "0.npy"
    with path.open("wb") as file:
        version = (2, 0) if layout == "long header" else None
        np.lib.format.write_array(
            file, np.asarray(whole, order="F" if layout == "F" else "C"), version
        )
    shard = Shard.open(path, "logits")
    assert (shard.rows, shard.columns, shard.turned) == (23, 3, False)
    for start, stop in RUNS:
        found = shard.read(start, stop)
        np.testing.assert_array_equal(found, whole[start:stop])
        assert found.dtype.isnative


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("turned", [False, True])
def test_edges_may_be_two_rows_or_two_columns(turned, order, tmp_path):
    pairs = np.arange(46).reshape(23, 2)
    np.save(tmp_path / "0.npy", np.asarray(pairs.T if turned else pairs, order=order))
    shard = Shard.open(tmp_path / "0.npy", "edges")
    assert (shard.rows, shard.columns, shard.turned) == (23, 2, turned)
    for start, stop in RUNS:
        np.testing.assert_array_equal(shard.read(start, stop), pairs[start:stop])
    np.save(tmp_path / "0.npy", np.asarray([[0, 1], [2, 3]], order=order))  # as in memory
    assert Shard.open(tmp_path / "0.npy", "edges").read(0, 2).tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    ("array", "part", "message"),
    [
        (np.zeros(5), "logits", r"float64 \[5\]; expected numbers \[nodes, columns\]"),
        (np.zeros((2, 2, 2)), "logits", r"float64 \[2, 2, 2\]; expected numbers"),
        (np.zeros((5, 2), bool), "logits", r"it holds bool \[5, 2\]; expected numbers"),
        (np.zeros((5, 2), complex), "hidden", "it holds complex128 .* expected numbers"),
        (np.zeros((5, 2)), "edges", "it holds float64 .* expected integers"),
        (np.zeros((5, 3), int), "edges", r"\[5, 3\]; expected integers \[2, E\] or \[E, 2\]"),
    ],
)
def test_arrays_that_are_no_shard_are_refused(array, part, message, tmp_path):
    np.save(tmp_path / "0.npy", array)
    with pytest.raises(FileFormatError, match=message):
        Shard.open(tmp_path / "0.npy", part)


def test_files_that_are_cut_off_or_something_else_are_named(tmp_path):
    path = tmp_path / "0.npy"
    np.save(path, np.zeros((10, 3)))
    path.write_bytes(path.read_bytes()[:-25])
    with pytest.raises(FileFormatError, match="it is cut off: 25 bytes are missing"):
        Shard.open(path, "logits")
    np.savez(tmp_path / "0.npz", a=np.zeros(3))
    (tmp_path / "0.npz").rename(tmp_path / "0.npy")
    with pytest.raises(FileFormatError, match=r"a \.npz file of several arrays"):
        Shard.open(tmp_path / "0.npy", "logits")
    (tmp_path / "1.npy").write_bytes(b"no array at all")
    with pytest.raises(FileFormatError, match=r"1\.npy: it is not a NumPy file"):
        Shard.open(tmp_path / "1.npy", "logits")


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH", 4)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("form", ["columns", "list", "fixed list", "beside ids", "float32"])
def test_any_rows_of_a_parquet_file_are_read(form, tmp_path):
    whole = np.arange(69).reshape(23, 3) / 8
    columns = {f"c{k}": whole[:, k] for k in range(3)}
    given = {
        "columns": columns,
        "list": {"logits": pa.array(list(whole))},
        "fixed list": {"x": pa.FixedSizeListArray.from_arrays(pa.array(whole.ravel()), 3)},
        "beside ids": {"c0": whole[:, 0], "node_id": np.arange(23), **columns},
        "float32": {name: column.astype(np.float32) for name, column in columns.items()},
    }[form]
    shard = Shard.open(table(tmp_path / "0.parquet", **given), "logits")
    assert (shard.rows, shard.columns) == (23, 3)
    assert shard.ids == ("node_id" if form == "beside ids" else None)
    for start, stop in RUNS:
        np.testing.assert_array_equal(shard.read(start, stop), whole[start:stop])


@pytest.mark.usefixtures("small_batches")
def test_edges_of_a_parquet_file_are_named_columns(tmp_path):
    path = tmp_path / "0.parquet"
    shard = Shard.open(
        table(path, w=np.ones(23), dst=np.arange(23), src=np.arange(23)[::-1]), "edges"
    )
    assert (shard.rows, shard.columns) == (23, 2)
    for start, stop in RUNS:
        expected = np.stack([np.arange(23)[::-1], np.arange(23)], axis=1)[start:stop]
        np.testing.assert_array_equal(shard.read(start, stop), expected)
    for wrong in (np.arange(23) + 0.0, pa.array([None, *range(22)])):
        shard = Shard.open(table(path, src=wrong, dst=np.arange(23)), "edges")
        with pytest.raises(FileFormatError, match="src and dst must be whole numbers"):
            shard.read(0, 3)
    with pytest.raises(FileFormatError, match="call their columns 'src' and 'dst'; it has a, b, c"):
        Shard.open(table(path, a=np.arange(3), b=np.arange(3), c=np.arange(3)), "edges")


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("row", [0, 3, 4, 6, 7, 22])
def test_an_id_out_of_order_is_named_by_its_row(row, tmp_path):
    ids, scores = np.arange(23), np.arange(23) / 2
    table(tmp_path / "0.parquet", id=ids, a=scores, b=-scores)
    later = ids + 23
    later[row] += 1
    table(tmp_path / "1.parquet", id=later, a=scores, b=-scores)
    both = Shards.open(tmp_path)
    assert both.read(0, 23 + row).shape == (23 + row, 2)
    told = (
        rf"1\.parquet: row {row} is node '{24 + row}' by its column 'id', .* row {23 + row} of all"
    )
    with pytest.raises(FileFormatError, match=told):
        both.read(0, 46)


def test_hidden_layers_are_all_columns_but_the_ids(tmp_path):
    whole = np.arange(46).reshape(23, 2) * 1000
    given = {"age": whole[:, 0], "id": np.arange(23), "amount": whole[:, 1]}
    shard = Shard.open(table(tmp_path / "0.parquet", **given), "hidden")
    assert (shard.columns, shard.ids, shard.chosen) == (2, "id", ("age", "amount"))
    np.testing.assert_array_equal(shard.read(3, 9), whole[3:9])


@pytest.mark.parametrize(
    ("columns", "part", "message"),
    [
        ({"a": ["x", "y"], "b": [0.5, 0.1]}, "logits", "a: no column of numbers"),
        ({"a": ["x"], "b": ["y"]}, "hidden", "a, b: no column of numbers"),
        ({"id": [0, 1]}, "logits", "id: no column of numbers"),
        ({"a": pa.array([], pa.float64())}, "logits", "it has no rows"),
        (
            {"a": [0.5, 0.1], "account_id": [70, 99], "id": [0, 1]},
            "logits",
            "account_id' is called like an id",
        ),
    ],
)
def test_tables_without_scores_are_refused(columns, part, message, tmp_path):
    with pytest.raises(FileFormatError, match=message):
        Shard.open(table(tmp_path / "0.parquet", **columns), part)


def test_lists_of_another_length_are_named_by_their_rows(tmp_path):
    lists = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0], [6.0, 7.0]])
    shard = Shard.open(table(tmp_path / "0.parquet", x=lists), "logits")
    assert shard.columns == 2
    with pytest.raises(
        FileFormatError, match=r"rows 1\.\.3: its lists are not numbers of one length"
    ):
        shard.read(1, 4)


def test_files_of_a_folder_are_one_array(tmp_path):
    whole = np.random.default_rng(0).normal(size=(23, 3))
    for number, rows in ((2, slice(0, 7)), (10, slice(7, 8)), (11, slice(8, 23))):
        np.save(tmp_path / f"part-{number}.npy", whole[rows])
    for ignored in ("_SUCCESS", ".part-2.npy.crc"):
        (tmp_path / ignored).write_text("")
    found = Shards.open(tmp_path)
    assert (found.rows, found.columns, [s.first for s in found.shards]) == (23, 3, [0, 7, 8])
    for start, stop in [run for run in RUNS if run[0] < run[1]]:
        np.testing.assert_array_equal(found.read(start, stop), whole[start:stop])
    names = [found.where(row).removeprefix(f"{tmp_path}/") for row in (6, 7, 22)]
    assert names == ["part-2.npy, row 6", "part-10.npy, row 0", "part-11.npy, row 14"]
    chunks = [(shard.path.stem, *span) for shard, *span in found.chunks(9)]
    assert chunks == [("part-2", 0, 7), ("part-10", 0, 1), ("part-11", 0, 9), ("part-11", 9, 15)]
    (tmp_path / "empty").mkdir()
    for folder, message in (("empty", "holds no shard"), ("nowhere", "there is no folder")):
        with pytest.raises(FileNotFoundError, match=message):
            Shards.open(tmp_path / folder)
    (tmp_path / "empty").rmdir()
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(FileFormatError, match=r"notes\.txt: shards are \.npy or \.parquet files"):
        Shards.open(tmp_path)
