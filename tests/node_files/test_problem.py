"""Files that name nodes and classes in their own way agree in the end."""

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from simi_mailbox.node_files import read_problem

Z = np.array([[0.5, 1.5, 0.1], [2.5, 0.2, 0.3], [0.7, 0.9, 3.5], [1.5, 2.5, 0.5]])
LOGITS = "id,cat,dog,eel\nd,0.5,1.5,0.1\nc,2.5,0.2,0.3\nb,0.7,0.9,3.5\na,1.5,2.5,0.5\n"
BIG = "9007199254740993"
ACCOUNTS = "account_id,legit,fraud\n1001,0.5,1.5\n1002,2.5,0.5\n1003,0.5,0.1\n"


@pytest.fixture
def problem(tmp_path):
    def write(name, content):
        if isinstance(content, str):
            path = tmp_path / f"{name}.csv"
            path.write_text(content)
        elif isinstance(content, dict):
            path = tmp_path / f"{name}.npz"
            np.savez(path, **content)
        else:
            path = tmp_path / f"{name}.npy"
            np.save(path, content)
        return path

    def problem(logits=LOGITS, options=None, **files):
        paths = {part: write(part, content) for part, content in files.items()}
        return read_problem(write("logits", logits), files=paths, **(options or {}))

    return problem


