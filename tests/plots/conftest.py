"""Pictures to draw, and nothing changed by drawing them."""

import numpy as np
import pytest

from simi_mailbox import analysis, metrics, plots


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
def pictures(case):
    """One picture of each kind."""
    probs, y, similarity = case
    curve = analysis.reliability_curve(probs, y)
    where = {"similarity": similarity, "temperatures": np.tile([1, 2, 0.5, 1, 3], 80), "y": y}
    return {
        "reliability": plots.reliability_diagram(curve, label="a", before=curve),
        "confidence": plots.confidence_histogram(curve.counts),
        "heat": plots.heat_map(analysis.similarity_confidence(probs, y, similarity)),
        "amounts": plots.heat_map(analysis.similarity_confidence(probs, None, similarity)),
        "groups": plots.group_scatter(
            analysis.group_map(np.arange(400) % 5, probs, probs, **where), label="a"
        ),
        "temperatures": plots.temperature_histogram(
            analysis.temperature_histogram(np.exp(similarity - 0.5))
        ),
        "risk": plots.risk_coverage_curve(metrics.risk_coverage(probs, y), label="a"),
        "coverage": plots.coverage_bars(analysis.covered_by("class", probs > 0.2, y), target=0.9),
        "slices": plots.slice_dots(analysis.by_class(probs, y)),
        "acceptance": plots.acceptance_bars([0.1, 0.2], [0.3, 0.6], here=1),
    }
