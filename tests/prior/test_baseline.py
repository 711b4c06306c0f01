"""The baseline's fit, against brute force and known answers."""

from __future__ import annotations

import warnings
from dataclasses import asdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from simi_mailbox import CalibrationWarning, Graph
from simi_mailbox.prior.baseline import (
    Baseline,
    Belief,
    _Objective,
    blend,
    degree_terms,
    error_rate,
    fit_baseline,
)
from simi_mailbox.softmax import confidence
from tests.experiments.prior.conftest import past_run

BELIEF = Belief(0.05, 0.2, -0.5, 0.4, -1.0, 0.8)


def problem(seed, n=200, k=4):
    rng = np.random.default_rng(seed)
    z = torch.from_numpy(rng.normal(size=(n, k)) * 3)
    y = torch.from_numpy((z.numpy() / 1.5 + rng.gumbel(size=z.shape)).argmax(1))
    y[: n // 10] = torch.from_numpy(rng.integers(k, size=n // 10))
    return z, y, torch.from_numpy(rng.normal(size=(n, 2)))


def brute(z, y, x, temperature, belief):
    """The same minimum by a general optimiser on the formula as it is written."""
    unit = 2 * np.log(error_rate(confidence(z, temperature)))
    middle = [-np.log(temperature), belief.log_degree, belief.inverse_degree, belief.blind + unit]
    spread = np.array(
        [3.0, belief.log_degree_spread, belief.inverse_degree_spread, belief.blind_spread]
    )

    def loss(at):
        blind = 1 / (1 + np.exp(-at[3]))
        probs = torch.softmax(
            z * torch.exp(at[0] + at[1] * x[:, 0] + at[2] * x[:, 1])[:, None], dim=1
        ).numpy()
        own = (1 - blind) * probs[np.arange(len(y)), y] + blind / z.shape[1]
        return -np.log(own).sum() + 0.5 * (((at - np.array(middle)) / spread) ** 2).sum()

    options = {"xatol": 1e-9, "fatol": 1e-11, "maxiter": 4000, "maxfev": 4000}
    return minimize(loss, middle, method="Nelder-Mead", options=options).x, loss


@pytest.mark.parametrize("seed", range(4))
def test_the_fit_is_the_minimum_that_brute_force_finds(seed):
    z, y, x = problem(seed)
    found, _ = fit_baseline(z, y, x, 1.3, BELIEF)
    expected, _ = brute(z, y, x, 1.3, BELIEF)
    assert -np.log(found.temperature) == pytest.approx(expected[0], abs=1e-5)
    assert [found.log_degree, found.inverse_degree] == pytest.approx(expected[1:3], abs=1e-5)
    assert found.blind == pytest.approx(1 / (1 + np.exp(-expected[3])), rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.floats(0.3, 3.0), st.sampled_from([5, 40, 300]), st.integers(2, 9)
)
def test_no_step_away_from_the_fit_is_downhill(seed, temperature, n, k):
    z, y, x = problem(seed, n, k)
    found, _ = fit_baseline(z, y, x, temperature, BELIEF)
    _, loss = brute(z, y, x, temperature, BELIEF)
    odds = np.log(found.blind) - np.log1p(-found.blind)
    at = np.array([-np.log(found.temperature), found.log_degree, found.inverse_degree, odds])
    here = loss(at)
    for step in np.vstack([np.eye(4), -np.eye(4)]) * 1e-3:
        assert loss(at + step) >= here - 1e-9 * abs(here)


def test_gradient_and_hessian_agree_with_differences():
    z, y, x = problem(0)
    objective = _Objective(z, y, x, np.array([0.1, 0.0, 0.5, -3.0]), np.arange(1.0, 5.0))
    at, h = np.array([-0.2, 0.3, -0.1, -2.0]), 1e-5
    _, slope, hessian = objective(at)
    for i in range(4):
        step = h * np.eye(4)[i]
        up, down = objective(at + step), objective(at - step)
        assert slope[i] == pytest.approx((up[0] - down[0]) / (2 * h), rel=1e-6, abs=1e-6)
        np.testing.assert_allclose(hessian[i], (up[1] - down[1]) / (2 * h), rtol=1e-5, atol=1e-5)


def test_known_numbers_are_recovered_from_many_labels():
    run = past_run(0, blind=0.1, inverse_degree=-5.0, n=20_000)
    terms = degree_terms(run.graph)
    wide = Belief(0.0, 0.01, 0.0, 20.0, 0.0, 10.0)
    z, y = torch.from_numpy(run.logits), torch.from_numpy(run.y)
    found, _ = fit_baseline(z, y, terms - terms.mean(dim=0), 1.0, wide)
    assert found.temperature == pytest.approx(1.0, abs=0.06)
    assert found.inverse_degree == pytest.approx(-5.0, abs=1.0)
    assert found.blind == pytest.approx(0.1, abs=0.015)


def test_a_firm_belief_beats_few_labels_and_yields_to_many():
    firm = Belief(0.0, 0.001, 0.0, 0.001, 0.0, 0.01)
    loose = Belief(0.0, 10.0, 0.0, 10.0, 0.0, 10.0)
    z, y, x = problem(1, n=3000)
    for belief, expected in ((firm, True), (loose, False)):
        found, own = fit_baseline(z, y, x, 1.0, belief)
        assert (abs(own) < 0.1) == expected
        assert (abs(found.log_degree) + abs(found.inverse_degree) < 0.004) == expected


@pytest.mark.parametrize("right", [True, False])
def test_labels_that_are_all_right_or_all_wrong_give_finite_numbers(right):
    z, _, x = problem(2)
    y = z.argmax(dim=1) if right else z.argmin(dim=1)
    found, own = fit_baseline(z, y, x, 1.0, BELIEF)
    assert np.isfinite(
        [found.temperature, found.log_degree, found.inverse_degree, found.blind, own]
    ).all()
    assert found.temperature > 0
    assert 0 < found.blind < 1


def test_a_fit_that_does_not_settle_says_so(monkeypatch):
    z, y, x = problem(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_baseline(z, y, x, 1.0, BELIEF)
    monkeypatch.setattr("simi_mailbox.prior.baseline.PASSES", 1)
    with pytest.warns(CalibrationWarning, match="baseline did not settle"):
        fit_baseline(z, y, x, 1.0, BELIEF)


def test_older_names_are_read():
    now = Baseline(1.5, 0.1, -0.5, 0.02, 1.2, 0.3)
    assert Baseline.read(asdict(now)) == now
    older = {"temperature": 1.5, "many": 0.1, "few": -0.5, "blind": 0.02}
    assert Baseline.read({**older, "mean_many": 1.2, "mean_few": 0.3}) == now


def test_blind_guesses_keep_the_order_and_bound_the_confidence():
    z = torch.tensor([[50.0, 0.0, -50.0]])
    graph = Graph.from_edges(np.empty((2, 0), dtype=np.int64), 1)
    assert Baseline(1.0, blind=0.3).confidence(z, graph).item() == pytest.approx(0.8)
    probs = blend(torch.softmax(z.double(), dim=1), 0.3, 3)
    assert probs.sum().item() == pytest.approx(1.0)
    assert probs.argmax() == 0


def test_scale_follows_the_degree():
    star = Graph.from_edges([[0, 0, 0], [1, 2, 3]])
    many = Baseline(1.0, log_degree=1.0, mean_log_degree=float(np.log(2))).scale(star)
    np.testing.assert_allclose(many, [2.0, 1.0, 1.0, 1.0])
    few = Baseline(1.0, inverse_degree=-1.0, mean_inverse_degree=0.25).scale(star)
    np.testing.assert_allclose(few, np.exp([0.0, -0.25, -0.25, -0.25]))


def test_the_error_rate_is_never_nought():
    assert error_rate(torch.ones(98)) == pytest.approx(0.01)
    assert error_rate(torch.full((98,), 0.5)) == pytest.approx(0.5)
