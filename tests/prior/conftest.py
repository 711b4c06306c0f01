"""Corpora whose truth is known."""

from __future__ import annotations

import pytest

from simi_mailbox.prior import Corpus, Setting


def setting(graph, blind=-1.0, inverse=0.0, luck=2.0, *, family="", labels=100, worth=200.0):
    """A setting that speaks for exactly these numbers."""
    weight = (0.9 / labels) ** 2
    return Setting(
        graph, family or graph, "gcn", 15, labels, 0.05, inverse, blind, -luck * weight, weight,
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
