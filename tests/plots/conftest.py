"""Objects to draw, and nothing changed by drawing them."""

import numpy as np
import pytest

from simi_mailbox import analysis


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No window, no change of settings, no figure left open."""
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is an optional extra")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    def refuse(*_args, **_kwargs):
        raise AssertionError("a plot must not call plt.show")

    monkeypatch.setattr(plt, "show", refuse)
    before = dict(matplotlib.rcParams)
    yield
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


@pytest.fixture
def case():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet([4.0, 1.0, 1.0], size=400)
    return probs, rng.integers(0, 3, 400), rng.random(400)


@pytest.fixture
def objects(case):
    probs, y, similarity = case
    groups = np.arange(400) % 5
    return {
        "heat": analysis.similarity_confidence(probs, y, similarity),
        "bar": analysis.similarity_bar(probs, y, similarity),
        "groups": analysis.group_map(
            groups, probs, probs, similarity=similarity, temperatures=[1, 2, 0.5, 1, 3], y=y
        ),
        "methods": analysis.compare_methods({"a": probs, "b": probs[::-1]}, y, draws=20),
        "temperatures": analysis.temperature_histogram(np.exp(similarity - 0.5)),
        "sensitivity": analysis.sensitivity([5, 10], [[1, 2], [3, 5]], parameter="N"),
    }
