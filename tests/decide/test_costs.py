"""Decisions by cost: the cheapest action, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from simi_mailbox.decide import Costs, load_rule
from simi_mailbox.decide.costs import mean_interval
from tests.decide.references import make_problem

PROBLEM = make_problem(0, n=400, labelled=300)


@given(st.integers(0, 300))
def test_no_action_is_cheaper_than_the_chosen(seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=20)
    wrong, reject = rng.random((3, 3)) * 5, rng.random(3) * 3
    found = Costs(wrong=wrong, defer=0.7, reject=reject).actions(probs)
    for p, action in zip(probs, found, strict=True):
        cost = {j: p @ wrong[:, j] for j in range(3)} | {-1: 0.7, -2: p @ reject}
        assert cost[int(action)] == pytest.approx(min(cost.values()))


def test_a_single_cost_means_a_threshold():
    # Acting costs 10 (1 − p), a person 1: act from 0.9 on.
    sure = np.linspace(0.5, 1.0, 101)
    actions = Costs(wrong=10.0, defer=1.0).actions(np.stack([sure, 1 - sure], axis=1))
    np.testing.assert_array_equal(actions == 0, sure >= 0.9 - 1e-12)
    assert set(actions) == {0, -1}


def test_without_a_cost_of_rejecting_nothing_is_rejected():
    assert -2 not in Costs(wrong=100.0, defer=50.0).actions(PROBLEM.probs)
    assert (Costs(wrong=9.0, defer=2.0, reject=0.1).actions(PROBLEM.probs) == -2).any()


@pytest.mark.parametrize("compared", ["defer", "accept"])
def test_the_saving_is_measured_on_labelled_nodes(compared):
    rule = Costs(wrong=4.0, defer=1.0, compared_with=compared)
    rule.fit(PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask)
    saved = []
    for i in PROBLEM.mask:
        action = rule.actions(PROBLEM.probs[i : i + 1])[0]
        paid = 1.0 if action == -1 else 4.0 * (action != PROBLEM.y[i])
        plain = 1.0 if compared == "defer" else 4.0 * (PROBLEM.probs[i].argmax() != PROBLEM.y[i])
        saved.append(plain - paid)
    assert rule.saving_ == pytest.approx(np.mean(saved))
    assert rule.saving_interval_ == mean_interval(np.array(saved))
    assert rule.saving_ > 0  # labels follow the probabilities here, so thinking pays
    assert sum(rule.shares_.values()) == pytest.approx(1)


def test_intervals_hold_the_mean_of_skewed_costs():
    rng = np.random.default_rng(0)
    found = [mean_interval(np.where(rng.random(150) < 0.1, -9.0, 1.0)) for _ in range(2000)]
    hits = np.mean([low <= 0 <= high for low, high in found])
    assert 0.935 < hits < 0.965
    assert mean_interval(np.array([2.0])) == (-np.inf, np.inf)
    assert mean_interval(np.full(5, 2.0)) == (2.0, 2.0)


def test_labels_outside_the_mask_cannot_be_read():
    outside = np.setdiff1d(np.arange(400), PROBLEM.mask)
    rule = Costs(wrong=4.0, defer=1.0).fit(PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask)
    y = PROBLEM.y.copy()
    y[outside] = -7
    again = Costs(wrong=4.0, defer=1.0).fit(PROBLEM.probs, y, mask=PROBLEM.mask)
    assert again._state() == rule._state()


def test_torch_and_files(tmp_path):
    wrong = np.ones((4, 4)) - np.eye(4)
    rule = Costs(wrong=wrong, defer=0.2)
    rule.fit(PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask).save(tmp_path / "rule")
    again = load_rule(tmp_path / "rule")
    np.testing.assert_array_equal(again.wrong, wrong)
    assert again._state() == rule._state()
    actions = again.actions(torch.from_numpy(PROBLEM.probs))
    assert isinstance(actions, torch.Tensor)
    np.testing.assert_array_equal(actions.numpy(), rule.actions(PROBLEM.probs))
    with pytest.raises(ValueError, match="3 classes, but this Costs was fitted on 4"):
        again.actions(np.full((2, 3), 1 / 3))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"wrong": np.ones((3, 3))}, r"wrong has shape \[3, 3\]; expected a number or \[4, 4\]"),
        (
            {"reject": np.ones(3)},
            r"reject has shape \[3\]; expected a number or one per class \[4\]",
        ),
        ({"wrong": np.inf}, "costs must be finite"),
        ({"defer": np.inf}, "defer must be a finite number"),
        ({"compared_with": "nothing"}, "compared_with must be 'accept' or 'defer'"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        Costs(**params).fit(PROBLEM.probs, PROBLEM.y, mask=PROBLEM.mask)


@given(st.integers(0, 300), st.sampled_from([0.8, 0.95]))
def test_ends_of_an_interval_are_students_after_halls_transformation(seed, level):
    rng = np.random.default_rng(seed)
    values = rng.exponential(size=rng.integers(5, 60)) * rng.choice([-1.0, 1.0])
    n, mean = len(values), values.mean()
    skew = ((values - mean) ** 3).mean() / values.std() ** 3 / np.sqrt(n)
    for end, sign in zip(mean_interval(values, None, level), (1, -1), strict=True):
        w = (mean - end) / (values.std(ddof=1) / np.sqrt(n))
        transformed = w + skew * w**2 / 3 + skew**2 * w**3 / 27 + skew / 6
        assert transformed == pytest.approx(sign * student.ppf((1 + level) / 2, n - 1))
    even = mean_interval(np.array([-1.0, 1.0, -1.0, 1.0]))  # without skewness: Student's
    assert even == pytest.approx((-student.ppf(0.975, 3) / 3**0.5, student.ppf(0.975, 3) / 3**0.5))


@given(st.integers(1, 200), st.sampled_from([0.8, 0.95]))
def test_what_nobody_has_shown_yet_may_be_as_frequent_as_luck_allows(n, level):
    """With a share just above what the interval grants, so many draws without it are unlikely."""
    if n < 2:
        assert mean_interval(np.ones(n), (0.0, 1.0), level) == (-np.inf, np.inf)
        return
    low, high = mean_interval(np.ones(n), (0.0, 3.0), level)
    share = 1.0 - low
    assert (1 - share) ** n == pytest.approx((1 - level) / 2)
    assert high == pytest.approx(1 + 2 * share)


def test_a_person_and_rejecting_are_counted_by_their_shares():
    probs = np.array([[0.99, 0.01], [0.01, 0.99], [0.7, 0.3], [0.5, 0.5], [0.5, 0.5]])
    rule = Costs(wrong=10.0, defer=3.5, reject=[9.0, 0.0]).fit(
        probs, [0, 1, 0, 1, 0], mask=range(5)
    )
    assert rule.actions(probs).tolist() == [0, -2, 0, -1, -1]
    assert rule.shares_ == {"accept": 0.4, "defer": 0.4, "reject": 0.2}


def test_without_a_person_it_is_compared_with_acting_always():
    rule = Costs(wrong=10.0, defer=None, reject=1.0)
    probs = np.array([[0.95, 0.05], [0.6, 0.4], [0.6, 0.4]])
    assert rule.actions(probs).tolist() == [0, -2, -2]
    rule.fit(probs, [0, 1, 0], mask=range(3))
    assert rule.saving_ == pytest.approx((0 + 9 - 1) / 3)  # one error saved, one right left alone


def test_the_interval_holds_what_no_calibration_node_has_shown():
    """All labels are right: that an action may cost is known from the costs alone."""
    probs = np.tile([0.9, 0.1], (50, 1))
    rule = Costs(wrong=4.0, defer=1.0).fit(probs, np.zeros(50, int), mask=range(50))
    assert rule.saving_ == 1.0
    assert rule.saving_interval_ == mean_interval(np.ones(50), (-3.0, 1.0))
    assert rule.saving_interval_[0] < 1.0
