"""Arrays that cannot be used, or not as they look, are named in a sentence."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from simi_mailbox import CalibrationWarning, SimiMailbox, TemperatureScaling, select
from simi_mailbox.crossfit import cross_fitted
from simi_mailbox.validation import (
    RANGE_TOLERANCE,
    Labelled,
    looks_trained_on,
    read_logits,
    read_probabilities,
)
from tests.strategies import make_problem

CASE = make_problem(0)
N, K = CASE.logits.shape
HIDDEN = np.arange(N) % 7 == 0


def masked(array: Any) -> np.ma.MaskedArray[Any, Any]:
    mask = HIDDEN if array.ndim == 1 else np.repeat(HIDDEN[:, None], array.shape[1], axis=1)
    return np.ma.array(array, mask=mask)  # type: ignore[no-untyped-call]


def quantised(array: Any) -> torch.Tensor:
    return torch.quantize_per_tensor(torch.tensor(array, dtype=torch.float32), 0.1, 0, torch.qint8)


def fit(calibrator: Any = None, **changes: Any) -> Any:
    given = {"logits": CASE.logits, "y": CASE.y, "mask": CASE.mask, **changes}
    if calibrator is None:
        calibrator = TemperatureScaling()
    return calibrator.fit(given.pop("logits"), given.pop("y"), **given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": masked(CASE.y)}, "labels is a masked array, whose mask would be lost"),
        ({"logits": masked(CASE.logits)}, "logits is a masked array"),
        ({"mask": np.ma.array(np.arange(N) % 2 == 0, mask=HIDDEN)}, "mask is a masked array"),
        ({"train_mask": np.ma.array(HIDDEN, mask=HIDDEN)}, "train_mask is a masked array"),
        (
            {"logits": CASE.logits.astype(np.longdouble)},
            r"float128, wider .*: pass array\.astype",
        ),
        ({"logits": torch.tensor(CASE.logits).to_sparse()}, r"logits is a sparse tensor"),
        ({"logits": torch.tensor(CASE.logits).to_sparse_csr()}, r"pass its \.to_dense\(\)"),
        ({"logits": scipy.sparse.csr_matrix(CASE.logits)}, r"logits is a SciPy sparse matrix"),
        ({"logits": quantised(CASE.logits)}, r"quantised tensor .* pass its \.dequantize\(\)"),
        ({"logits": torch.empty(N, K, device="meta")}, "meta device, which holds no numbers"),
        ({"y": torch.tensor(CASE.y).to_sparse()}, "labels is a sparse tensor"),
        ({"y": scipy.sparse.csr_matrix(CASE.y)}, "labels is a SciPy sparse matrix"),
    ],
)
def test_arrays_of_another_kind_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        fit(**changes)


def test_masked_hidden_layers_are_refused() -> None:
    hidden = masked(np.random.default_rng(0).normal(size=(N, 3)))
    with pytest.raises(TypeError, match="hidden is a masked array"):
        fit(SimiMailbox(), graph=CASE.edges, hidden=hidden)


@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64, np.int8])
@pytest.mark.parametrize("tensor", [False, True])
def test_whole_numbers_of_any_width_are_logits(kind: Any, tensor: bool) -> None:
    whole = np.abs(np.round(CASE.logits * 3)).astype(kind)
    given = torch.from_numpy(whole) if tensor else whole
    expected = fit(logits=whole.astype(np.float32)).temperature_
    assert fit(logits=given).temperature_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.int8])
def test_labels_of_the_mask_alone_may_be_of_any_type(kind: Any) -> None:
    logits, mask = CASE.logits[:, :2], np.arange(0, N, 2)
    full = logits.argmax(axis=1)
    full[::3] = 1 - full[::3]
    labels = full[mask]
    given = {"mask": mask, "folds": 2}
    methods = {"methods": ["uncalibrated", "temperature"], "default": "uncalibrated"}
    expected = cross_fitted(TemperatureScaling(), logits, labels, **given)
    found = cross_fitted(TemperatureScaling(), logits, labels.astype(kind), **given)
    np.testing.assert_array_equal(found, expected)
    chosen = select(logits, labels, **given, **methods)
    for y in (labels.astype(kind), full.astype(kind)):
        assert select(logits, y, **given, **methods).evidence == chosen.evidence


def test_only_one_hot_labels_are_told_to_take_the_argmax() -> None:
    several = np.random.default_rng(0).random((N, K)) < 0.5
    with pytest.raises(ValueError, match="several labels of a node cannot be calibrated together"):
        fit(y=several)
    with pytest.raises(ValueError, match=r"take argmax\(axis=1\)"):
        fit(y=np.eye(K, dtype=int)[CASE.y])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits": CASE.logits[:, 0]}, r'"binary-logits"; outputs of a regression cannot'),
        ({"logits": CASE.logits[:, 0] ** 2, "input_type": "probabilities"}, "binary-probabilities"),
        ({"logits": CASE.logits[None]}, "per edge or per graph .* such as TemperatureScaling"),
    ],
)
def test_what_is_served_is_said(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(**changes)


def test_outputs_of_edges_are_told_from_those_of_nodes() -> None:
    from simi_mailbox import Graph

    graph = Graph.from_edges(CASE.edges % 50, 50)
    with pytest.raises(ValueError, match="per edge or per graph need a method without graph"):
        fit(SimiMailbox(), graph=graph)


def test_a_negative_node_id_is_named_by_its_row() -> None:
    cal = fit(SimiMailbox(), graph=CASE.edges)
    ids = np.arange(N)
    ids[4] = -1
    with pytest.raises(ValueError, match="node_ids of row 4 is -1: ids are not negative"):
        cal.predict_proba(CASE.logits, graph=CASE.edges, node_ids=ids)


def test_labels_of_one_class_only_are_warned_of() -> None:
    with pytest.warns(CalibrationWarning, match="all 60 calibration labels are class 2"):
        fit(y=np.full(N, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit()


def test_probabilities_may_miss_their_bounds_by_rounding_and_no_more() -> None:
    fine = np.array([[-RANGE_TOLERANCE, 1 + RANGE_TOLERANCE], [0.5, 0.5]])
    np.testing.assert_array_equal(read_probabilities(fine), fine)
    for wrong in ([[-2e-6, 1 + 2e-6]], [[-1.5e-6, 1.0]], [[0.0, 1 + 1.5e-6]]):
        with pytest.raises(ValueError, match="probs"):
            read_probabilities(np.array(wrong))


@pytest.mark.parametrize("kind", ["binary-logits", "binary-probabilities"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64"])
def test_binary_scores_keep_their_precision_and_small_types_are_widened(kind, dtype) -> None:
    score = np.array([0, 1, 1, 0] if kind == "binary-probabilities" else [-2, 3, 0, 1], dtype=dtype)
    found = read_logits(score, kind)
    assert str(found.dtype) == ("torch.float64" if dtype == "float64" else "torch.float32")
    assert found.shape == (4, 2)


@pytest.mark.parametrize(
    ("factor", "right", "suspicious"), [(6.0, 1.0, True), (6.0, 0.2, False), (1.0, 1.0, False)]
)
def test_nodes_look_trained_on_if_the_model_is_surer_of_them_and_right(
    factor: float, right: float, suspicious: bool
) -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 3))
    logits[:100] *= factor
    y = np.where(rng.random(100) < right, logits[:100].argmax(1), logits[:100].argmin(1))
    labelled = Labelled(torch.arange(100), torch.tensor(y))
    found = looks_trained_on(torch.tensor(logits), labelled)
    assert bool(found) == suspicious


@pytest.mark.parametrize(("most", "dtype"), [(1 << 24, "float32"), ((1 << 24) + 1, "float64")])
def test_whole_numbers_that_float32_does_not_tell_apart_are_wider(most: int, dtype: str) -> None:
    found = read_logits(np.array([[most, 0, -3], [5, 1, 2]]))
    assert str(found.dtype) == f"torch.{dtype}"
    assert int(found[0, 0]) == most
