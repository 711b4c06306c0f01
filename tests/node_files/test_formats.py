"""Files of every kind become columns or arrays, and hostile ones are refused."""

import gzip
import io
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, parquet
from safetensors.numpy import save_file
from scipy import sparse

from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.node_files import READS, read_file
from tests.test_files import Bomb


def table(tmp_path, text, name="t.csv", **options):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(tmp_path / name, **options)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id,label\na,cat\n", ("id", "label")),  # a known name, over words
        ("paper,x\na,0.5\n", ("paper", "x")),  # a word over numbers
        ("a,0.5\nb,1.5\n", ("", "")),  # words are names of nodes
        ("n1\nn2\n", ("",)),
        ("1\n2\n", ("",)),
        ("0,1,2\n0.1,0.2,0.3\n", ("0", "1", "2")),  # as pandas counts columns
        (",0,1\n7,0.2,0.3\n", ("id", "0", "1")),  # and its index
        ("paper,2019,2020\na,0.2,0.3\n", ("paper", "2019", "2020")),
        ("a,1,2\nb,0.5,3\n", ("", "", "")),
        ("0,1,2\n3,4,5\n", ("", "", "")),  # counts over counts: data
        ("\ufeffid;x\n1;2.5\n", ("id", "x")),  # Excel's mark, semicolons
        ("id\tx\n1\t2.5\n", ("id", "x")),
    ],
)
def test_headers_are_recognised_and_never_invented(tmp_path, text, names):
    assert table(tmp_path, text).names == names


def test_fractions_are_numbers_and_all_else_stays_text(tmp_path):
    found = table(tmp_path, "id,x,y,mask\n007,1,0.5,1\n008,-2,,0\n")
    assert found.values[0].tolist() == ["007", "008"]
    assert found.values[1].tolist() == ["1", "-2"]
    np.testing.assert_array_equal(found.numbers(2), [0.5, np.nan])
    assert found.values[3].tolist() == ["1", "0"]


def test_space_separates_only_in_txt(tmp_path):
    assert table(tmp_path, "0.5 1.5\n2.5 3.5\n", "t.txt").rows == 2
    words = table(tmp_path, "paper one\npaper two\n").values[0].tolist()
    assert words == ["paper one", "paper two"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty"),
        ("\n \n", "it is empty"),
        ("id,x\n", "it has no rows"),
        ("id,x\na,0.5\nb\n", "row 3 has 1 cells, the first has 2"),
        (
            "id,x\na,1\nb\nc,2\nd,3,4\n",
            "row 3 has 1 cells (and 1 more are unlike the first), the first has 2",
        ),
        ("id,x,x\na,1,2\n", "two columns are called 'x'"),
        (
            b"id,x\n\xe9,1\n",
            "it is not UTF-8 text (byte 5 is 0xe9); say which encoding it has, such as --encoding "
            "latin-1, or save it as UTF-8",
        ),
    ],
)
def test_text_that_is_no_table_is_one_clear_error(tmp_path, text, message):
    with pytest.raises(FileFormatError) as caught:
        table(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 't.csv'}: {message}"


