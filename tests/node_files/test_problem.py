"""Files that name nodes and classes in their own way agree in the end."""

import json

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse

from simi_mailbox.node_files import read_problem

Z = np.array([[0.5, 1.5, 0.1], [2.5, 0.2, 0.3], [0.7, 0.9, 3.5], [1.5, 2.5, 0.5]])
LOGITS = "id,cat,dog,eel\nd,0.5,1.5,0.1\nc,2.5,0.2,0.3\nb,0.7,0.9,3.5\na,1.5,2.5,0.5\n"


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        if isinstance(content, str):
            path.write_text(content)
        elif isinstance(content, dict):
            np.savez(path, **content)
        else:
            np.save(path, content)
        return path

    return write


@pytest.fixture
def problem(write):
    def problem(logits=LOGITS, *, source="logits.csv", options=None, **files):
        paths = {part: write(*content) for part, content in files.items()}
        return read_problem(write(source, logits), files=paths, **(options or {}))

    return problem


def test_string_ids_and_text_labels_find_their_rows_and_classes(problem):
    found = problem(
        labels=("labels.csv", "id,label\na,eel\nd,cat\nc,\n"),
        edges=("edges.csv", "source,target,weight\na,b,1\nc,d,2\n"),
        calibration=("val.csv", "id\nd\na\n"),
    )
    np.testing.assert_array_equal(found.values, Z)
    assert found.nodes.ids.tolist() == ["d", "c", "b", "a"]
    assert found.nodes.classes == ("cat", "dog", "eel")
    assert found.labels.tolist() == [0, -1, -1, 2]
    assert found.graph.tolist() == [[3, 1], [2, 0]]
    assert found.sets["calibration"].tolist() == [0, 3]


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
    found = problem(logits, options=options)
    np.testing.assert_array_equal(found.values, Z)
    assert found.nodes.ids.tolist() in (["d", "c", "b", "a"], ["4", "3", "2", "1"])
    assert found.nodes.classes is None


def test_the_name_of_the_id_column_is_learned_from_the_logits(problem):
    found = problem(
        LOGITS.replace("id,", "paper,"), labels=("l.csv", "paper,topic\na,dog\nb,cat\n")
    )
    assert found.nodes.id_name == "paper"
    assert found.labels.tolist() == [-1, -1, 0, 1]


def test_leading_zeros_and_long_numbers_are_names(problem):
    big = "9007199254740993"
    text = f"id,x,y\n007,0.5,1.5\n7,2.5,0.5\n{big},0.5,0.1\n"
    found = problem(text, calibration=("val.csv", f"id\n{big}\n007\n"))
    assert found.nodes.ids.tolist() == ["007", "7", big]
    assert found.sets["calibration"].tolist() == [2, 0]


def test_ids_that_look_like_measured_numbers_are_names(problem):
    text = "id,p,q\n12e5,0.5,1.5\n120e4,2.5,0.5\n1.10,0.5,0.1\n1.1,0.5,0.2\n"
    edges = ("edges.csv", "source,target\n1.10,1.1\n12e5,120e4\n")
    found = problem(text, edges=edges, calibration=("val.csv", "id\n1.10\n120e4\n"))
    assert found.nodes.ids.tolist() == ["12e5", "120e4", "1.10", "1.1"]
    assert found.graph.tolist() == [[2, 0], [3, 1]]
    assert found.sets["calibration"].tolist() == [2, 1]


def test_whole_numbers_that_lost_their_type_still_name_the_same_nodes(problem):
    found = problem("id,p,q\n1,0.5,1.5\n2,2.5,0.5\n", calibration=("val.csv", "id\n2.0\n"))
    assert found.sets["calibration"].tolist() == [1]


