"""Alerts: the guarantee on drawn data, references, thresholds by hand, files, mistakes."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import betabinom, binom

from simi_mailbox.decide import Alert, load_rule
from simi_mailbox.decide.thresholds import predicted_count, recall_threshold
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError
from tests.decide.references import frauds

pytestmark = pytest.mark.filterwarnings("ignore::simi_mailbox.CalibrationWarning")

NAMES = ("legit", "fraud")


def scores(n=2000, share=0.1, seed=0):
    probs, y = frauds(n, share, seed)
    return probs[:, 1], y


def fitted(p=None, y=None, mask=range(1000), **params):
    given_p, given_y = scores()
    rule = Alert(**({"min_precision": 0.5} | params))
    p, y = given_p if p is None else p, given_y if y is None else y
    return rule.fit(p, y, mask=mask, used_for_selection=False)


MOST_THREE = fitted(max_alerts=3, min_precision=None)


@pytest.mark.parametrize("goal", ["min_precision", "min_recall"])
@pytest.mark.parametrize("kind", ["calibrated", "ties", "non-monotone", "class weights"])
def test_guarantee(goal, kind):
    """A small version of bench/speed/bench_alert.py."""
    broken, draws = 0, 60
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        truth = rng.beta(0.1, 0.9, 2500)
        p = {"ties": truth.round(1), "class weights": 9 * truth / (8 * truth + 1)}.get(kind, truth)
        if kind == "non-monotone":
            truth = np.where(p > 0.8, 0.3, p)
        y = (rng.random(2500) < truth).astype(int)
        rule = fitted(p, y, **{"min_precision": None, goal: 0.5})
        above = p >= rule.threshold_
        if goal == "min_precision":
            broken += bool(above.any() and truth[above].mean() < 0.5)
        else:
            broken += bool(truth[above].sum() < 0.5 * truth.sum())
    assert broken <= binom.ppf(0.999, draws, 0.1)


@given(st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.9]), min_size=5, max_size=60))
def test_recall_threshold_is_the_highest_that_passes(found):
    score, limits = np.array(found), np.array([0.9, 0.5, 0.3, 0.1])
    best = recall_threshold(score, limits, 0.4, 0.2)
    passes = [binom.cdf((score < t).sum(), len(score), 0.4) <= 0.2 for t in limits]
    expected = next((t for t, ok in zip(limits, passes, strict=True) if ok), None)
    assert best == expected  # p-values rise with the threshold: none passes above one that fails


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 31))
def test_most_alerts_are_the_highest_that_fit_without_parting_ties(values, count):
    score = np.array(values) / 10
    found = MOST_THREE.set_params(max_alerts=count).alerts(score)
    numbers = [n for t in score if (n := (score >= t).sum()) <= count]
    assert found.sum() == max(numbers, default=0)
    assert (score[found] > score[~found].max(initial=-1)).all()


def test_kinds_of_arrays_and_positions_of_the_class():
    p, y = scores()
    one = fitted()
    for q, labels, positive in (
        (np.stack([1 - p, p], axis=1), y, 1),
        (np.stack([p, 1 - p], axis=1), 1 - y, 0),
        (np.stack([(1 - p) / 2, p, (1 - p) / 2], axis=1), y, 1),
    ):
        rule = fitted(q, labels, positive=positive)
        assert rule.threshold_ == pytest.approx(one.threshold_)
        assert (rule.alerts(q) == one.alerts(p)).all()
    named = fitted(np.stack([1 - p, p], axis=1), positive="fraud", classes=NAMES)
    assert named.threshold_ == one.threshold_
    assert "nodes of class fraud" in named.summary()


def test_summary_says_what_to_review_and_what_is_missed():
    rule, (p, y) = fitted(), scores()
    assert rule.summary().startswith("review ")
    expected = rule.expected(p[1000:])
    assert expected.alerts == rule.alerts(p)[1000:].sum()
    above = p[1000:] >= rule.threshold_
    assert expected.hits[1] <= y[1000:][above].sum() <= expected.hits[2]
    assert expected.missed[1] <= y[1000:][~above].sum() <= expected.missed[2]


def test_too_few_labels_say_how_many_are_needed_and_what_was_tried():
    p, y = np.linspace(0.3, 0.9, 400), np.arange(400) % 2
    told = r"no alert: a precision of 90% cannot be shown .*highest calibration nodes \d+ of \d+"
    with pytest.warns(CalibrationWarning, match=told):
        rule = fitted(p, y, range(400), min_precision=0.9)
    assert not rule.alerts(p).any()
    assert (rule.threshold_, rule.labels_needed_) == (np.inf, 22)
    assert rule.counts_ == {"alerts": 0, "hits": 0, "others": 400, "missed": 200}
    assert rule.workload_["alerts"] == 0
    assert "P ≥" not in rule.summary()
    p, y = scores()
    with pytest.warns(CalibrationWarning, match=r"every node is an alert: .* 22 are needed"):
        rule = fitted(p, y, range(30), min_precision=None, min_recall=0.9)
    assert rule.alerts(p).all()


def test_weights_undo_a_policy():
    """Positives were labelled ten times as often: without weights the precision looks better."""
    rng = np.random.default_rng(1)
    p, y = scores(40_000, seed=1)
    chance = np.where(y == 1, 0.5, 0.05)
    seen = np.flatnonzero(rng.random(40_000) < chance)
    given = {"mask": seen, "used_for_selection": False}
    found = []
    for weight in (None, 1 / chance):
        rule = Alert(min_precision=0.7).fit(p, y, sample_weight=weight, **given)
        found.append(p[p >= rule.threshold_].mean())
    assert found[0] < 0.6 < 0.7 <= found[1]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c | {"format": "other"}, "its format is 'other'"),
        (lambda c: c | {"version": 9}, "newer version"),
        (lambda c: c | {"rule": "nobody"}, "nobody"),
        (lambda c: c | {"parameters": {"confidence": 7}}, "confidence must be"),
        (lambda c: [], "does not describe a rule"),
    ],
)
def test_damaged_files_are_refused(change, told, tmp_path):
    path = tmp_path / "rule.json"
    fitted().save(path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(FileFormatError, match=told):
        load_rule(path)


@pytest.mark.parametrize(("hits", "labels"), [(0, 0), (0, 40), (13, 100), (40, 40)])
def test_expected_counts_have_jeffreys_prior(hits, labels):
    """A beta-binomial number of nodes, of which mean and quantiles are known."""
    mean, low, high = predicted_count(hits, labels, 300, 0.9)
    exact = betabinom(300, hits + 0.5, labels - hits + 0.5)
    assert mean == pytest.approx(exact.mean())
    assert abs(low - exact.ppf(0.05)) <= 2 + 0.02 * 300 * (labels == 0)
    assert abs(high - exact.ppf(0.95)) <= 2 + 0.02 * 300 * (labels == 0)
    assert predicted_count(hits, labels, 0, 0.9) == (0.0, 0.0, 0.0)


def test_one_goal_and_labels_of_the_class_are_needed():
    for goals in ({}, {"min_precision": 0.5, "min_recall": 0.5}):
        with pytest.raises(ValueError, match="one of min_precision, min_recall, max_alerts; got"):
            Alert(**goals).fit(*scores(), mask=range(9))
    with pytest.raises(ValueError, match="none of the 50 calibration nodes is of class 1"):
        fitted(scores()[0], np.zeros(2000, int), range(50))


def test_labels_needed_are_those_without_a_failure():
    rule = fitted(min_precision=None, min_recall=0.5)
    assert 0.5**rule.labels_needed_ <= 0.1 < 0.5 ** (rule.labels_needed_ - 1)
    most = fitted(min_precision=None, max_alerts=5)
    assert most.labels_needed_ == 0
