"""Metrics of one class against scikit-learn, counting by hand and simulation."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_score, recall_score, roc_auc_score

from simi_mailbox import metrics
from simi_mailbox.metrics import alerts, auroc, average_precision, bootstrap_interval, class_ece

from .samples import dirichlet

METRICS = (class_ece, average_precision, auroc)


@st.composite
def scored(draw):
    """P(class), with ties, and whether nodes are of the class: some are, some are not."""
    seed, n = draw(st.integers(0, 10_000)), draw(st.integers(2, 60))
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(n), draw(st.sampled_from([1, 2, 9])))
    is_class = rng.random(n) < p
    is_class[:2] = True, False
    return p, is_class


@given(scored())
def test_areas_are_those_of_scikit_learn(sample):
    p, is_class = sample
    assert average_precision(p, is_class) == pytest.approx(average_precision_score(is_class, p))
    assert auroc(p, is_class) == pytest.approx(roc_auc_score(is_class, p))


@given(scored(), st.floats(0, 1))
def test_precision_and_recall_are_those_of_scikit_learn(sample, threshold):
    p, is_class = sample
    found, chosen = alerts(p, is_class, threshold=threshold), p >= threshold
    assert (found.alerts, found.hits) == (chosen.sum(), (chosen & is_class).sum())
    assert found.recall == pytest.approx(recall_score(is_class, chosen))
    if chosen.any():
        assert found.precision == pytest.approx(precision_score(is_class, chosen))
        assert found.lift == pytest.approx(found.precision / is_class.mean())
        for name in ("precision", "recall", "lift"):
            interval = found.interval(name)
            assert interval.low <= getattr(found, name) <= interval.high
    else:
        assert np.isnan(found.precision)


@given(scored(), st.integers(1, 60))
def test_the_top_does_not_depend_on_the_order_of_nodes(sample, k):
    p, is_class = sample
    k, turned = min(k, len(p)), np.random.default_rng(k).permutation(len(p))
    found, other = alerts(p, is_class, top=k), alerts(p[turned], is_class[turned], top=k)
    assert other.hits == pytest.approx(found.hits)
    if len(set(p.tolist())) == len(p):
        best = np.argsort(-p)[:k]
        assert found.hits == is_class[best].sum()
        assert alerts(p, is_class, threshold=p[best[-1]]) == found


@given(scored())
def test_both_forms_of_input_agree(sample):
    p, is_class = sample
    both = np.stack([p, 1 - p], axis=1)
    y = np.where(is_class, 0, 1)
    for metric in METRICS:
        expected = metric(p, is_class)
        assert metric(both, y, positive=0) == pytest.approx(expected)
        assert metric(torch.tensor(p), torch.tensor(is_class)) == expected
        assert metric(p, is_class.astype(int)) == expected


def test_mean_error_of_the_classes_is_the_class_wise_one():
    probs, y = dirichlet(500, 4, seed=1)
    errors = [class_ece(probs, y, positive=k) for k in range(4)]
    assert np.mean(errors) == pytest.approx(metrics.classwise_ece(probs, y))
    curve = metrics.class_reliability(probs, y, positive=2)
    known = curve.counts > 0
    gaps = np.abs(curve.gap[known]) * curve.counts[known]
    assert gaps.sum() / 500 == pytest.approx(errors[2])
    assert curve.ece == errors[2]


def test_without_the_class_areas_are_not_defined():
    p, nobody = np.array([0.2, 0.7]), np.array([False, False])
    assert np.isnan(average_precision(p, nobody))
    assert np.isnan(auroc(p, nobody))
    assert np.isnan(auroc(p, ~nobody))
    found = alerts(p, nobody, top=1)
    assert (found.precision, np.isnan(found.recall), np.isnan(found.lift)) == (0.0, True, True)


@pytest.mark.parametrize("scale", [0.005, 0.02, 0.07, 0.3, 1.0])
def test_observed_leaves_the_interval_on_either_side_no_more_often_than_it_says(scale):
    rng = np.random.default_rng(5)
    p = rng.beta(0.5, 3.0, 400) * scale
    drawn = rng.random((20_000, 400)) < p
    found = metrics.positives(p, drawn[0])
    assert (found.expected, found.observed) == (pytest.approx(p.sum()), drawn[0].sum())
    observed = drawn.sum(axis=1)
    assert (observed < found.interval.low).mean() < 0.028
    assert (observed > found.interval.high).mean() < 0.028
    assert (observed == found.interval.high).any()
    wide = metrics.positives(np.full(10_000, scale / 2), np.zeros(10_000, dtype=bool)).interval
    reach = 1.96 * np.sqrt(10_000 * scale / 2 * (1 - scale / 2))
    assert 2 * reach - 2 <= wide.high - wide.low <= 2 * reach + 2  # and not much wider than needed


def test_intervals_of_areas_are_bootstrap_intervals():
    rng = np.random.default_rng(0)
    p = rng.random(300)
    is_class = rng.random(300) < p
    both = np.stack([1 - p, p], axis=1)
    for metric in (average_precision, auroc, metrics.smooth_ece):
        found = bootstrap_interval(metric, p, is_class, draws=50, seed=3)
        by_hand = functools.partial(metric, positive=1)
        assert found == bootstrap_interval(by_hand, both, is_class.astype(int), draws=50, seed=3)
        assert found.low < metric(p, is_class) < found.high
    rare = np.arange(300) == 299  # some draws hold none of the class
    found = bootstrap_interval(average_precision, p, rare, draws=50)
    assert np.isfinite([found.low, found.high]).all()


@pytest.mark.parametrize(
    ("probs", "y", "positive", "error", "message"),
    [
        ([[0.5, 0.5]], [0], None, ValueError, "pass the number of the class, 0..1"),
        ([[0.5, 0.5]], [0], 2, ValueError, "positive is 2"),
        ([0.5], [0], 1, TypeError, "without positive="),
        ([1.5], [0], None, ValueError, "1.5"),
        ([0.5, 0.5], [0], None, ValueError, "expected one per node"),
        ([0.5], [2], None, ValueError, "has label 2"),
        ([0.5], [0.5], None, TypeError, "expected integer"),
        ([1], [1], None, TypeError, "floating-point"),
        ([[[0.5]]], [0], 0, ValueError, "expected \\[nodes, classes\\]"),
    ],
)
def test_wrong_input_is_refused(probs, y, positive, error, message):
    for metric in METRICS:
        with pytest.raises(error, match=message):
            metric(np.array(probs), np.array(y), positive=positive)


def test_alerts_need_a_threshold_or_a_number_of_nodes():
    for given_ in ({}, {"top": 1, "threshold": 0.5}):
        with pytest.raises(ValueError, match="pass one of them"):
            alerts(np.array([0.1, 0.2]), np.array([0, 1]), **given_)
    with pytest.raises(ValueError, match="between 1 and 2"):
        alerts(np.array([0.1, 0.2]), np.array([0, 1]), top=3)