def test_parquet_columns_keep_their_types(tmp_path):
    columns = {
        "id": [3, 1],
        "name": pa.array(["x", None]).dictionary_encode(),
        "flag": [True, False],
        "logits": [[0.5, 1.5], [2.5, 3.5]],
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = read_file(tmp_path / "t.parquet")
    assert found.names == ("id", "name", "flag", "logits")
    assert [column.tolist() for column in found.values] == [
        [3, 1],
        ["x", ""],
        [True, False],
        [[0.5, 1.5], [2.5, 3.5]],
    ]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    with pytest.raises(FileFormatError, match="damaged or no Parquet file"):
        read_file(tmp_path / "bad.parquet")


def test_arrays_of_every_kind_of_file(tmp_path):
    z, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    np.save(tmp_path / "a.npy", z)
    np.savez(tmp_path / "b.npz", logits=z, y=y)
    save_file({"logits": z, "y": y}, tmp_path / "c.safetensors")
    torch.save(torch.from_numpy(z), tmp_path / "d.pt")
    torch.save({"logits": torch.from_numpy(z).bfloat16(), "epoch": 3}, tmp_path / "e.pt")
    np.testing.assert_array_equal(read_file(tmp_path / "a.npy")[""], z)
    for name in ("b.npz", "c.safetensors"):
        found = read_file(tmp_path / name)
        assert sorted(found) == ["logits", "y"]
        np.testing.assert_array_equal(found["logits"], z)
    np.testing.assert_array_equal(read_file(tmp_path / "d.pt")[""], z)
    found = read_file(tmp_path / "e.pt")
    assert list(found) == ["logits"]
    assert found["logits"].dtype == np.float32


def test_sparse_matrices_of_scipy_and_torch(tmp_path):
    matrix = sparse.csr_array(np.array([[0, 1], [1, 0]]))
    sparse.save_npz(tmp_path / "a.npz", matrix)
    torch.save({"adj_t": torch.eye(2).to_sparse()}, tmp_path / "b.pt")
    np.testing.assert_array_equal(read_file(tmp_path / "a.npz")[""].toarray(), matrix.toarray())
    np.testing.assert_array_equal(read_file(tmp_path / "b.pt")["adj_t"].toarray(), np.eye(2))


def test_pyg_data_is_read_without_running_code(tmp_path):
    pyg = pytest.importorskip("torch_geometric")
    edges, y = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 1, 2])
    graph = pyg.data.Data(edge_index=edges, y=y, val_mask=y > 0, name="x")
    torch.save(graph, tmp_path / "data.pt")
    torch.save((graph.to_dict(), None, pyg.data.Data), tmp_path / "processed.pt")
    for name in ("data.pt", "processed.pt"):
        found = read_file(tmp_path / name)
        assert sorted(found) == ["edge_index", "val_mask", "y"]
        np.testing.assert_array_equal(found["edge_index"], edges)
    sparse_graph = pyg.transforms.ToSparseTensor()(graph)
    torch.save(sparse_graph.to_dict(), tmp_path / "a.pt")
    found = read_file(tmp_path / "a.pt")["adj_t"].tocoo()
    np.testing.assert_array_equal([found.col, found.row], edges)
    several = pyg.data.HeteroData()
    several["paper"].x = torch.zeros(3, 2)
    several["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
    for content in (several, several.to_dict()):
        torch.save(content, tmp_path / "a.pt")
        with pytest.raises(FileFormatError, match=r"a.pt: .*one kind of nodes.*to_homogeneous"):
            read_file(tmp_path / "a.pt")


def test_pickles_are_never_run(tmp_path):
    torch.save({"logits": torch.zeros(2, 2), "more": Bomb()}, tmp_path / "a.pt")
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Bomb()))
    np.save(tmp_path / "c.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    for name in ("a.pt", "b.pt", "c.npy"):
        with pytest.raises(FileFormatError, match="could run code when read"):
            read_file(tmp_path / name)


@pytest.mark.parametrize("ending", sorted(set(READS) - {".csv", ".tsv", ".txt"}))
def test_damaged_files_name_themselves(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    for content in (b"", b"nonsense", b"PK\x03\x04 and nothing more"):
        path.write_bytes(content)
        with pytest.raises(FileFormatError, match=f"^{path}: "):
            read_file(path)


def test_a_calibrator_is_not_arrays(tmp_path):
    path = tmp_path / "cal.safetensors"
    save_file({"temperature_": np.ones(1)}, path, metadata={"simi_mailbox": "{}"})
    with pytest.raises(FileFormatError, match="it is a fitted calibrator"):
        read_file(path)


def test_what_cannot_be_read_is_said(tmp_path):
    (tmp_path / "x.xlsx").touch()
    with pytest.raises(FileFormatError, match=r"that end in '\.xlsx' cannot be read; use one"):
        read_file(tmp_path / "x.xlsx")
    with pytest.raises(FileFormatError, match="it is a folder; name a file"):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_file(tmp_path / "nowhere.csv")


def test_two_columns_for_one_part_are_refused(tmp_path):
    with pytest.raises(FileFormatError, match="both a column 'y' and 'label': keep one"):
        table(tmp_path, "id,y,label\na,1,2\n").find(("y", "label"))


TABLE = "id;größe;b\nä;0,5;-1,25\nn2;2;1e-3\n"


@pytest.mark.parametrize(
    ("name", "content", "encoding"),
    [
        ("t.csv", TABLE.encode(), None),
        ("t.csv", b"\xef\xbb\xbf" + TABLE.encode(), "latin-1"),  # the mark is believed
        ("t.csv", TABLE.encode("utf-16"), None),
        ("t.csv", b"\xfe\xff" + TABLE.encode("utf-16-be"), None),
        ("t.csv", TABLE.encode("latin-1"), "latin-1"),
        ("t.csv", TABLE.encode("cp1252"), "cp1252"),
        ("t.csv", TABLE.replace("\n", "\r\n").encode(), None),
        ("t.tsv", TABLE.replace(";", "\t").encode(), None),
        ("t.csv.gz", gzip.compress(TABLE.encode(), mtime=0), None),
        ("t.TSV.gz", gzip.compress(TABLE.replace(";", "\t").encode("utf-16"), mtime=0), None),
        ("t.csv", TABLE.replace(",", ".").replace(";", ",").encode(), None),
    ],
)
def test_tables_as_spreadsheets_of_all_countries_write_them(tmp_path, name, content, encoding):
    found = table(tmp_path, content, name, encoding=encoding)
    assert found.names == ("id", "größe", "b")
    assert found.values[0].tolist() == ["ä", "n2"]
    np.testing.assert_array_equal(found.numbers(1), [0.5, 2.0])
    np.testing.assert_array_equal(found.numbers(2), [-1.25, 1e-3])


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("paper z,0.5\n", ("paper z", 0.5)),
        ('"paper, z","0.5"\n', ("paper, z", 0.5)),
        ('"paper\nz","0.5"\n', ("paper\nz", 0.5)),
        ("Größe,0.5\n", ("Größe", 0.5)),
    ],
)
def test_large_files_are_read_as_small_ones(tmp_path, last, found):
    rows = "".join(f"paper {k},{k}.25\n" for k in range(300_000))  # two blocks of four megabytes
    for mark in ("", "\ufeff", "\n"):
        large = table(tmp_path, mark + "paper,x\n" + rows + last)
        assert (large.rows, large.names) == (300_001, ("paper", "x"))
        assert (large.values[0][-1].as_py(), large.numbers(1)[-1]) == found
        assert large.values[0][:-1].tolist() == [f"paper {k}" for k in range(300_000)]
        np.testing.assert_array_equal(large.numbers(1)[:-1], np.arange(300_000) + 0.25)
    with pytest.raises(FileFormatError, match=r"row 300002 has 3 cells, the first has 2"):
        table(tmp_path, "paper,x\n" + rows + "a,b,c\n")
    with pytest.raises(FileFormatError, match=r"not UTF-8 text .byte \d+ is 0xe9"):
        table(tmp_path, b"paper,x\n" + rows.encode() + b"\xe9,0.5\n")


