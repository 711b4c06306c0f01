"""Past runs as npz files, good and bad."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from past_run import past_run
from simi_mailbox.cli.group import cli
from simi_mailbox.exceptions import FileFormatError
from simi_mailbox.graph import Graph
from simi_mailbox.node_files.columns import NAMES
from simi_mailbox_bench.prior import read_run, write_run

N = 200


@pytest.fixture
def run():
    return past_run(0, n=N, labels=50)


def arrays(run, **changed):
    good = {
        "logits": run.logits,
        "y": run.y,
        "edge_index": run.graph.edge_index().numpy(),
        "calibration": np.asarray(run.calibration),
    }
    return good | changed


@pytest.mark.parametrize("directed", [False, True])
def test_a_run_comes_back_as_it_was_written(tmp_path, run, directed):
    edges = run.graph.edge_index()
    there = Graph.from_edges(edges[:, edges[0] < edges[1]], N, directed=True)
    graph = there if directed else run.graph
    path = tmp_path / "run.npz"
    words = {"family": "relatives", "split": 3, "train": np.arange(60, 70)}
    write_run(replace(run, graph=graph, **words), path)
    back = read_run(path)
    assert torch.equal(back.graph.indices, graph.indices)
    assert back.graph.is_directed == directed
    assert (back.graph_name, back.family, back.split) == (run.graph_name, "relatives", 3)
    for name in ("logits", "y", "calibration"):
        np.testing.assert_array_equal(getattr(back, name), getattr(run, name))
    np.testing.assert_array_equal(back.train, words["train"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": np.zeros(5, int)}, r"labels of all 200 nodes are needed, got shape \[5\]"),
        ({"y": np.full(N, 9)}, "node 0 of y has label 9, but the classes are 0..3"),
        ({"y": np.full(N, np.nan)}, "labels must be whole numbers"),
        ({"y": np.full(N, "cat")}, "labels must be numbers"),
        ({"logits": np.full((N, 4), np.nan)}, "logits of 200 of 200 nodes are NaN"),
        ({"calibration": np.array([999])}, "calibration names node 999"),
        ({"edge_index": np.array([[0.5], [1.0]])}, "an edge index holds integers"),
        ({"train": np.arange(40, 60)}, "train and calibration have 10 nodes in common"),
        ({"split": np.array("first")}, "split must be a whole number"),
        ({"split": np.arange(2)}, "split must be a whole number"),
        ({"directed": np.array([True, False])}, "directed must be one truth value"),
        ({"y": np.array([None] * N)}, "array 'y' holds Python objects, which could run code"),
    ],
)
def test_arrays_that_make_no_sense_are_refused_with_the_file_named(tmp_path, run, changed, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays(run, **changed))
    with pytest.raises(ValueError, match=message) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize("share", [0, 0.9])
@pytest.mark.parametrize("verb", ["fit", "judge"])
def test_a_part_of_a_file_gets_one_line_and_nothing_is_written(tmp_path, run, verb, share):
    path, out = tmp_path / "bad.npz", tmp_path / "out"
    np.savez(path, **arrays(run))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    done = CliRunner().invoke(cli, ["prior", verb, str(path), "--out", str(out)])
    assert done.exit_code == 1
    assert done.output.startswith(f"Error: {path}: ")
    assert ("it is damaged" if share else "it is empty; expected .npy or .npz") in done.output
    assert not out.is_file()
    assert not [*out.rglob("*")]


def test_what_could_not_be_read_is_not_written(tmp_path, run):
    with pytest.raises(ValueError, match="split must be a whole number"):
        write_run(replace(run, split=0.5), tmp_path / "run.npz")
    assert not list(tmp_path.iterdir())


def test_no_training_nodes_whole_float_labels_and_other_names_are_fine(tmp_path, run):
    path = tmp_path / "run.npz"
    write_run(replace(run, train=[], y=run.y.astype(float)), path)
    back = read_run(path)
    assert back.train is None
    assert back.y.dtype == np.int64
    given = arrays(run)
    np.savez(path, labels=given.pop("y"), **given, other=np.ones(2))
    np.testing.assert_array_equal(read_run(path).y, run.y)
    names = [name for names in NAMES.values() for name in names]
    assert len(set(names)) == len(names)  # none stands for two parts


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["z"], "it has no array 'logits', no 'labels' or 'y', no 'edges' or 'edge_index', no"),
        (["logits", "y", "labels", "edges", "calibration"], "both 'labels' and 'y'"),
    ],
)
def test_what_is_missing_or_twice_is_named_with_the_file(tmp_path, names, message):
    path = tmp_path / "run.npz"
    np.savez(path, **dict.fromkeys(names, np.zeros((4, 2))))
    with pytest.raises(FileFormatError, match=message) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}: ")