def test_a_node_or_class_with_the_name_of_a_column_is_no_header(problem):
    nodes = "u,0.5,1.5\nv,2.5,0.5\ntest,0.5,0.1\n"
    classes = ("classes.txt", "x\ny\n")
    sets = {"calibration": ("c.txt", "test\nu\n"), "labels": ("l.csv", "u,x\ntest,y\n")}
    found = problem(nodes, classes=classes, edges=("edges.csv", "u,v\nv,test\n"), **sets)
    assert found.nodes.ids.tolist() == ["u", "v", "test"]
    assert found.nodes.classes == ("x", "y")
    assert found.graph.tolist() == [[0, 1], [1, 2]]
    assert found.sets["calibration"].tolist() == [2, 0]
    assert found.labels.tolist() == [0, -1, 1]
    found = problem(Z[:3], source="z.npy", ids=("ids.txt", "x\ny\nid\n"))
    assert found.nodes.ids.tolist() == ["x", "y", "id"]
    found = problem(Z[:3, :2], source="z.npy", classes=classes, labels=("l.txt", "y\nx\ny\n"))
    assert found.labels.tolist() == [1, 0, 1]


def test_lists_may_have_a_header(problem):
    lists = {"classes": ("c.txt", "name\nx\ny\n"), "ids": ("i.txt", "id\na\nb\n")}
    found = problem(Z[:2, :2], source="z.npy", **lists)
    assert found.nodes.classes == ("x", "y")
    assert found.nodes.ids.tolist() == ["a", "b"]


def test_classes_with_the_name_of_a_part_are_columns_of_logits(problem):
    found = problem("id,source,target\na,0.5,1.5\nb,2.5,0.5\n")
    assert found.nodes.classes == ("source", "target")
    assert found.values.tolist() == [[0.5, 1.5], [2.5, 0.5]]


def test_without_ids_rows_are_the_nodes(problem):
    found = problem(
        Z,
        source="z.npy",
        labels=("y.npy", np.array([0, -1, 2, 1])),
        edges=("e.npy", np.array([[0, 1], [2, 3]])),
        calibration=("val.csv", "0\n3\n"),
        test=("test.npy", np.array([False, False, True, False])),
        train=("train.txt", "0\n1\n0\n0\n"),
    )
    assert found.nodes.ids is None
    assert found.nodes.shown().tolist() == [0, 1, 2, 3]
    assert found.labels.tolist() == [0, -1, 2, 1]
    assert [found.sets[name].tolist() for name in ("calibration", "test", "train")] == [
        [0, 3],
        [2],
        [1],
    ]


def test_ids_from_a_file_of_their_own(problem):
    found = problem(
        Z,
        source="z.npy",
        ids=("ids.npy", np.array([10, 40, 30, 20])),
        edges=("e.npy", np.array([[10, 20], [30, 40]])),
        calibration=("val.npy", np.array([20, 10])),
    )
    assert found.graph.tolist() == [[0, 3], [2, 1]]
    assert found.sets["calibration"].tolist() == [3, 0]


def test_arrays_count_rows_where_ids_are_words(problem):
    found = problem(calibration=("val.npy", np.array([0, 2])), edges=("e.npy", [[0, 1], [1, 2]]))
    assert found.sets["calibration"].tolist() == [0, 2]
    assert found.graph.tolist() == [[0, 1], [1, 2]]


def test_one_bundle_holds_everything(problem):
    bundle = {
        "logits": Z,
        "edge_index": np.array([[0], [1]]),
        "y": np.array([0, 1, 2, 0]),
        "val_mask": np.array([True, False, False, True]),
        "x": np.ones((4, 2)),
        "class_names": np.array(["cat", "dog", "eel"]),
    }
    found = problem(bundle, source="b.npz")
    assert found.labels.tolist() == [0, 1, 2, 0]
    assert found.sets["calibration"].tolist() == [0, 3]
    assert found.nodes.classes == ("cat", "dog", "eel")
    assert found.features.shape == (4, 2)


