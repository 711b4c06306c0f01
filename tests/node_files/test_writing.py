"""What is written reads back as it was."""

import csv
import errno
from pathlib import Path

import numpy as np
import pytest

from simi_mailbox.node_files import (
    WRITES,
    NodeNames,
    check_writable,
    read_problem,
    write_probabilities,
)

PROBS = np.random.default_rng(0).dirichlet(np.ones(3), size=5)
IDS = np.array(["007", "b,c", 'quote"', "ünï", "-1"])


@pytest.mark.parametrize("ending", WRITES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip_is_exact(tmp_path, ending, dtype):
    path = tmp_path / f"probs{ending}"
    probs = PROBS.astype(dtype)
    write_probabilities(path, probs, NodeNames(5, IDS, "paper", ("a", "b c", "id")))
    found = read_problem(path, input_type="probabilities")
    np.testing.assert_array_equal(found.values, probs)
    if ending != ".npy":
        np.testing.assert_array_equal(found.nodes.ids, IDS)
        assert found.nodes.classes == ("a", "b c", "id")
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_numbers_stand_for_nodes_and_classes_without_names(tmp_path):
    path = tmp_path / "probs.csv"
    write_probabilities(path, np.array([[0.25, 0.75]]), NodeNames(1))
    assert path.read_text() == "id,predicted,confidence,p_0,p_1\n0,1,0.75,0.25,0.75\n"


def test_whole_numbers_stay_whole_numbers_in_parquet(tmp_path):
    from pyarrow import parquet

    path = tmp_path / "probs.parquet"
    write_probabilities(path, PROBS, NodeNames(5, np.array([5, 3, 4, 1, 2])))
    assert parquet.read_table(path)["id"].to_pylist() == [5, 3, 4, 1, 2]


def test_endings_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"that end in '\.xlsx' cannot be written; use one of"):
        check_writable(tmp_path / "p.xlsx")
    with pytest.raises(ValueError, match="p: files without an ending cannot"):
        write_probabilities(tmp_path / "p", PROBS, NodeNames(5))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["predicted", "confidence", "p_a", "__index_level_0__"])
def test_a_column_of_ids_is_not_lost_under_one_of_ours(tmp_path, name):
    path = tmp_path / "probs.csv"
    write_probabilities(path, PROBS[:, :2], NodeNames(5, IDS, name, ("a", "b")))
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["id", "predicted", "confidence", "p_a", "p_b"]
    assert [row[0] for row in rows] == IDS.tolist()


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(*_arguments, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_probabilities(tmp_path / "p.npz", PROBS, NodeNames(5))
    assert caught.value.filename == str(tmp_path / "p.npz")


def test_standard_output_gets_a_table(capfdbinary):
    write_probabilities(Path("-"), np.array([[0.25, 0.75]]), NodeNames(1, np.array(["ä"])))
    out = capfdbinary.readouterr().out.decode()
    assert out == "id,predicted,confidence,p_0,p_1\nä,1,0.75,0.25,0.75\n"
