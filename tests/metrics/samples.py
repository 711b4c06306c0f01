"""Predictions with known properties, shared by the tests of the metrics."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

Sample = tuple[NDArray[np.float64], NDArray[np.int64]]


def dirichlet(n: int, classes: int, seed: int, sharpness: float = 0.5) -> Sample:
    """Random probabilities and labels drawn from them: perfectly calibrated."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(classes, sharpness), size=n)
    y = (rng.random((n, 1)) > probs.cumsum(axis=1)).sum(axis=1).clip(max=classes - 1)
    return probs, y


def overconfident(n: int, classes: int, seed: int) -> Sample:
    """Probabilities sharpened after the labels were drawn."""
    probs, y = dirichlet(n, classes, seed)
    sharp = probs**2
    return sharp / sharp.sum(axis=1, keepdims=True), y


def binary(confidence: NDArray[np.float64], correct: NDArray[np.bool_]) -> Sample:
    """Two classes, the first predicted with the confidences given (at least one half)."""
    return np.stack([confidence, 1 - confidence], axis=1), np.where(correct, 0, 1)


@st.composite
def predictions(draw: st.DrawFn, max_nodes: int = 40) -> Sample:
    """Any valid input, rich in ties, zeros, ones and bin edges."""
    n = draw(st.integers(1, max_nodes))
    classes = draw(st.integers(1, 5))
    parts = draw(hnp.arrays(np.int64, (n, classes), elements=st.integers(0, 15)))
    parts[:, 0] += parts.sum(axis=1) == 0
    y = draw(hnp.arrays(np.int64, n, elements=st.integers(0, classes - 1)))
    return parts / parts.sum(axis=1, keepdims=True), y