BUNDLE = {
    "logits": Z,
    "edge_index": np.array([[0], [1]]),
    "y": np.array([0, 1, 2, 0]),
    "val_mask": np.array([True, False, False, True]),
    "x": np.ones((4, 2)),
    "class_names": np.array(["cat", "dog", "eel"]),
    "notes": np.array([None]),  # nobody asked for it
}
# What it is about: the logits, other files, and what is found in them.
CASES = {
    "string ids and text labels": (
        LOGITS,
        {
            "labels": "id,label\na,eel\nd,cat\nc,\n",
            "edges": "source,target,weight\na,b,1\nc,d,2\n",
            "calibration": "id\nd\na\n",
        },
        {
            "values": Z.tolist(), "ids": ["d", "c", "b", "a"], "classes": ("cat", "dog", "eel"),
            "labels": [0, -1, -1, 2], "edges": [[3, 1], [2, 0]], "calibration": [0, 3],
        },
    ),
    "the name of the id column is learned from the logits": (
        LOGITS.replace("id,", "paper,"),
        {"labels": "paper,topic\na,dog\nb,cat\n"},
        {"id_name": "paper", "labels": [-1, -1, 0, 1]},
    ),
    "ids that look like numbers are names": (
        f"id,p,q\n12e5,0.5,1.5\n120e4,2.5,0.5\n1.10,0.5,0.1\n1.1,0.5,0.2\n{BIG},0.1,0.2\n007,0,1\n",
        {
            "edges": "source,target\n1.10,1.1\n12e5,120e4\n",
            "calibration": f"id\n1.10\n120e4\n007\n{BIG}\n",
        },
        {"edges": [[2, 0], [3, 1]], "calibration": [2, 1, 5, 4]},
    ),
    "whole numbers that lost their type": (
        "id,p,q\n1,0.5,1.5\n2,2.5,0.5\n",
        {"calibration": "id\n2.0\n"},
        {"calibration": [1]},
    ),
    "a node or class with the name of a column is no header": (
        "u,0.5,1.5\nv,2.5,0.5\ntest,0.5,0.1\n",
        {
            "classes": "x\ny\n", "edges": "u,v\nv,test\n", "calibration": "test\nu\n",
            "labels": "u,x\ntest,y\n",
        },
        {"edges": [[0, 1], [1, 2]], "calibration": [2, 0], "labels": [0, -1, 1]},
    ),
    "nor is an id in a list": (Z[:3], {"ids": "x\ny\nid\n"}, {"ids": ["x", "y", "id"]}),
    "nor a class": (
        Z[:3, :2],
        {"classes": "x\ny\n", "labels": "y\nx\ny\n"},
        {"labels": [1, 0, 1], "classes": ("x", "y")},
    ),
    "lists may have a header": (
        Z[:2, :2],
        {"classes": "name\nx\ny\n", "ids": "id\na\nb\n"},
        {"classes": ("x", "y"), "ids": ["a", "b"]},
    ),
    "classes with the name of a part": (
        "id,source,target\na,0.5,1.5\nb,2.5,0.5\n",
        {},
        {"classes": ("source", "target"), "values": [[0.5, 1.5], [2.5, 0.5]]},
    ),
    "without ids rows are the nodes": (
        Z,
        {
            "labels": np.array([0, -1, 2, 1]), "edges": np.array([[0, 1], [2, 3]]),
            "calibration": "0\n3\n", "test": np.arange(4) == 2, "train": "0\n1\n0\n0\n",
        },
        {
            "ids": None, "labels": [0, -1, 2, 1], "edges": [[0, 1], [2, 3]],
            "calibration": [0, 3], "test": [2], "train": [1],
        },
    ),
    "ids from a file of their own": (
        Z,
        {"ids": [10, 40, 30, 20], "edges": [[10, 20], [30, 40]], "calibration": [20, 10]},
        {"edges": [[0, 3], [2, 1]], "calibration": [3, 0]},
    ),
    "arrays count rows where ids are words": (
        LOGITS,
        {"calibration": [0, 2], "edges": [[0, 1], [1, 2]]},
        {"calibration": [0, 2], "edges": [[0, 1], [1, 2]]},
    ),
    "one bundle holds everything": (
        BUNDLE,
        {},
        {
            "labels": [0, 1, 2, 0], "calibration": [0, 3], "edges": [[0], [1]],
            "classes": ("cat", "dog", "eel"), "features": [[1, 1]] * 4,
        },
    ),
    "the only array of a bundle; files take precedence": (
        {"logits": Z, "y": np.zeros(4, int)},
        {"labels": {"anything": np.arange(4) % 3}},
        {"labels": [0, 1, 2, 0]},
    ),
    "one table holds labels and masks": (
        "id,label,val_mask,logit_cat,logit_dog\na,dog,1,0.5,1.5\nb,,0,2.5,0.5\nc,cat,1,0.5,0.1\n",
        {},
        {"classes": ("cat", "dog"), "labels": [1, -1, 0], "calibration": [0, 2]},
    ),
    "minus one is unknown": (
        LOGITS,
        {"labels": "id,label\na,2.0\nb,\nd,-1\n"},
        {"labels": [-1, -1, -1, 2]},
    ),
    "labels of all rows": (
        LOGITS,
        {"labels": "label\neel\n-1\ncat\ndog\n"},
        {"labels": [2, -1, 0, 1]},
    ),
    "minus one is a class if it is called so": (
        "id,-1,1\na,0.5,1.5\nb,2.5,0.5\n",
        {"labels": "id,label\na,-1\nb,1\n"},
        {"labels": [0, 1]},
    ),
    "features in the order of the nodes": (
        LOGITS,
        {"features": "id,x\na,1.5\nb,2.5\nc,3.5\nd,4.5\n"},
        {"features": [[4.5], [3.5], [2.5], [1.5]]},
    ),
    "a first column that is called like an id": (
        ACCOUNTS,
        {"edges": "source,target\n1001,1003\n"},
        {"classes": ("legit", "fraud"), "ids": ["1001", "1002", "1003"], "edges": [[0], [2]]},
    ),
    "scores that are called so may be any numbers": (
        "id,logit_a,logit_b,age\nx,300.5,0.5,3\ny,299.5,1.5,4\n",
        {},
        {"classes": ("a", "b")},
    ),
    "one may be constant": ("id,a,b\nx,0,1.5\ny,0,-0.5\n", {}, {"classes": ("a", "b")}),
    "or masked": ("id,a,b,c\nx,-1e9,1.5,0.5\ny,0.25,-0.5,1.5\n", {}, {"classes": ("a", "b", "c")}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_files_hold_is_found(problem, case):
    logits, files, expected = CASES[case]
    found = problem(logits, **files)
    named = {"edges": found.graph, **vars(found), **found.sets, **vars(found.nodes)}
    for part, value in expected.items():
        given = named[part]
        assert (given.tolist() if hasattr(given, "tolist") else given) == value, part


@pytest.mark.parametrize(
    ("logits", "options"),
    [
        ("paper,0,1,2\nd,0.5,1.5,0.1\nc,2.5,0.2,0.3\nb,0.7,0.9,3.5\na,1.5,2.5,0.5\n", {}),
        ("d,0.5,1.5,0.1\nc,2.5,0.2,0.3\nb,0.7,0.9,3.5\na,1.5,2.5,0.5\n", {}),
        ("4,0.5,1.5,0.1\n3,2.5,0.2,0.3\n2,0.7,0.9,3.5\n1,1.5,2.5,0.5\n", {"id_column": "1"}),
        ("0.5,1.5,0.1,d\n2.5,0.2,0.3,c\n0.7,0.9,3.5,b\n1.5,2.5,0.5,a\n", {"id_column": "4"}),
    ],
)
def test_ids_are_found_in_every_layout(problem, logits, options):
    found = problem(logits, options)
    np.testing.assert_array_equal(found.values, Z)
    assert found.nodes.ids.tolist() in (["d", "c", "b", "a"], ["4", "3", "2", "1"])
    assert found.nodes.classes is None


def test_an_index_of_pandas_names_nodes_if_nothing_else_does(tmp_path):
    path = tmp_path / "z.parquet"
    scores = {"a": [0.5, 1.5], "b": [1.5, 2.5]}
    for more, ids in (
        ({"__index_level_0__": [7, 4]}, [7, 4]),
        ({"__index_level_0__": [7, 4], "id": ["x", "y"]}, ["x", "y"]),
    ):
        parquet.write_table(pa.table({**scores, **more}), path)
        found = read_problem(path).nodes
        assert (found.ids.tolist(), found.classes) == (ids, ("a", "b"))


# Which part (of those that a file names) does not fit, and what is said of it.
BAD = [
    ("labels", "id,label\nz,cat\n", "there is no node 'z' among the 4"),
    ("labels", "id,label\na,cow\n", "label 'cow' of node 'a' is none of the classes: cat, "),
    ("labels", "id,label\na,-3\n", "label -3 is negative"),
    ("labels", "id,label\na,cat\na,dog\n", "it names node 'a' twice"),
    ("labels", "label\ncat\ndog\n", "2 rows for 4 nodes; add a column 'id'"),
    ("labels", "id,a,b\na,0,1\n", "which column holds the labels?"),
    ("labels", np.zeros(3), r"labels have shape \[3\]; expected one per node, \[4\]"),
    ("test", np.array([True]), "the mask has 1 entries for 4 nodes"),
    ("test", np.zeros(4, bool), "it names no node for --test"),
    ("test", "id,test\na,maybe\n", "'maybe' is neither yes nor no"),
    ("test", "x,y\n1,2\n", "there is no node '1'|which column names"),
    ("edges", "a,b,c\nb,c,d\nc,d,a\n", "it has 3 columns; an edge is two"),
    ("edges", np.zeros((5, 2), int), r"shape \[2, E\], got \[5, 2\]; tran"),
    ("edges", "source,target\na,q\n", "there is no node 'q'"),
    ("edges", np.zeros(4, int), r"an edge index has shape \[2, E\]"),
    ("edges", {"other": np.zeros(3), "more": np.zeros(2)}, "must have one array 'edges'"),
    ("labels", np.zeros(7, int), r"expected one per node, \[4\]"),
    ("logits", {"other": np.zeros(3), "more": np.zeros(2)}, "'logits'; it has: other, more"),
    ("logits", dict.fromkeys(("logits", "y", "labels"), Z), "has: logits, y, labels"),
    ("logits", np.zeros(9), "a column for each of at least two classes"),
    ("classes", "a\nb\n", r"2 names of classes for the 3 columns of .*logits\.csv"),
    ("classes", "a\nb\na\n", "two classes have the same name"),
    ("ids", "a\nb\n", "2 ids for the 4 rows"),
    ("logits", {"logits": Z, "ids": np.arange(2)}, "2 ids for the 4 rows"),
    ("features", "id,x\na,1.5\n", "features of 1 of 4 nodes"),
    ("features", "id,x\na,one\n", "column x: 'one' is not a number"),
    ("logits", "1,0.5,1.5\n2,2.5,0.5\n", "if it names the nodes, say --id-column 1"),
    ("logits", "account,a,b\n17,0.5,1.5\n19,2.5,0.5\n", "say --id-column account"),
    ("logits", "id,x,z\na,0.5,0.1\na,1.5,0.2\n", "two rows have the id 'a'"),
    ("logits", "id,a,b\nx,0.5,1.5\n,0.5,1.5\n", "a row has no id"),
    ("logits", "id,x,z\na,0.5,w\nb,1.5,w\n", "column z: 'w' is not a number .*--id-column z"),
    ("logits", "id\na\nb\n", "it has no columns of logits"),
    ("logits", "id,x\na,0.5\nb,1.5\n", r"at least two classes, got shape \[2, 1\]"),
    ("logits", "id,amount,a\nx,120.5,0.5\ny,99.5,1.5\n", "'amount' is about 110, far"),
    ("logits", "id,age,a,b\nx,3,0.5,1.5\ny,4,1.5,-0.5\n", "'age' holds whole numbers, the"),
    ("logits", "a,b,user_id\n0.1,0.2,7\n0.2,0.1,9\n", "'user_id' is called like an id"),
    (
        *("logits", "id,age,a,b,amount\nx,3,0.5,1.5,120.5\ny,4,1.5,-0.5,99.5\n"),
        "column 'age' holds .*; column 'amount' is about 110.*take it out.*call .* logit_",
    ),
]


@pytest.mark.parametrize(("part", "content", "message"), BAD)
def test_files_that_do_not_fit_name_themselves_and_the_trouble(problem, part, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        problem(**{part: content})
    assert f"{part}." in str(caught.value) or part == "classes"


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("labels", "label\n" + "cat\n" * 4, "label 'cat' of node 0 is text, and nothing says"),
        ("test", "4\n", r"there is no node 4; nodes are rows, numbered 0\.\.3.*--ids"),
        ("test", "d\n", "'d' is not a whole number, and the logits have no ids"),
        ("test", np.array([0.5, 1.5]), "'0.5', '1.5' is not a whole number"),
    ],
)
def test_logits_without_names_are_told_with_the_remedy(problem, part, content, message):
    with pytest.raises(ValueError, match=message):
        problem(Z, **{part: content})


def test_a_column_that_is_not_there(problem):
    with pytest.raises(ValueError, match="no column 'paper' for --id-column among id, cat"):
        problem(options={"id_column": "paper"})


def test_all_that_is_wrong_is_told_at_once_and_nodes_by_their_ids(problem):
    with pytest.raises(ValueError, match="NaN") as caught:
        problem(
            LOGITS.replace("2.5,0.2", "nan,0.2"),
            labels="id,label\na,cow\nb,pig\n",
            calibration="id\nq\nr\na\n",
        )
    told = str(caught.value)
    assert "logits.csv: node 'c' has logits that are NaN" in told
    assert "labels.csv: label 'cow', 'pig' of node 'a' is none of the classes" in told
    assert "calibration.csv: there is no node 'q', 'r' among the 4 nodes" in told
