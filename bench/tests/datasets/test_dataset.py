from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from simi_mailbox.graph import Graph
from simi_mailbox_bench.datasets import NodeDataset, Split

GRAPH = Graph.from_edges([[0, 1, 2], [1, 2, 3]], num_nodes=4)


def build(**changes: Any) -> NodeDataset:
    fields: dict[str, Any] = {
        "name": "path",
        "graph": GRAPH,
        "x": np.eye(4),
        "y": np.array([0, 0, 1, 1]),
        "num_classes": 2,
    }
    return NodeDataset(**{**fields, **changes})


def test_arrays_are_read_only_and_of_fixed_type() -> None:
    dataset = build(x=sp.csr_matrix(np.eye(4)), y=np.array([0, 0, 1, 1], dtype=np.int16))
    assert isinstance(dataset.x, sp.csr_array)
    assert dataset.x.dtype == np.float32
    assert dataset.y.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        dataset.y[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        dataset.x.data[0] = 2


def test_the_callers_arrays_stay_writeable() -> None:
    x, y = np.eye(4, dtype=np.float32), np.array([0, 0, 1, 1])
    sparse = sp.csr_array(x)
    build(x=x, y=y)
    build(x=sparse)
    x[0, 0], y[0], sparse.data[0] = 5, 1, 7
    assert (x[0, 0], y[0], sparse.data[0]) == (5, 1, 7)


def test_homophily_is_the_share_of_edges_within_a_class() -> None:
    assert build().homophily() == pytest.approx(2 / 3)
    assert np.isnan(build(graph=Graph.empty(4)).homophily())


def test_labelled_leaves_out_fillers() -> None:
    dataset = build(unlabelled=np.array([False, True, False, False]))
    assert dataset.labelled.tolist() == [True, False, True, True]
    assert build().labelled.all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.eye(3)}, "one row for each of 4 nodes"),
        ({"x": np.full((4, 2), np.nan)}, "NaN or infinite"),
        ({"y": np.array([0, 1])}, r"labels have shape \[2\]"),
        ({"y": np.array([0, 1, 2, 0])}, r"node 2 has class 2; classes are 0\.\.1"),
        ({"y": np.array([0, -1, 1, 0])}, "node 1 has class -1"),
        ({"num_classes": 1}, "at least two classes"),
        ({"folds": np.zeros((5, 3), dtype=np.int8)}, r"expected \[splits, 4\]"),
        ({"folds": np.full((1, 4), 7)}, "only 0, 1, 2"),
        ({"unlabelled": np.array([True])}, "unlabelled has shape"),
        ({"public": Split([0], [1], [4])}, "does not fit the graph"),
        ({"official": (Split([0], [1], [2]), Split([0], [9], [2]))}, "val holds node 9"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_labels_must_be_integers() -> None:
    with pytest.raises(TypeError, match="must be integers"):
        build(y=np.array([0.0, 0, 1, 1]))
