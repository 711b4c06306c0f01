"""Corpora and graphs whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from simi_mailbox.data.synthetic import calibration_problem
from simi_mailbox.prior import Corpus, Equations, PastRun, Setting


def setting(graph, slope, luck=0.0, *, family="", labels=100, between=4e-4, mean=0.8):
    """A setting whose residuals obey the prior's formula exactly."""
    c = np.linspace(0.3, 1.0, 200)
    terms = np.stack([c - mean, c / labels], axis=1)
    equations = Equations.of(terms, terms @ [slope, -luck], np.ones(200))
    return Setting(graph, family or graph, "gcn", 15, labels, equations, between, {"note": "x"})


@pytest.fixture
def corpus():
    return Corpus(
        (
            setting("a", -0.1, 2.0, labels=100),
            setting("b", -0.1, 2.0, labels=1000, mean=0.9),
            setting("c", -0.1, 2.0, labels=400, family="b", mean=0.6),
        ),
        "simi-mailbox prior fit …",
    )


def past_run(seed, *, slope=0.0, n=3000, labels=300, name="graph"):
    """A run whose confidences are off by ``slope`` × (confidence − mean), up to the labels' noise.

    The label is right with the probability that the formula says, so the surface is known.
    """
    problem = calibration_problem(n, 4, seed=seed)
    rng = np.random.default_rng(seed)
    c = problem.confidence
    right = rng.random(n) < np.clip(c + slope * (c - c.mean()), 0.02, 0.98)
    top = problem.logits.argmax(1)
    y = np.where(right, top, (top + 1) % 4)
    return PastRun(name, "gcn", problem.logits, y, problem.graph, np.arange(labels))
