"""What the metrics accept, and how they refuse the rest."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from simi_mailbox import metrics
from simi_mailbox.metrics import ece, evaluate, noise_floor

from .samples import overconfident

GOOD = np.array([[0.7, 0.3], [0.4, 0.6]])
Y = np.array([0, 1])
NAMES = ("accuracy", "ece", "classwise_ece", "kde_ece", "nll", "brier", "debiased_ece")
POINTWISE = [
    *(getattr(metrics, name) for name in (*NAMES, "evaluate", "reliability")),
    lambda probs, y: metrics.StreamingMetrics.empty(2).update(probs, y),
    lambda probs, y: metrics.bootstrap_interval(metrics.ece, probs, y, draws=5),
    lambda probs, y: metrics.edgewise_ece(probs, y, np.array([[0], [1]])),
]


@pytest.mark.parametrize("metric", POINTWISE)
@pytest.mark.parametrize(
    ("probs", "y", "error", "message"),
    [
        (GOOD[0], Y, ValueError, r"shape \(2,\); expected \[nodes, classes\]"),
        (GOOD[:0], Y[:0], ValueError, "at least one of each"),
        (np.array([[0.5, 0.5], [np.nan, 1.0]]), Y, ValueError, r"probs\[1, 0\] is nan"),
        (np.array([[0.5, 0.5], [3.1, -2.1]]), Y, ValueError, r"probs\[1, 0\] is 3.1.*softmax"),
        (np.array([[0.5, 0.5], [0.2, 0.2]]), Y, ValueError, "node 1 sum to 0.4.*softmax"),
        (GOOD.astype(complex), Y, TypeError, "complex128"),
        (GOOD, np.array([0, 2]), ValueError, r"node 1 has label 2, but the classes are 0\.\.1"),
        (GOOD, np.array([-1, 0]), ValueError, r"node 0 has label -1, but the classes are 0\.\.1"),
        (GOOD, np.array([0.0, 1.0]), TypeError, "float64; expected integer"),
        (GOOD, np.array([True, False]), TypeError, "bool; expected integer"),
        (GOOD, np.eye(2, dtype=int), ValueError, r"y of shape \[2, 2\]; expected one per node"),
        (GOOD, np.array([0]), ValueError, r"y of shape \[1\]; expected one per node, \[2\]"),
    ],
)
def test_bad_input_is_refused_with_its_place(metric, probs, y, error, message):
    with pytest.raises(error, match=message):
        metric(probs, y)


def test_the_noise_floor_checks_its_probabilities():
    with pytest.raises(ValueError, match="softmax"):
        noise_floor(np.array([[2.0, -1.0]]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_torch_gives_the_same_bits_and_narrow_floats_change_by_their_rounding_only(dtype):
    probs, y = overconfident(2000, 4, seed=0)
    tensor = torch.tensor(probs, dtype=dtype, requires_grad=True)
    narrow = evaluate(tensor, torch.tensor(y))
    assert narrow == evaluate(tensor.detach().numpy(), y)
    assert narrow == pytest.approx(evaluate(probs, y), abs=2e-3)


def test_what_narrow_floats_and_rounding_leave_is_read():
    narrow = torch.tensor([[0.75, 0.25], [0.5, 0.5]], dtype=torch.bfloat16)
    assert ece(narrow, torch.tensor([0, 0])) == pytest.approx(0.375)
    assert ece(np.array([[1 + 5e-7, -5e-7]]), np.array([0])) == 0.0


def test_input_arrays_are_left_alone():
    probs, y = overconfident(50, 3, seed=1)
    before = probs.copy(), y.copy()
    evaluate(probs, y)
    noise_floor(probs, draws=5)
    assert np.array_equal(probs, before[0])
    assert np.array_equal(y, before[1])


def test_every_public_function_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    # Results are described with the functions.
    functions = [name for name in metrics.__all__ if name.islower()]
    for name in [*functions, "StreamingMetrics"]:
        assert re.search(rf"\b{name}\b", page), name
