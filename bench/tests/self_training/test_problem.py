"""What self-training refuses, and what it takes in more than one form."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from simi_mailbox import calibrators
from simi_mailbox_bench.datasets import Split
from simi_mailbox_bench.self_training import self_train
from toy_graph import QUICK, N, never, toy


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 1.2, float("nan")])
def test_refuses_thresholds_outside_zero_and_one(threshold: float) -> None:
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        self_train(x, graph, y, split, threshold=threshold)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stages": 0}, "stages must be at least 1"),
        ({"labels_per_class": 0}, "labels_per_class must be at least 1"),
        ({"num_classes": 2}, r"range over 0\.\.2; expected 0\.\.1"),
        ({"calibrator": "temprature"}, "did you mean 'temperature'"),
        ({"backbone": "gnc"}, "unknown backbone 'gnc'"),
        ({"backbone": lambda y, split, seed: np.ones((3, 2))}, r"logits of shape \[240, classes\]"),
    ],
)
def test_refuses_what_makes_no_sense(arguments: dict[str, object], message: str) -> None:
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match=message):
        self_train(x, graph, y, split, **arguments)


def test_refuses_a_split_that_leaves_nobody_to_label() -> None:
    x, graph, y, split = toy()
    rest = np.setdiff1d(np.arange(N), np.concatenate([split.train, split.val]))
    with pytest.raises(ValueError, match="no node is left to be labelled"):
        self_train(x, graph, y, Split(split.train, split.val, rest))


def test_refuses_labels_of_another_length() -> None:
    x, graph, y, split = toy()
    with pytest.raises(ValueError, match=r"of shape \[239\]; expected one per node, \[240\]"):
        self_train(x, graph, y[:-1], split)


def wrong_labels() -> dict[str, object]:
    _, _, y, split = toy()
    broken = y.astype(float)
    broken[split.val[0]] = np.nan
    return {"halves": y + 0.5, "names": y.astype(str), "objects": list(map(str, y)), "nan": broken}


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("halves", ValueError, r"labels must be whole numbers.* node \d+ has \d\.5"),
        ("names", TypeError, r"labels must be class numbers 0, 1, …, got an array of <U"),
        ("objects", TypeError, "np.unique"),
        ("nan", ValueError, "has nan"),
    ],
)
def test_refuses_labels_that_are_not_class_numbers(
    kind: str, error: type[Exception], message: str
) -> None:
    x, graph, y, split = toy()
    with pytest.raises(error, match=message):
        self_train(x, graph, wrong_labels()[kind], split, backbone=never)
    with pytest.raises(error, match=message.replace("labels", "truth")):
        self_train(x, graph, y, split, backbone=never, truth=wrong_labels()[kind])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"threshold": "0.8"}, TypeError, "threshold must be a number between 0 and 1, got '0.8'"),
        ({"threshold": None}, TypeError, "threshold must be a number"),
        ({"stages": 2.5}, TypeError, r"stages must be a whole number, got 2\.5"),
        ({"labels_per_class": "3"}, TypeError, "labels_per_class must be a whole number"),
        ({"num_classes": 3.0}, TypeError, r"num_classes must be a whole number, got 3\.0"),
        ({"keep": "first"}, ValueError, "keep must be 'last' or 'best', got 'first'"),
        (
            {"truth": np.zeros(5, int)},
            ValueError,
            r"truth of shape \[5\]; expected one per node",
        ),
        ({"backbone": 7}, TypeError, "backbone must be the name of one or a function"),
        ({"calibrator": 7}, TypeError, "calibrator must be a name, an unfitted calibrator or None"),
        (
            {"calibrator": calibrators.get("temperature")},
            TypeError,
            "calibrator must be a name, an unfitted",
        ),
    ],
)
def test_refuses_arguments_of_another_kind(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    x, graph, y, split = toy()
    with pytest.raises(error, match=message):
        self_train(x, graph, y, split, **{"backbone": never, **arguments})


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            lambda x: x[:, 0],
            ValueError,
            r"features must have shape \[nodes, features\], got \[240\]",
        ),
        (lambda x: x.astype(str), TypeError, "features must be numbers"),
        (lambda x: np.where(x > 1, np.nan, x), ValueError, "NaN"),
        (lambda x: None, TypeError, "backbone 'gcn' needs features"),
    ],
)
def test_refuses_features_it_cannot_read(
    change: object, error: type[Exception], message: str
) -> None:
    x, graph, y, split = toy()
    with pytest.raises(error, match=message):
        self_train(change(x), graph, y, split)


def test_refuses_masks_in_place_of_a_split() -> None:
    x, graph, y, split = toy()
    with pytest.raises(TypeError, match=r"split must be a datasets.Split, got tuple"):
        self_train(x, graph, y, split.masks(N))


def test_features_and_labels_come_in_many_kinds() -> None:
    x, graph, y, split = toy()
    arguments = {"settings": QUICK, "stages": 1, "calibrator": None}
    expected = self_train(x, graph, y, split, **arguments).logits
    tensor = torch.from_numpy(x)
    for kind in (x.tolist(), sp.csr_array(x), tensor, tensor.to_sparse_csr()):
        made = self_train(kind, graph, y, split, **arguments)
        np.testing.assert_allclose(made.logits, expected, atol=1e-5)
    for labels in (y.tolist(), y.astype(float), y[:, None], torch.from_numpy(y)):
        made = self_train(x, graph, labels, split, truth=labels, **arguments)
        np.testing.assert_array_equal(made.logits, expected)