def test_the_only_array_of_a_bundle_is_the_part_asked_for(problem):
    found = problem(Z, source="z.npy", labels=("one.npz", {"anything": np.array([0, 1, 2, 0])}))
    assert found.labels.tolist() == [0, 1, 2, 0]


def test_arrays_that_nobody_asked_for_are_left_alone(problem, tmp_path):
    np.savez(tmp_path / "b.npz", logits=Z, notes=np.array([None]))
    assert read_problem(tmp_path / "b.npz").values.shape == (4, 3)


def test_one_table_holds_labels_and_masks(problem):
    text = "id,label,val_mask,logit_cat,logit_dog\na,dog,1,0.5,1.5\nb,,0,2.5,0.5\nc,cat,1,0.5,0.1\n"
    found = problem(text)
    assert found.nodes.classes == ("cat", "dog")
    assert found.labels.tolist() == [1, -1, 0]
    assert found.sets["calibration"].tolist() == [0, 2]


def test_files_take_precedence_over_the_bundle(problem):
    found = problem(
        {"logits": Z, "y": np.zeros(4, int)}, source="b.npz", labels=("y.npy", np.arange(4) % 3)
    )
    assert found.labels.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("a,2\nd,0\n", [0, -1, -1, 2]),
        ("id,label\na,2.0\nb,\nd,-1\n", [-1, -1, -1, 2]),
        ("label\neel\n\ncat\ndog\n".replace("\n\n", "\n-1\n"), [2, -1, 0, 1]),
    ],
)
def test_numbers_name_classes_by_column_and_minus_one_is_unknown(problem, labels, expected):
    assert problem(labels=("l.csv", labels)).labels.tolist() == expected


def test_minus_one_is_a_class_if_it_is_called_so(problem):
    text = "id,-1,1\na,0.5,1.5\nb,2.5,0.5\n"
    found = problem(text, labels=("l.csv", "id,label\na,-1\nb,1\n"))
    assert found.labels.tolist() == [0, 1]


def test_names_of_classes_from_a_file(problem):
    found = problem(
        Z,
        source="z.npy",
        classes=("classes.txt", "cat\ndog\neel\n"),
        labels=("l.csv", "label\neel\ndog\ncat\ncat\n"),
    )
    assert found.labels.tolist() == [2, 1, 0, 0]


def test_a_scipy_matrix_is_a_graph(problem, tmp_path):
    sparse.save_npz(tmp_path / "adj.npz", sparse.eye_array(4, format="csr"))
    path = tmp_path / "z.npy"
    np.save(path, Z)
    assert read_problem(path, files={"edges": tmp_path / "adj.npz"}).graph.shape == (4, 4)


def test_features_are_put_into_the_order_of_the_nodes(problem):
    found = problem(features=("x.csv", "id,x\na,1.5\nb,2.5\nc,3.5\nd,4.5\n"))
    assert found.features.tolist() == [[4.5], [3.5], [2.5], [1.5]]


def test_an_edge_index_written_by_savetxt(problem):
    assert problem(Z, source="z.npy", edges=("e.txt", "0 1 2\n1 2 3\n")).graph.shape == (2, 3)


