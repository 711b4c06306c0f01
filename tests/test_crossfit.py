"""Cross-fitting: no node is judged by a fit that saw its label; ties are told from wins."""

import numpy as np
import pytest
from scipy.special import softmax

from simi_mailbox import SimiMailbox, TemperatureScaling, metrics
from simi_mailbox.crossfit import METRICS, cross_fitted, cross_fitted_folds, standings
from simi_mailbox.synthetic import calibration_problem


@pytest.fixture(scope="module")
def problem():
    return calibration_problem(600, 3, temperature=2.0, seed=0)


def test_no_node_hears_a_label_that_is_left_out(problem):
    nodes, changed = np.random.default_rng(0).permutation(600)[:120], 17
    y = problem.y.copy()
    y[nodes[changed]] = (y[nodes[changed]] + 1) % 3
    given = {"mask": nodes, "graph": problem.graph, "folds": 3}
    pairs = zip(
        cross_fitted_folds(SimiMailbox(), problem.logits, problem.y, **given),
        cross_fitted_folds(SimiMailbox(), problem.logits, y, **given),
        strict=True,
    )
    named = []
    for (part, before), (same, after) in pairs:
        np.testing.assert_array_equal(part, same)
        assert (before == after).all() == (nodes[changed] in part)
        named += part.tolist()
    assert sorted(named) == sorted(nodes.tolist())


def test_masks_and_labels_are_taken_as_calibrators_take_them(problem):
    nodes, cal = np.arange(50, 150), TemperatureScaling()
    expected = cross_fitted(cal, problem.logits, problem.y, mask=nodes)
    for y in (problem.y, problem.y[nodes]):
        found = cross_fitted(cal, problem.logits, y, mask=np.isin(np.arange(600), nodes))
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="9 calibration nodes are too few for 5 folds"):
        cross_fitted(cal, problem.logits, problem.y, mask=np.arange(9))


def test_a_fitted_calibrator_stays_as_it_is(problem):
    given = {"mask": np.arange(100), "graph": problem.graph}
    fitted = SimiMailbox().fit(problem.logits, problem.y, **given)
    before = fitted.predict_proba(problem.logits, graph=problem.graph)
    cross_fitted(fitted, problem.logits, problem.y, **given)
    np.testing.assert_array_equal(fitted.predict_proba(problem.logits, graph=problem.graph), before)


def test_rows_are_those_of_the_mask(problem):
    nodes = np.random.default_rng(0).permutation(600)[:120]
    probs = cross_fitted(TemperatureScaling(), problem.logits, problem.y, mask=nodes, seed=3)
    np.testing.assert_array_equal(probs.argmax(1), np.asarray(problem.logits)[nodes].argmax(1))
    parts = cross_fitted_folds(TemperatureScaling(), problem.logits, problem.y, mask=nodes, seed=3)
    for part, made in parts:
        rows = np.flatnonzero(np.isin(nodes, part))
        np.testing.assert_array_equal(probs[rows], made[nodes[rows]])


def test_values_are_those_of_the_metrics(problem):
    probs = softmax(np.asarray(problem.logits, dtype=np.float64), axis=1)
    (row,) = standings({"model": probs}, problem.y)
    for metric in METRICS:
        expected = getattr(metrics, metric)(probs, problem.y)
        assert row.values[metric] == pytest.approx(expected, rel=1e-9)
        assert row.mark[metric] == ""


def test_worse_is_unmarked_and_a_hair_apart_is_tied(problem):
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(3), size=2000)
    y = np.array([rng.choice(3, p=p) for p in truth])
    nearly = truth + rng.normal(scale=1e-3, size=truth.shape)
    nearly = np.abs(nearly) / np.abs(nearly).sum(1, keepdims=True)
    sharp = truth**3 / (truth**3).sum(1, keepdims=True)
    rows = {row.name: row for row in standings({"t": truth, "n": nearly, "s": sharp}, y)}
    assert {rows["t"].mark["nll"], rows["n"].mark["nll"]} == {"best", "tied"}
    assert rows["s"].mark["nll"] == ""
    assert rows["s"].mark["ece"] == ""
