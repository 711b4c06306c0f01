"""A toy graph that goes by the name of Cora, and a cache folder of its own."""

import numpy as np
import pytest

from simi_mailbox.graph import Graph
from simi_mailbox_bench.datasets import NodeDataset, Split
from simi_mailbox_bench.tables import gpn, ood, selftraining

N, CLASSES = 300, 6


def toy():
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, N)
    x = np.clip(np.eye(CLASSES)[y] + rng.normal(0, 0.6, (N, CLASSES)), 0, None)
    pairs = rng.integers(0, N, (2, 8000))
    keep = (y[pairs[0]] == y[pairs[1]]) | (rng.random(8000) < 0.05)
    order = rng.permutation(N)
    return NodeDataset(
        "Cora",
        Graph.from_edges(pairs[:, keep][:, :700], N),
        x.astype(np.float32),
        y,
        CLASSES,
        public=Split(order[:40], order[40:120], order[120:200]),
    )


@pytest.fixture
def toy_cora(monkeypatch, tmp_path):
    dataset = toy()
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path / "cache"))
    for module in (selftraining, gpn, ood):
        monkeypatch.setattr(module, "load", lambda name: dataset)
    return dataset
