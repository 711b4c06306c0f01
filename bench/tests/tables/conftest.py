"""A toy graph that goes by the name of Cora, and a cache folder of its own."""

from dataclasses import replace

import numpy as np
import pytest

from simi_mailbox_bench.tables import gpn, ood, selftraining
from toy_graph import toy


@pytest.fixture
def toy_cora(monkeypatch, tmp_path):
    made, split = toy(300, 6, noise=0.6, ends=(40, 120, 200))
    dataset = replace(made, name="Cora", x=np.clip(made.x, 0, None), public=split)
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path / "cache"))
    for module in (selftraining, gpn, ood):
        monkeypatch.setattr(module, "load", lambda name: dataset)
    return dataset
