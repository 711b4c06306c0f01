"""The baseline's fit, against brute force and known answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import t as student

from simi_mailbox import CalibrationWarning
from simi_mailbox.prior.baseline import (
    ENOUGH,
    FREEDOM,
    Baseline,
    Belief,
    _Belief,
    _Objective,
    blend,
    enough,
    error_rate,
    fit_baseline,
    nearest_exponents,
)
from simi_mailbox.softmax import confidence

MIDDLE = {"log_degree": 0.05, "inverse_degree": -0.5, "near": 0.4, "blind": -1.0}
SPREAD = {"log_degree": 0.2, "inverse_degree": 0.4, "near": 0.3, "blind": 0.8}
BELIEF = Belief(MIDDLE, SPREAD)
NAMES = ("log_degree", "inverse_degree", "near")


def problem(seed, n=200, k=4):
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(rng.normal(size=(n, k)) * 3)
    near = rng.normal(size=(n, k)) / 2
    y = torch.from_numpy((z.numpy() / 1.5 + near + rng.gumbel(size=z.shape)).argmax(1))
    y[: n // 10] = torch.from_numpy(rng.integers(k, size=n // 10))
    return z, y, torch.from_numpy(rng.normal(size=(n, 3))), torch.from_numpy(near)


def fit(case, temperature=1.0, belief=BELIEF):
    z, y, x, near = case
    gaps = (z - z.amax(dim=1, keepdim=True)) / temperature
    return fit_baseline(gaps, x, {"near": near}, y, temperature, belief)


def brute(case, temperature, belief=BELIEF):
    """The same minimum by a general optimiser on the formula as it is written."""
    z, y, x, near = case
    unit = 2 * np.log(error_rate(confidence(z, temperature)))
    middle = np.array(
        [0.0, *(belief.middle[name] for name in NAMES), belief.middle["blind"] + unit]
    )
    spread = np.array([3.0, *(belief.spread[name] for name in NAMES), belief.spread["blind"]])

    def loss(at):
        blind = 1 / (1 + np.exp(-at[4]))
        factor = torch.exp(at[0] + at[1] * x[:, 0] + at[2] * x[:, 1])[:, None] / temperature
        probs = torch.softmax(z * factor + at[3] * near, dim=1).numpy()
        own = (1 - blind) * probs[np.arange(len(y)), y] + blind / z.shape[1]
        away = (at - middle) / spread
        tails = 0.5 * (FREEDOM + 1) * np.log1p(away[1:4] ** 2 / FREEDOM)
        return -np.log(own).sum() + tails.sum() + 0.5 * (away[[0, 4]] ** 2).sum()

    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 6000, "maxfev": 6000}
    return lambda: minimize(loss, middle, method="Nelder-Mead", options=options).x, loss


def at_of(found, temperature):
    odds = np.log(found.blind) - np.log1p(-found.blind)
    theta = np.log(temperature / found.temperature)
    return np.array([theta, *(found.terms[name] for name in NAMES), odds])


@pytest.mark.parametrize("seed", range(3))
def test_the_fit_is_the_minimum_that_brute_force_finds(seed):
    case = problem(seed)
    found, _ = fit(case, 1.3)
    search, loss = brute(case, 1.3)
    at = at_of(found, 1.3)
    assert loss(at) <= loss(search()) + 1e-6


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.floats(0.3, 3.0), st.sampled_from([5, 40, 300]), st.integers(2, 9)
)
def test_no_step_away_from_the_fit_is_downhill(seed, temperature, n, k):
    case = problem(seed, n, k)
    found, _ = fit(case, temperature)
    _, loss = brute(case, temperature)
    at = at_of(found, temperature)
    here = loss(at)
    for step in np.vstack([np.eye(5), -np.eye(5)]) * 1e-3:
        assert loss(at + step) >= here - 1e-6 * abs(here)


def test_gradient_and_hessian_agree_with_differences():
    z, y, x, near = problem(0)
    normal = _Belief(np.zeros(5), np.ones(5), np.zeros(5, dtype=bool), FREEDOM)
    columns = np.c_[np.ones(200), x[:, :2]]
    objective = _Objective(z.numpy(), columns, [near.numpy()], y.numpy(), normal)
    at, h = np.array([-0.2, 0.3, -0.1, 0.4, -2.0]), 1e-5
    _, slope, hessian = objective(at)
    for i in range(5):
        step = h * np.eye(5)[i]
        up, down = objective(at + step), objective(at - step)
        assert slope[i] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6, abs=1e-6)
        np.testing.assert_allclose(hessian[i], (up[1] - down[1]) / (2 * h), rtol=1e-5, atol=1e-5)


def test_a_firm_belief_beats_few_labels_and_yields_to_many():
    firm = Belief(dict.fromkeys(MIDDLE, 0.0), dict.fromkeys(SPREAD, 0.001))
    loose = Belief(dict.fromkeys(MIDDLE, 0.0), dict.fromkeys(SPREAD, 10.0))
    for belief, expected in ((firm, True), (loose, False)):
        found, own = fit(problem(1, n=3000), belief=belief)
        assert (abs(own) < 0.1) == expected
        assert (abs(found.terms["near"]) < 0.1) == expected
    assert found.terms["near"] == pytest.approx(1.0, abs=0.2)


def test_tails_let_a_graph_unlike_all_others_say_so():
    case, narrow = problem(1, n=1000), Belief(MIDDLE, SPREAD | {"near": 0.05})
    z, y, x, near = case
    gaps = z - z.amax(dim=1, keepdim=True)
    wide, _ = fit_baseline(gaps, x, {"near": near}, y, 1.0, narrow)
    normal, _ = fit_baseline(gaps, x, {"near": near}, y, 1.0, narrow, freedom=None)
    assert wide.terms["near"] > normal.terms["near"] + 0.1


def doubted(case, belief, temperature=1.0):
    z, y, x, near = case
    gaps = (z - z.amax(dim=1, keepdim=True)) / temperature
    given = gaps, x, {"near": near}, y, temperature, belief
    return fit_baseline(*given, doubt=True)[0], fit_baseline(*given)[0]


@pytest.mark.parametrize(("scale", "n"), [(0.0, 300), (0.3, 120), (1.0, 120)])
def test_doubt_is_the_odds_that_integration_finds(scale, n):
    """Against sums over a grid of the likelihood times the priors, with the term and without."""
    z, y, x, near = problem(3, n)
    rng = np.random.default_rng(4)
    y = (z.numpy() / 1.5 + scale * near.numpy() + rng.gumbel(size=z.shape)).argmax(1)
    y = torch.from_numpy(y)
    belief = Belief({"near": 0.4, "blind": -1.0}, {"near": 0.3, "blind": 0.5})
    found, _ = doubted((z, y, x, near), belief)
    unit = 2 * np.log(error_rate(confidence(z, 1.0)))
    theta, term, blind = (np.linspace(*ends) for ends in ((-1, 1, 41), (-4, 5, 91), (-4, 3, 31)))
    odds = belief.middle["blind"] + unit + blind * 0.5
    gaps = z - z.amax(dim=1, keepdim=True)
    log_prior = -0.5 * ((odds - belief.middle["blind"] - unit) / 0.5) ** 2
    share = 1 / (1 + np.exp(-odds))

    def log_sum(coefficient):
        """log of the sum over θ and blind, at one value of the term."""
        values = []
        for t in theta:
            p = torch.softmax(gaps * np.exp(t) + coefficient * near, dim=1).numpy()
            own = p[np.arange(n), y][:, None] * (1 - share) + share / z.shape[1]
            values.append(np.log(own).sum(axis=0) + log_prior - 0.5 * (t / 3.0) ** 2)
        return np.logaddexp.reduce(np.concatenate(values))

    density = student(FREEDOM, belief.middle["near"], belief.spread["near"]).logpdf(term)
    every = [log_sum(b) for b in term] + density + np.log(term[1] - term[0])
    expected = log_sum(0.0) - np.logaddexp.reduce(every)
    assert np.log((1 - found.trust) / found.trust) == pytest.approx(expected, rel=0.1, abs=0.35)


def test_terms_that_say_nothing_are_left_out_as_a_whole_and_others_stay():
    z, y, x, near = problem(1, n=2000)
    said, whole = doubted((z, y, x, near), BELIEF)
    assert said.trust > 0.999
    np.testing.assert_allclose(said.terms["near"], whole.terms["near"], rtol=1e-2)
    noise = torch.from_numpy(np.random.default_rng(0).normal(size=near.shape))
    unsaid, _ = doubted((z, y, x, noise), BELIEF)
    assert unsaid.trust < 0.05
    assert max(abs(value) for value in unsaid.terms.values()) < 0.02
    gaps = z - z.amax(dim=1, keepdim=True)
    alone, _ = fit_baseline(gaps, x, {}, y, 1.0, Belief({"blind": -1.0}, {"blind": 0.8}))
    assert unsaid.temperature == pytest.approx(alone.temperature, rel=0.02)
    assert unsaid.blind == pytest.approx(alone.blind, rel=0.1)


@pytest.mark.parametrize("right", [True, False])
def test_labels_that_are_all_right_or_all_wrong_give_finite_numbers(right):
    z, _, x, near = problem(2)
    y = z.argmax(dim=1) if right else z.argmin(dim=1)
    found, own = fit((z, y, x, near))
    assert np.isfinite([*found.fields().values(), own]).all()
    assert found.temperature > 0
    assert 0 < found.blind < 1


def test_a_fit_that_does_not_settle_says_so(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(problem(0))
    monkeypatch.setattr("simi_mailbox.prior.baseline.PASSES", 1)
    with pytest.warns(CalibrationWarning, match="baseline did not settle"):
        fit(problem(0))


def test_fields_give_the_baseline_back():
    baseline = Baseline(1.5, 0.02, {"sure": 0.1, "near": 2.0})
    assert Baseline.read(baseline.fields()) == baseline
    assert baseline.classes == ("near",)


def test_blind_guesses_keep_the_order_and_bound_the_confidence():
    z = torch.tensor([[50.0, 0.0, -50.0]])
    probs = blend(torch.softmax(z.double(), dim=1), 0.3, 3)
    assert probs.max().item() == pytest.approx(0.8)
    assert probs.sum().item() == pytest.approx(1.0)
    assert probs.argmax() == 0


def test_the_error_rate_is_never_nought():
    assert error_rate(torch.ones(98)) == pytest.approx(0.01)
    assert error_rate(torch.full((98,), 0.5)) == pytest.approx(0.5)


def test_the_nearest_exponent_beats_all_others():
    rng = np.random.default_rng(0)
    gaps = torch.from_numpy(rng.normal(size=(200, 4)) * 2)
    gaps -= gaps.amax(dim=1, keepdim=True)
    scores = gaps + torch.from_numpy(rng.normal(size=(200, 4)))
    start = torch.from_numpy(rng.normal(size=200) / 2)
    q = scores.softmax(dim=1)

    def distance(exponents):
        """Kullback–Leibler, up to what does not depend on the exponents."""
        return -(q * torch.log_softmax(gaps * exponents.exp()[:, None], dim=1)).sum(dim=1)

    found = nearest_exponents(gaps, start, scores)
    for other in torch.linspace(-2.9, 1.9, 25):
        assert bool((distance(found) <= distance(start + other) + 2e-3).all())
    one_by_one = torch.cat(
        [nearest_exponents(gaps[i : i + 1], start[i : i + 1], scores[i : i + 1]) for i in range(9)]
    )
    np.testing.assert_allclose(found[:9], one_by_one, atol=1e-12)


def test_a_belief_has_the_slope_and_curvature_of_its_value():
    belief = _Belief(np.zeros(3), np.ones(3) / 2, np.array([False, True, True]), FREEDOM)
    at, step = np.array([0.3, 0.2, 4.0]), 1e-5 * np.eye(3)
    _, slope, curvature = belief(at)
    up, down = ([belief(at + sign * each) for each in step] for sign in (1, -1))
    differences = np.array(
        [(u[0] - d[0], (u[1] - d[1]).sum()) for u, d in zip(up, down, strict=True)]
    )
    np.testing.assert_allclose(np.stack([slope, curvature], 1), differences / 2e-5, rtol=1e-6)
    assert curvature[2] < 0 < (curvature + belief.slack(at)).min()


@pytest.mark.parametrize("hot", [0.0, -1.5, -3.0, -6.0])
def test_a_node_may_be_colder_than_temperature_scaling_however_hot_the_baseline(hot):
    gaps = torch.tensor([[0.0, -1.0, -3.0], [0.0, -0.2, -0.5]], dtype=torch.float64)
    for wanted in (-0.5, 0.0, 0.9):
        found = nearest_exponents(gaps, torch.full((2,), hot), gaps * np.exp(wanted))
        np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_enough_labels_are_spread_over_confidence_whatever_their_order():
    rng = np.random.default_rng(0)
    sure = torch.from_numpy(rng.random(30_000))
    index, order = torch.arange(0, 30_000, 2), torch.from_numpy(rng.permutation(15_000))
    chosen = enough(index, sure)
    assert len(chosen) == ENOUGH
    assert set(chosen.tolist()) == set(enough(index[order], sure).tolist())
    assert sure[chosen].mean() == pytest.approx(float(sure[index].mean()), abs=1e-3)
    assert enough(index[:100], sure) is not None
    assert len(enough(index[:100], sure)) == 100
