"""Methods, and values of a hyper-parameter, side by side."""

import numpy as np
import pytest

from simi_mailbox import metrics
from simi_mailbox.analysis import compare_methods, sensitivity


def test_comparison_holds_the_metrics_of_the_chosen_nodes(rng):
    probs = {"a": rng.dirichlet([3.0, 1.0], size=120), "b": rng.dirichlet([1.0, 1.0], size=120)}
    y = rng.integers(0, 2, 120)
    table = compare_methods(probs, y, nodes=np.arange(100), draws=60)
    for k, p in enumerate(probs.values()):
        assert table.values[k] == metrics.ece(p[:100], y[:100])
        assert table.floor[k] == metrics.noise_floor(p[:100]).mean
    assert (table.low <= table.high).all()
    scores = compare_methods(probs, y, metric="nll", draws=60)
    assert np.isnan(scores.floor).all()
    assert scores.values[0] == metrics.nll(probs["a"], y)
    with pytest.raises(ValueError, match="metric must be one of"):
        compare_methods(probs, y, metric="auc")
    with pytest.raises(ValueError, match="at least one"):
        compare_methods({}, y)


def test_sensitivity_means_over_runs_and_refuses_ragged_input():
    curve = sensitivity([1, 2], [[1, 3], [2, 2]], parameter="λ", reference=[4.0, 6.0])
    assert curve.mean.tolist() == [2.0, 2.0]
    assert curve.std.tolist() == [1.0, 0.0]
    assert curve.reference == 5.0
    assert curve.runs == 2
    with pytest.raises(ValueError, match=r"shape \[values, runs\]"):
        sensitivity([1, 2, 3], [[1, 3], [2, 2]], parameter="λ")
