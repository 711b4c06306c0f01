"""Corpora and graphs whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from simi_mailbox.data.synthetic import calibration_problem
from simi_mailbox.prior import Corpus, PastRun, Setting


def setting(graph, blind=-1.0, few=0.0, luck=2.0, *, family="", labels=100, worth=200.0):
    """A setting that speaks for exactly these numbers."""
    weight = (0.9 / labels) ** 2
    return Setting(
        graph, family or graph, "gcn", 15, labels, 0.05, few, blind, -luck * weight, weight,
        0.1 / worth, 0.1, {"note": "x"},
    )  # fmt: skip


@pytest.fixture
def corpus():
    return Corpus(
        (
            setting("a", -1.0, -0.5, labels=100),
            setting("b", -2.0, -0.9, labels=1000),
            setting("c", -1.5, -0.7, labels=400, family="b"),
        ),
        "simi-mailbox prior fit …",
    )


def past_run(seed, *, blind=0.0, few=0.0, n=3000, labels=300, name="graph"):
    """A run whose labels are drawn from a baseline with these numbers."""
    problem = calibration_problem(n, 4, seed=seed)
    rng = np.random.default_rng(seed)
    term = 1 / (1 + problem.graph.degree.numpy())
    scale = np.exp(few * (term - term.mean()))
    y = (problem.logits * scale[:, None] + rng.gumbel(size=problem.logits.shape)).argmax(1)
    guess = rng.random(n) < blind
    y[guess] = rng.integers(4, size=guess.sum())
    return PastRun(name, "gcn", problem.logits, y, problem.graph, np.arange(labels))