BAD = {
    "unknown id": ({"labels": ("l.csv", "id,label\nz,cat\n")}, "there is no node 'z' among the 4"),
    "unknown class": (
        {"labels": ("l.csv", "id,label\na,cow\n")},
        "label 'cow' of node a is none of the classes: cat, dog, eel",
    ),
    "negative": ({"labels": ("l.csv", "id,label\na,-3\n")}, "label -3 is negative"),
    "twice": ({"labels": ("l.csv", "id,label\na,cat\na,dog\n")}, "it names node 'a' twice"),
    "rows": ({"labels": ("l.csv", "label\ncat\ndog\n")}, "2 rows for 4 nodes; add a column 'id'"),
    "which": ({"labels": ("l.csv", "id,a,b\na,0,1\n")}, "which column holds the labels?"),
    "shape": (
        {"labels": ("y.npy", np.zeros(3))},
        r"labels have shape \[3\]; expected one per node, \[4\]",
    ),
    "mask": ({"test": ("t.npy", np.array([True]))}, "the mask has 1 entries for 4 nodes"),
    "nobody": ({"test": ("t.npy", np.zeros(4, bool))}, "it names no node for --test"),
    "truth": ({"test": ("t.csv", "id,test\na,maybe\n")}, "'maybe' is neither yes nor no"),
    "set": ({"test": ("t.csv", "x,y\n1,2\n")}, "there is no node '1'|which column names"),
    "edges": ({"edges": ("e.csv", "a,b,c\nb,c,d\nc,d,a\n")}, "it has 3 columns; an edge is two"),
    "turned": ({"edges": ("e.npy", np.zeros((5, 2), int))}, r"shape \[2, E\], got \[5, 2\]; tran"),
    "stranger": ({"edges": ("e.csv", "source,target\na,q\n")}, "there is no node 'q'"),
    "classes": ({"classes": ("c.txt", "a\nb\n")}, "2 names of classes for the 3 columns"),
    "same class": ({"classes": ("c.txt", "a\nb\na\n")}, "two classes have the same name"),
    "ids": ({"ids": ("i.txt", "a\nb\n")}, "2 ids for the 4 rows"),
    "features": ({"features": ("x.csv", "id,x\na,1.5\n")}, "features of 1 of 4 nodes"),
    "words": ({"features": ("x.csv", "id,x\na,one\n")}, "column x is not numbers .*'one'"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_do_not_fit_name_themselves_and_the_trouble(problem, case):
    files, message = BAD[case]
    with pytest.raises(ValueError, match=message) as caught:
        problem(**files)
    ((_, (name, _)),) = files.items()
    assert name in str(caught.value) or case == "classes"


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ("1,0.5,1.5\n2,2.5,0.5\n", "if it names the nodes, say --id-column 1"),
        ("id,x,z\na,0.5,0.1\na,1.5,0.2\n", "two rows have the id 'a'"),
        ("id,x,z\na,0.5,word\nb,1.5,word\n", "column z is not numbers .*say --id-column z"),
        ("id\na\nb\n", "it has no columns of logits"),
        ("id,x\na,0.5\nb,1.5\n", "one column of logits, and calibration needs at least two"),
    ],
)
def test_logits_that_are_none(problem, logits, message):
    with pytest.raises(ValueError, match=message):
        problem(logits)


def test_text_labels_need_names_of_classes(problem):
    with pytest.raises(ValueError, match="label 'cat' of node 0 is text, and nothing says which"):
        problem(Z, source="z.npy", labels=("l.csv", "label\ncat\ncat\ncat\ncat\n"))


def test_rows_beyond_the_last_are_refused_with_the_remedy(problem):
    with pytest.raises(
        ValueError, match=r"there is no node 4; nodes are rows, numbered 0\.\.3.*--ids"
    ):
        problem(Z, source="z.npy", calibration=("v.csv", "4\n"))
    with pytest.raises(ValueError, match="'d' is not a whole number, and the logits have no ids"):
        problem(Z, source="z.npy", calibration=("v.csv", "d\n"))


def test_a_column_that_is_not_there(problem):
    with pytest.raises(ValueError, match="no column 'paper' for --id-column; its columns: id, cat"):
        problem(options={"id_column": "paper"})


ACCOUNTS = "account_id,legit,fraud\n1001,0.5,1.5\n1002,2.5,0.5\n1003,0.5,0.1\n"


def test_a_first_column_that_is_called_like_an_id_names_the_nodes(problem):
    found = problem(ACCOUNTS, edges=("e.csv", "source,target\n1001,1003\n"))
    assert found.nodes.classes == ("legit", "fraud")
    assert found.nodes.ids.tolist() == ["1001", "1002", "1003"]
    assert found.graph.tolist() == [[0], [2]]


