from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.metrics import log_loss

from simi_mailbox import SolverError, temperature
from simi_mailbox.adam import Tabulated, adam_path
from simi_mailbox.softmax import confidence, scaled_softmax
from simi_mailbox.temperature import (
    ConfidenceCurve,
    CrossEntropy,
    PaperLoss,
    _root,
    fit_cross_entropy,
    fit_paper_loss,
    theta_bounds,
)

GROUPS = 4


class Setting:
    """A random grouped problem, with the paper's loss written down a second time."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(60, 300)), int(rng.integers(2, 7))
        self.logits = torch.from_numpy(rng.normal(size=(n, k)) * rng.uniform(0.2, 6))
        self.groups = torch.from_numpy(rng.integers(0, GROUPS, n))
        true = torch.from_numpy(rng.uniform(0.4, 4, GROUPS))[self.groups]
        gumbel = torch.from_numpy(rng.gumbel(size=(n, k)))
        self.y = (self.logits / true[:, None] + gumbel).argmax(1)
        self.cal = torch.from_numpy(rng.choice(n, int(rng.integers(5, 40)), replace=False))
        self.penalty = float(rng.choice([1.0, 10.0, 50.0]))
        right = (self.logits.argmax(1) == self.y)[self.cal].double().numpy()
        group = self.groups[self.cal].numpy()
        with np.errstate(invalid="ignore"):
            self.accuracy = np.bincount(group, right, GROUPS) / np.bincount(group, None, GROUPS)
        self.bounds = theta_bounds(self.logits)
        self.curve = ConfidenceCurve(self.logits, self.groups, GROUPS)
        self.ce = CrossEntropy(
            self.logits[self.cal], self.y[self.cal], self.groups[self.cal], GROUPS
        )
        self.paper_loss = PaperLoss(self.curve, self.ce, self.accuracy, self.penalty)

    def loss(self, temperatures: np.ndarray) -> np.ndarray:
        """Loss of every group, by the definition."""
        probs = scaled_softmax(self.logits, torch.from_numpy(temperatures)[self.groups]).numpy()
        result = np.zeros(GROUPS)
        group = self.groups.numpy()
        for i in self.cal.numpy():
            likelihood = max(probs[i, self.y[i]], 1e-300)
            result[group[i]] -= np.log(likelihood) / len(self.cal)
        for n in range(GROUPS):
            if not np.isnan(self.accuracy[n]):
                gap = self.accuracy[n] - probs[group == n].max(1).mean()
                result[n] += self.penalty * gap**2
        return result


@given(st.integers(0, 10_000))
def test_paper_loss_is_minimal_in_every_group_its_slope_zero_or_a_bound_reported(seed):
    case = Setting(seed)
    solution = fit_paper_loss(case.paper_loss, case.bounds)
    grid = np.exp(-np.linspace(*case.bounds, 200))
    lowest = np.min([case.loss(np.full(GROUPS, t)) for t in grid], axis=0)
    assert (case.loss(solution.temperatures) <= lowest + 1e-9).all()
    value, d1, _ = case.curve(-np.log(solution.temperatures))
    _, ce_d1, _ = case.ce(-np.log(solution.temperatures))
    gap = np.where(np.isnan(case.accuracy), 0.0, value - np.nan_to_num(case.accuracy))
    derivative = ce_d1 + 2 * case.penalty * gap * d1
    assert (np.abs(derivative)[~solution.at_bound] < 1e-6).all()


@pytest.mark.parametrize("seed", [65, 361])
def test_paper_loss_with_two_minima_is_solved_by_the_lower_one(seed):
    # Logits of two sizes, a thousand times apart: the mean confidence rises in two steps, and the
    # loss has a minimum on each side of the plain between them.
    rng, n = np.random.default_rng(seed), 200
    size = 10.0 ** rng.choice([-1.5, 1.5], n)
    z = torch.from_numpy(rng.normal(size=(n, 3)) * size[:, None])
    truth = z / 10.0 ** rng.uniform(-1, 1)
    y = (truth + torch.from_numpy(rng.gumbel(size=(n, 3)))).argmax(1)
    one = torch.zeros(n, dtype=torch.int64)
    accuracy = np.array([(z.argmax(1) == y)[:20].double().mean().item()])
    curve, ce = ConfidenceCurve(z, one, 1), CrossEntropy(z[:20], y[:20], one[:20], 1)

    def loss(theta):
        return float((ce(theta)[0] + 10 * (curve(theta)[0] - accuracy) ** 2)[0])

    grid = np.linspace(*theta_bounds(z), 1000)[:, None]
    values = np.array([loss(theta) for theta in grid])
    assert ((values[1:-1] < values[:-2]) & (values[1:-1] < values[2:])).sum() == 2
    solution = fit_paper_loss(PaperLoss(curve, ce, accuracy, 10.0), theta_bounds(z))
    assert loss(-np.log(solution.temperatures)) <= values.min() + 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_the_exact_loss_is_never_above_adams(seed):
    case = Setting(seed)
    exact = fit_paper_loss(case.paper_loss, case.bounds)
    adam = next(islice(adam_path(case.paper_loss), 1999, None))[0]
    inside = np.log(1 / adam)
    comparable = (inside >= case.bounds[0]) & (inside <= case.bounds[1])
    difference = case.loss(exact.temperatures) - case.loss(adam)
    assert comparable.any()
    assert (difference[comparable] <= 1e-6).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_table_gives_what_the_curve_gives(seed):
    case = Setting(seed)
    theta = np.random.default_rng(seed).uniform(-2, 3, (5, GROUPS))
    for curve in (case.curve, case.ce):
        value, slope, _ = Tabulated(curve)(theta)
        expected = [curve(row) for row in theta]
        np.testing.assert_allclose(value, [found[0] for found in expected], atol=2e-6)
        np.testing.assert_allclose(slope, [found[1] for found in expected], atol=2e-6)


@given(st.integers(0, 10_000))
def test_curves_are_means_and_their_derivatives_finite_differences(seed):
    case = Setting(seed)
    theta = np.random.default_rng(seed).uniform(-1, 1, GROUPS)
    step = 1e-5
    each = confidence(case.logits, torch.from_numpy(np.exp(-theta))[case.groups]).numpy()
    group = case.groups.numpy()
    means = np.bincount(group, each, GROUPS) / np.maximum(np.bincount(group, None, GROUPS), 1)
    np.testing.assert_allclose(case.curve(theta)[0], means, atol=1e-9)
    for function in (case.curve, case.ce):
        _, d1, d2 = function(theta)
        above, below = function(theta + step), function(theta - step)
        np.testing.assert_allclose((above[0] - below[0]) / (2 * step), d1, atol=1e-7)
        np.testing.assert_allclose((above[1] - below[1]) / (2 * step), d2, atol=1e-6)


@given(st.integers(0, 10_000))
def test_temperature_scaling_agrees_with_a_scalar_search_on_scikit_learns_log_loss(seed):
    case = Setting(seed)
    z, y = case.logits, case.y
    one = torch.zeros(len(y), dtype=torch.int64)
    solution = fit_cross_entropy(z, y, one, 1, case.bounds)
    labels = range(z.shape[1])

    def loss(theta: float) -> float:
        return float(log_loss(y, scaled_softmax(z, float(np.exp(-theta))), labels=labels))

    found = minimize_scalar(loss, bounds=case.bounds, method="bounded")
    assert loss(-np.log(solution.temperatures[0])) <= found.fun + 1e-8


def test_groups_that_are_not_wanted_are_passed_over():
    s = Setting(5)
    theta = np.linspace(-0.5, 0.5, GROUPS)
    wanted = np.array([True, False, True, False])
    for function in (s.curve, s.ce):
        for whole, part in zip(function(theta), function(theta, wanted), strict=True):
            np.testing.assert_allclose(part[wanted], whole[wanted], rtol=1e-12)
            assert (part[~wanted] == 0).all()


def test_a_function_without_a_root_stops_at_the_bound_and_one_that_is_not_finite_is_an_error():
    theta, at_bound = _root(
        lambda theta, _: (theta + np.array([2.0, -2.0, 0.5]), np.ones(3)), (-1, 1), 3
    )
    np.testing.assert_allclose(theta, [-1.0, 1.0, -0.5])
    assert at_bound.tolist() == [True, True, False]
    with pytest.raises(SolverError, match="group 1 is not finite"):
        _root(lambda theta, _: (np.array([1.0, np.nan]), theta), (-1.0, 1.0), 2)


def test_the_unit_of_the_logits_does_not_matter():
    case = Setting(1)
    one = torch.zeros(len(case.y), dtype=torch.int64)
    base = fit_cross_entropy(case.logits, case.y, one, 1, theta_bounds(case.logits))
    for unit in (1e-6, 100.0, 1e4):
        z = case.logits * unit
        scaled = fit_cross_entropy(z, case.y, one, 1, theta_bounds(z))
        assert scaled.temperatures[0] == pytest.approx(base.temperatures[0] * unit, rel=1e-6)
    gaps = torch.tensor([[3.0, 0.0, 0.0], [0.0, 6.0, 0.0]])  # 2 and 4 on average
    np.testing.assert_allclose(np.exp(theta_bounds(gaps)), [1 / 300, 1000 / 3])
    nothing = torch.zeros(len(case.y), 3)  # constant logits have no preference
    bounds = theta_bounds(nothing)
    assert fit_cross_entropy(nothing, one, one, 1, bounds).temperatures.tolist() == [1.0]


def test_too_few_passes_are_an_error_and_not_a_wrong_answer(monkeypatch):
    monkeypatch.setattr(temperature, "MAX_PASSES", 2)
    case = Setting(0)
    with pytest.raises(SolverError, match="did not settle in 2 passes"):
        fit_paper_loss(case.paper_loss, case.bounds)


def test_softmax_survives_huge_logits():
    z = torch.tensor([[1e4, -1e4, 0.0], [3e38, -3e38, 0.0]])
    probs = scaled_softmax(z, torch.tensor([1e-3, 1.0]))
    assert probs.tolist() == [[1, 0, 0], [1, 0, 0]]
