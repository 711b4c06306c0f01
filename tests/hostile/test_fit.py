"""What a user may pass to ``fit`` by mistake: each is refused with words that help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from simi_mailbox import TemperatureScaling, calibrators
from tests.strategies import make_problem

CASE = make_problem(0)
N, K = CASE.logits.shape
NAN = np.full_like(CASE.logits, np.nan)


def labels(value: Any) -> Any:
    y = CASE.y.astype(float)
    y[CASE.mask[0]] = value
    return y


CASES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "logits of one node": ({"logits": CASE.logits[0]}, ValueError, "nodes, classes"),
    "logits of no node": ({"logits": CASE.logits[:0]}, ValueError, "no node"),
    "logits of one class": ({"logits": CASE.logits[:, :1]}, ValueError, "at least two classes"),
    "logits of no class": ({"logits": CASE.logits[:, :0]}, ValueError, "at least two classes"),
    "logits in three dimensions": ({"logits": CASE.logits[None]}, ValueError, "nodes, classes"),
    "logits of text": ({"logits": CASE.logits.astype(str)}, TypeError, "real numbers"),
    "logits of truth values": ({"logits": CASE.logits > 0}, TypeError, "real numbers"),
    "complex logits": ({"logits": CASE.logits + 0j}, TypeError, "real numbers"),
    "complex tensor": (
        {"logits": torch.tensor(CASE.logits + 0j)}, TypeError, "real numbers"
    ),
    "tensor of truth values": (
        {"logits": torch.tensor(CASE.logits > 0)}, TypeError, "real numbers"
    ),
    "logits of objects": ({"logits": CASE.logits.astype(object)}, TypeError, "real numbers"),
    "logits that are no numbers": ({"logits": NAN}, ValueError, "NaN or infinite"),
    "infinite logits": ({"logits": NAN + np.inf}, ValueError, "NaN or infinite"),
    "logits of 1e20": ({"logits": CASE.logits * 1e20}, ValueError, "divide all logits"),
    "too few labels": ({"y": CASE.y[:50]}, ValueError, "expected one per node"),
    "too many labels": ({"y": np.tile(CASE.y, 2)}, ValueError, "expected one per node"),
    "labels of text": ({"y": CASE.y.astype(str)}, TypeError, "class numbers"),
    "a label above": ({"y": labels(K)}, ValueError, f"has label {K}"),
    "a label below": ({"y": labels(-1)}, ValueError, "has label -1"),
    "half a label": ({"y": labels(0.5)}, ValueError, "whole numbers"),
    "a label that is none": ({"y": labels(np.nan)}, ValueError, "whole numbers"),
    "a label of 1e20": ({"y": labels(1e20)}, ValueError, "label 1e\\+20"),
    "labels one-hot": ({"y": np.eye(K)[CASE.y]}, ValueError, "expected one per node"),
    "no mask": ({"mask": None}, TypeError, "mask is missing"),
    "an empty mask": ({"mask": np.zeros(N, bool)}, ValueError, "selects no node"),
    "an empty list": ({"mask": []}, ValueError, "selects no node"),
    "a short mask": ({"mask": np.ones(N - 1, bool)}, ValueError, "entries for"),
    "a node twice": ({"mask": [1, 1]}, ValueError, "twice"),
    "a node outside": ({"mask": [N]}, ValueError, f"names node {N}"),
    "a node below": ({"mask": [-1]}, ValueError, "names node -1"),
    "a mask of floats": ({"mask": [0.5, 1.0]}, TypeError, "boolean or integer"),
    "a mask of text": ({"mask": ["a"]}, TypeError, "boolean or integer"),
    "a mask in two dimensions": ({"mask": np.ones((N, 1), bool)}, ValueError, "one-dimensional"),
    "a holdout outside": ({"holdout_mask": [N]}, ValueError, "holdout_mask names node"),
    "an empty holdout": ({"holdout_mask": []}, ValueError, "holdout_mask selects no node"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_passed_to_fit_by_mistake_is_named(case: str) -> None:
    changes, kind, words = CASES[case]
    given = {"logits": CASE.logits, "y": CASE.y, "mask": CASE.mask} | changes
    with pytest.raises(kind, match=words):
        TemperatureScaling().fit(given.pop("logits"), given.pop("y"), **given)


WRONG = [True, "5", None, float("nan"), float("inf"), -1, 0.5, [1]]


@pytest.mark.parametrize("value", WRONG, ids=repr)
@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("simi-mailbox", "n_groups"), ("simi-mailbox-paper", "n_groups"), ("histogram", "bins"),
        ("ratio-binned", "bins"), ("cagcn", "epochs"), ("gats", "heads"), ("wats", "patience"),
        ("group-calibration", "partitions"), ("group-calibration", "steps"), ("gets", "seed"),
    ],
)  # fmt: skip
def test_parameters_that_are_no_counts_are_named(name: str, parameter: str, value: Any) -> None:
    offered = {"graph": CASE.graph, "features": CASE.logits}
    method = calibrators.get(name)
    inputs = {key: offered[key] for key in method.needs}
    with pytest.raises(ValueError, match=f"{parameter} must be a whole number"):
        method(**{parameter: value}).fit(CASE.logits, CASE.y, mask=CASE.mask, **inputs)