def test_a_first_column_that_all_files_share_names_the_nodes(problem):
    found = problem(
        ACCOUNTS.replace("account_id", "account"),
        labels=("l.csv", "account,label\n1003,fraud\n"),
        calibration=("c.csv", "account\n1003\n"),
    )
    assert found.nodes.classes == ("legit", "fraud")
    assert found.labels.tolist() == [-1, -1, 1]
    assert found.sets["calibration"].tolist() == [2]


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ("id,amount,a,b\nx,120.5,0.5,1.5\ny,99.5,1.5,-0.5\n", "column 'amount' is about 110, far"),
        ("id,age,a,b\nx,3,0.5,1.5\ny,4,1.5,-0.5\n", "column 'age' holds whole numbers, the others"),
        ("a,b,c,user_id\n0.1,0.2,0.3,7\n0.2,0.1,0.3,9\n", "column 'user_id' is called like an id"),
        (
            "id,age,a,b,amount\nx,3,0.5,1.5,120.5\ny,4,1.5,-0.5,99.5\n",
            "column 'age' holds .*; column 'amount' is about 110.*take it out.*call .* logit_",
        ),
        ("account,a,b\n17,0.5,1.5\n19,2.5,0.5\n", "say --id-column account"),
    ],
)
def test_a_column_that_is_no_class_score_is_refused_by_name(problem, logits, message):
    with pytest.raises(ValueError, match=message):
        problem(logits)


def test_scores_that_are_called_so_may_be_any_numbers_and_one_may_be_constant(problem):
    text = "id,logit_a,logit_b,age\nx,300.5,0.5,3\ny,299.5,1.5,4\n"
    assert problem(text).nodes.classes == ("a", "b")
    assert problem("id,a,b\nx,0,1.5\ny,0,-0.5\n").nodes.classes == ("a", "b")
    masked = problem("id,a,b,c\nx,-1e9,1.5,0.5\ny,0.25,-0.5,1.5\n")
    assert masked.nodes.classes == ("a", "b", "c")


def test_an_index_of_pandas_names_nodes_if_nothing_else_does(tmp_path):
    from pyarrow import parquet

    columns = {"a": [0.5, 1.5], "b": [1.5, 2.5], "__index_level_0__": [7, 4]}
    path = tmp_path / "z.parquet"
    parquet.write_table(pa.table(columns), path)
    assert read_problem(path).nodes.ids.tolist() == [7, 4]
    parquet.write_table(pa.table({**columns, "id": ["x", "y"]}), path)
    found = read_problem(path).nodes
    assert found.ids.tolist() == ["x", "y"]
    assert found.classes == ("a", "b")
    index = json.dumps({"index_columns": ["paper"]})
    named = pa.table({"a": [0.5, 1.5], "b": [1.5, 2.5], "paper": [7, 4]})
    parquet.write_table(named.replace_schema_metadata({"pandas": index}), path)
    assert read_problem(path).nodes.ids.tolist() == [7, 4]


def test_all_that_is_wrong_is_told_at_once_and_nodes_by_their_ids(problem):
    with pytest.raises(ValueError, match="NaN") as caught:
        problem(
            LOGITS.replace("2.5,0.2", "nan,0.2"),
            labels=("l.csv", "id,label\na,cow\nb,pig\n"),
            calibration=("c.csv", "id\nq\nr\na\n"),
        )
    told = str(caught.value)
    assert "logits.csv: node c has logits that are NaN" in told
    assert "l.csv: label 'cow' of node a (and 'pig') is none of the classes" in told
    assert "c.csv: there is no node 'q', 'r' among the 4 nodes" in told


def test_rows_without_an_id_are_refused(problem):
    with pytest.raises(ValueError, match=r"logits\.csv: a row has no id"):
        problem("id,a,b\nx,0.5,1.5\n,0.5,1.5\n")