@pytest.mark.parametrize("packed", [bytes, lambda raw: gzip.compress(raw, mtime=0)])
def test_a_table_is_read_from_standard_input(monkeypatch, packed):
    file = io.BytesIO(packed(b"id,x\n007,0.5\nb,1.5\n"))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
    found = read_file(Path("-"))
    assert found.values[0].tolist() == ["007", "b"]
    np.testing.assert_array_equal(found.numbers(1), [0.5, 1.5])


def test_feather_is_read_and_damage_of_packed_files_is_told(tmp_path):
    feather.write_feather(pa.table({"id": [3], "x": [0.5]}), str(tmp_path / "t.feather"))
    assert read_file(tmp_path / "t.feather").values[0].tolist() == [3]
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"id,x\n1,2\n", mtime=0)[:-12])
    with pytest.raises(FileFormatError, match=r"t\.csv\.gz: it is damaged or no gzip file"):
        read_file(tmp_path / "t.csv.gz")
    with pytest.raises(ValueError, match="there is no encoding 'klingon'"):
        table(tmp_path, "id,x\n", encoding="klingon")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,x\n" + "a,0.5\n" * 120 + "b,oops\n", "row 122, column x: 'oops' is not a number; if"),
        (
            "id,x\na,0.5\nb,oops\nc,no\nd,1.5\n",
            "row 3, column x: 'oops' is not a number (nor are 1 more); if the column names nodes, "
            "say --id-column x",
        ),
        ('id,x\na,"0,5"\nb,"1,5"\n', "row 2, column x: '0,5' is not a number (nor are 1 more); if"),
    ],
)
def test_cells_that_are_no_numbers_are_told(tmp_path, text, message):
    with pytest.raises(FileFormatError) as caught:
        table(tmp_path, text).numbers(1)
    assert str(caught.value).startswith(f"{tmp_path / 't.csv'}: {message}")
