"""Decisions by cost: the cheapest action, and what it saves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from simi_mailbox.decide import Costs
from simi_mailbox.decide.costs import mean_interval
from tests.decide.references import frauds, make_problem

PROBLEM = make_problem(0, n=400, labelled=300)


def fit(y=PROBLEM.y, **params):
    return Costs(**params).fit(PROBLEM.probs, y, mask=PROBLEM.mask)


@given(st.integers(0, 300), st.sampled_from([None, 0.7]), st.booleans())
def test_no_action_is_cheaper_than_the_chosen(seed, defer, rejects):
    rng = np.random.default_rng(seed)
    probs = np.concatenate([rng.dirichlet(np.ones(3), size=20), np.eye(3)])
    wrong, reject = rng.random((3, 3)) * 5, rng.random(3) * 3
    rule = Costs(wrong=wrong, defer=defer, reject=reject if rejects else None)
    for p, action in zip(probs, rule.actions(probs), strict=True):
        cost = {j: p @ wrong[:, j] for j in range(3)}
        cost |= {} if defer is None else {-1: defer}
        cost |= {-2: p @ reject} if rejects else {}
        assert cost[int(action)] == pytest.approx(min(cost.values()))


@pytest.mark.parametrize("compared", ["defer", "accept"])
def test_the_saving_is_measured_on_labelled_nodes(compared):
    rule = fit(wrong=4.0, defer=1.0, compared_with=compared)
    saved = []
    for i in PROBLEM.mask:
        action = rule.actions(PROBLEM.probs[i : i + 1])[0]
        paid = 1.0 if action == -1 else 4.0 * (action != PROBLEM.y[i])
        plain = 1.0 if compared == "defer" else 4.0 * (PROBLEM.probs[i].argmax() != PROBLEM.y[i])
        saved.append(plain - paid)
    assert rule.saving_ == pytest.approx(np.mean(saved))
    assert rule.saving_interval_ == mean_interval(np.array(saved))
    assert rule.saving_ > 0  # labels follow the probabilities here, so thinking pays


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"wrong": np.ones((3, 3))}, r"wrong has shape \[3, 3\]; expected a number or \[4, 4\]"),
        ({"reject": np.ones(3)}, r"reject has shape \[3\]; .* a number or one per class \[4\]"),
        ({"wrong": np.inf}, "costs must be finite"),
        ({"defer": np.inf}, "defer must be a finite number"),
        ({"compared_with": "nothing"}, "compared_with must be 'accept' or 'defer'"),
    ],
)
def test_bad_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        fit(**params)


def test_without_a_person_it_is_compared_with_acting_always():
    rule = Costs(wrong=10.0, defer=None, reject=1.0)
    probs = np.array([[0.95, 0.05], [0.6, 0.4], [0.6, 0.4], [1.0, 0.0]])
    assert rule.actions(probs).tolist() == [0, -2, -2, 0]
    rule.fit(probs, [0, 1, 0, 0], mask=range(3))
    assert rule.saving_ == pytest.approx((0 + 9 - 1) / 3)  # one error saved, one right left alone
    assert rule.shares_ == {"accept": 0.5, "defer": 0.0, "reject": 0.5}
    wrong = np.array([[0.0, 1.0], [20.0, 0.0]])  # a missed fraud costs twenty reviews
    probs, y = frauds()
    rule = Costs(wrong=wrong, defer=None).fit(probs, y, mask=range(2000))
    np.testing.assert_array_equal(rule.actions(probs), 20 * probs[:, 1] > probs[:, 0])
    assert rule.saving_ > 0  # beside acting on the predicted class


def test_intervals_hold_the_mean_of_skewed_costs():
    rng = np.random.default_rng(0)
    found = [mean_interval(np.where(rng.random(150) < 0.1, -9.0, 1.0)) for _ in range(2000)]
    hits = np.mean([low <= 0 <= high for low, high in found])
    assert 0.935 < hits < 0.965
    assert mean_interval(np.array([2.0])) == (-np.inf, np.inf)
    assert mean_interval(np.full(5, 2.0)) == (2.0, 2.0)


@pytest.mark.parametrize("errors", [0.3, 1.0, 3.0])
def test_the_interval_of_a_saving_holds_where_nobody_erred(errors):
    n, held = 200, 0
    for seed in range(400):
        saved = np.where(np.random.default_rng(seed).random(n) < errors / n, -9.0, 1.0)
        low, high = mean_interval(saved, (-9.0, 1.0))
        held += low <= 1 - 10 * errors / n <= high
    assert held / 400 >= 0.94


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


def test_the_interval_holds_what_no_calibration_node_has_shown():
    """All labels are right: that an action may cost is known from the costs alone."""
    probs = np.tile([0.9, 0.1], (50, 1))
    rule = Costs(wrong=4.0, defer=1.0).fit(probs, np.zeros(50, int), mask=range(50))
    assert rule.saving_ == 1.0
    assert rule.saving_interval_ == mean_interval(np.ones(50), (-3.0, 1.0))
    assert rule.saving_interval_[0] < 1.0
