"""The model: derivatives by differences, fits by other minimisers, and what it must find."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax

from simi_mailbox import CalibrationWarning
from simi_mailbox.calibrators.simi_mailbox import model as module

NAMES = ("log_degree", "inverse_degree", "neighbours", "labels")


def problem(seed=0, m=150, k=4, groups=3, names=NAMES):
    """Nodes with terms of every kind, whose labels follow the logits and the first class term."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(m, k)) * 2
    j = sum(name in module.EXPONENTS for name in names)
    classes = [rng.normal(size=(m, k)) for _ in range(len(names) - j)]
    told = z + (classes[0] if classes else 0.0)
    y = (told + rng.gumbel(size=z.shape)).argmax(axis=1)
    nodes = module.Nodes(
        torch.from_numpy(z - z.max(axis=1, keepdims=True)),
        torch.from_numpy(rng.normal(size=(m, j))),
        [torch.from_numpy(part) for part in classes],
        rng.dirichlet(np.ones(groups), size=m) if groups else np.empty((m, 0)),
    )
    return nodes, y


def log_likelihood(at, nodes, y, frequencies, counts=None):
    """The formula of the module's docstring, parameter by parameter."""
    j, groups = nodes.exponents.shape[1], nodes.groups.shape[1]
    h, k = len(nodes.classes), nodes.gaps.shape[1]
    theta, a, u, b, e, odds = np.split(at, np.cumsum([1, j, groups, h, k]))
    total = 0.0
    for i, label in enumerate(y):
        eta = theta[0] + nodes.exponents[i].numpy() @ a + nodes.groups[i] @ u
        s = np.exp(eta) * nodes.gaps[i].numpy() + e
        s = s + sum((b[t] * nodes.classes[t][i].numpy() for t in range(h)), np.zeros(k))
        w = expit(odds[0])
        one = np.log((1 - w) * softmax(s)[label] + w * frequencies[label])
        total += one if counts is None else counts[i] * one
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("groups", [0, 3])
@pytest.mark.parametrize("names", [(), NAMES])
def test_derivatives_are_those_of_the_formula(groups, names, weighted):
    nodes, y = problem(1, m=40, groups=groups, names=names)
    counts = np.random.default_rng(3).uniform(0.2, 3.0, 40) if weighted else None
    objective = module._Likelihood(nodes, y, counts)
    objective.frequencies = np.array([0.4, 0.3, 0.2, 0.1])
    rng = np.random.default_rng(2)
    size = objective.size
    at = rng.normal(size=size) * 0.4
    value, slope, hessian = objective(at)
    assert value == pytest.approx(-log_likelihood(at, nodes, y, objective.frequencies, counts))
    step = 1e-5 * np.eye(size)
    slopes = [(objective(at + d)[0] - objective(at - d)[0]) / 2e-5 for d in step]
    np.testing.assert_allclose(slope, slopes, atol=1e-6)
    bends = [(objective(at + d)[1] - objective(at - d)[1]) / 2e-5 for d in step]
    np.testing.assert_allclose(hessian, bends, atol=1e-6)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_maximum_a_posteriori_is_that_of_scipy(seed):
    nodes, y = problem(seed, m=120)
    objective = module._Likelihood(nodes, y)
    mean, variance = objective.prior(NAMES, module.Coefficients.vague(NAMES))
    variance = objective.with_widths(variance, 0.2, 0.3)

    def cost(at):
        away = at - mean
        return -log_likelihood(at, nodes, y, objective.frequencies) + 0.5 * away @ (away / variance)

    found = module._minimum(objective, mean, variance, (mean, *objective(mean)))[0]
    best = minimize(cost, mean, method="L-BFGS-B", options={"maxiter": 400, "ftol": 1e-13})
    assert cost(found) <= best.fun + 1e-6
    np.testing.assert_allclose(found, best.x, atol=5e-3)


def test_evidence_is_the_integral_of_the_posterior_where_that_is_normal():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    hessian, at, slope = root @ root.T + np.eye(3), rng.normal(size=3), rng.normal(size=3)
    mean, variance = rng.normal(size=3), np.array([0.5, 1.0, 2.0])
    found = module._log_evidence(at, 1.3, slope, hessian, mean, variance)
    draws = mean + np.sqrt(variance) * rng.normal(size=(400_000, 3))
    away = draws - at
    logs = -(1.3 + away @ slope + 0.5 * np.einsum("ni,ij,nj->n", away, hessian, away))
    top = logs.max()
    assert found == pytest.approx(top + np.log(np.exp(logs - top).mean()), abs=0.02)


@pytest.mark.parametrize(
    ("labels", "sharpness", "right", "weighted"),
    [
        (60, 3.0, None, False), (60, 3.0, None, True), (60, 0.01, None, False),
        (60, 60.0, None, False), (1, 3.0, True, False), (1, 3.0, False, False),
        (40, 3.0, True, False), (40, 3.0, False, True), (2000, 8.0, None, False),
    ],
)  # fmt: skip
def test_temperature_has_a_cauchy_prior(labels, sharpness, right, weighted):
    """Also where all labels are right or wrong, and logits of any size."""
    rng = np.random.default_rng(labels)
    z = rng.normal(size=(labels, 3)) * sharpness
    y = (z / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    if right is not None:
        y = z.argmax(axis=1) if right else z.argmin(axis=1)
    weight = rng.uniform(0.1, 2.0, labels) if weighted else None
    counts = np.ones(labels) if weight is None else weight

    def cost(theta):
        prior = math.log1p((theta / 0.5) ** 2)
        return prior - counts @ log_softmax(z * np.exp(theta), axis=1)[np.arange(labels), y]

    tried = np.linspace(-9, 6, 3001)
    start = tried[np.argmin([cost(theta) for theta in tried])]
    best = minimize_scalar(cost, bounds=(start - 0.01, start + 0.01), method="bounded")
    assert cost(-math.log(module.reference_temperature(z, y, weight))) <= best.fun + 1e-6


def test_many_labels_recover_what_they_were_drawn_from():
    rng = np.random.default_rng(3)
    nodes, _ = problem(3, m=6000, k=3, groups=0)
    truth = module.Model(
        NAMES, 0.2, np.array([0.2, -0.3]), np.array([1.0, -0.5]), np.array([0.8, -0.4, -0.4]),
        np.empty(0), np.full(3, 1 / 3), 0.0,
    )  # fmt: skip
    y = (truth.scores(nodes).numpy() + rng.gumbel(size=(6000, 3))).argmax(axis=1)
    found = module.fit(nodes, y, NAMES, module.Coefficients.vague(NAMES))
    assert found.trust > 0.999
    np.testing.assert_allclose(found.exponents, truth.exponents, atol=0.1)
    np.testing.assert_allclose(found.classes, truth.classes, atol=0.15)
    np.testing.assert_allclose(
        found.intercepts - found.intercepts.mean(), truth.intercepts, atol=0.15
    )
    assert found.uniform < 0.01
    drawn = module.estimate(nodes, y, NAMES)
    np.testing.assert_allclose([drawn[name] for name in NAMES], [0.2, -0.3, 1.0, -0.5], atol=0.15)


def test_terms_that_tell_nothing_are_not_trusted():
    nodes, _ = problem(4, m=400)
    rng = np.random.default_rng(5)
    y = (nodes.gaps.numpy() + rng.gumbel(size=(400, 4))).argmax(axis=1)
    sure = module.Coefficients({**dict.fromkeys(NAMES, 1.0), "uniform": -2.0},
                        dict.fromkeys((*NAMES, "uniform"), 0.1))  # fmt: skip
    found = module.fit(nodes, y, NAMES, sure)
    assert found.trust < 0.05
    assert np.abs(found.classes).max() < 0.1


def test_groups_are_found_where_labels_are_many_and_not_where_they_are_few():
    rng = np.random.default_rng(6)
    deviations = np.array([-0.6, 0.0, 0.6])
    spread = {}
    for m in (60, 6000):
        nodes, _ = problem(7, m=m, names=())
        nodes = replace(nodes, groups=np.eye(3)[rng.integers(3, size=m)])
        eta = nodes.groups @ deviations
        y = (np.exp(eta)[:, None] * nodes.gaps.numpy() + rng.gumbel(size=(m, 4))).argmax(axis=1)
        spread[m] = module.fit(nodes, y, (), module.Coefficients.vague(())).groups
    np.testing.assert_allclose(spread[6000] - spread[6000].mean(), deviations, atol=0.15)
    assert np.abs(spread[60]).max() < 0.3


@pytest.mark.parametrize("uniform", [None, 0.0, 0.3])
@pytest.mark.parametrize("drop", [0.0, 0.01, 0.05, 0.9])
def test_the_level_lowers_the_mean_confidence_by_what_is_asked(drop, uniform):
    """But at most a quarter of the way to the class frequencies."""
    nodes, y = problem(9, m=600, groups=0)
    found = module.fit(nodes, y, NAMES, module.Coefficients.vague(NAMES))
    found = found if uniform is None else replace(found, uniform=uniform)
    lower = replace(found, level=module.level_for(found, nodes, drop))
    means = [float(one.probabilities(nodes).amax(dim=1).mean()) for one in (found, lower)]
    plain = float(replace(found, uniform=0.0).probabilities(nodes).amax(dim=1).mean())
    most = (1 - found.uniform) * (plain - found.frequencies.max()) / 4
    assert means[0] - means[1] == pytest.approx(min(drop, most), abs=2e-3)
    assert (lower.level == 1.0) == (drop == 0.0)


def test_the_unit_of_bias_is_the_error_rate_times_what_the_model_adds_to_the_class_frequencies():
    nodes, _ = problem(11, m=600, groups=0)
    frequencies = np.array([0.4, 0.3, 0.2, 0.1])
    for sharpness in (1.0, 3.0):
        some = replace(nodes, gaps=nodes.gaps * sharpness)
        plain = replace(module.Model.bare(frequencies), exponents=np.zeros(2), classes=np.zeros(2))
        confidence = softmax(some.gaps.numpy(), axis=1).max(axis=1)
        errors = ((1 - confidence).sum() + 1) / (600 + 2)
        assert module.error_rate(some.gaps.numpy()) == pytest.approx(errors)
        expected = errors * (confidence.mean() - 0.4) / (1 - 0.4)
        assert module.bias_unit(plain, some) == pytest.approx(expected)
    unsure = replace(nodes, gaps=nodes.gaps * 1e-3)  # less confident than the frequencies alone
    assert module.bias_unit(plain, unsure) == 0.0


def test_selection_bias_never_takes_more_than_three_quarters_of_the_scores():
    nodes = module.Nodes.bare(torch.tensor([[0.0, -1000.0]], dtype=torch.float64))
    plain = module.Model.bare(np.full(2, 0.5))
    assert module.level_for(plain, nodes, 0.1) == 0.25
    assert module.level_for(plain, nodes, 0.0) == module.level_for(plain, nodes, -0.1) == 1.0


def test_a_label_that_counts_twice_is_two_labels():
    nodes, y = problem(12, m=80)
    belief = module.Coefficients.vague(NAMES)
    belief = module.Coefficients({**belief.location, "uniform": -99.0}, belief.spread)  # no mixture
    weight = np.where(np.arange(80) < 30, 2.0, 1.0)
    twice = np.concatenate([np.arange(80), np.arange(30)])
    repeated = module.Nodes(
        nodes.gaps[twice], nodes.exponents[twice], [part[twice] for part in nodes.classes],
        nodes.groups[twice],
    )  # fmt: skip
    one, other = (
        module.fit(nodes, y, NAMES, belief, weight),
        module.fit(repeated, y[twice], NAMES, belief),
    )
    for name in ("exponents", "classes", "intercepts", "groups", "frequencies"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=2e-3)
    assert (one.scale, one.trust) == pytest.approx((other.scale, other.trust), abs=2e-3)


def test_a_uniform_mixture_is_recovered_relative_to_the_squared_error_rate():
    rng = np.random.default_rng(13)
    nodes, _ = problem(13, m=8000, k=3, groups=0, names=())
    sharp = replace(nodes, gaps=2 * nodes.gaps)
    y = (sharp.gaps.numpy() + rng.gumbel(size=(8000, 3))).argmax(axis=1)
    y = np.where(rng.random(8000) < 0.15, rng.integers(0, 3, 8000), y)
    unit = 2 * math.log(module.error_rate(sharp.gaps.numpy()))
    found = module.estimate(sharp, y, ())["uniform"]
    assert expit(found + unit) == pytest.approx(0.15, abs=0.02)
    belief = module.Coefficients.vague(())
    assert module.fit(sharp, y, (), belief).uniform == pytest.approx(0.15, abs=0.02)


def test_a_fit_that_does_not_settle_warns(monkeypatch):
    nodes, y = problem(14)
    monkeypatch.setattr(module, "PASSES", 1)
    with pytest.warns(CalibrationWarning, match="the fit did not settle"):
        module.fit(nodes, y, NAMES, module.Coefficients.vague(NAMES))


@pytest.mark.parametrize("far", [-40.0, 40.0])
def test_the_likelihood_is_a_number_wherever_a_step_leads(far):
    nodes, y = problem(15, m=30)
    objective = module._Likelihood(nodes, y)
    at = np.zeros(objective.size)
    at[0] = far
    at[-1] = -40.0  # no mixture that would catch a label of probability zero
    value, slope, hessian = objective(at)
    assert np.isfinite([value, *slope, *hessian.ravel()]).all()
    at[0] = np.sign(far) * 12.0  # from here on, nothing changes any more
    assert objective(at)[0] == value


def test_the_nearest_matrix_without_negative_curvature():
    rng = np.random.default_rng(16)
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    found = module._positive(axes @ np.diag([3.0, 0.5, -1.0, -1e-12]) @ axes.T)
    np.testing.assert_allclose(found, axes @ np.diag([3.0, 0.5, 0.0, 0.0]) @ axes.T, atol=1e-7)
    assert np.linalg.eigvalsh(found).min() > 0


def test_beliefs_stand_where_their_coefficients_do():
    nodes, y = problem(17, m=20)
    layout = module._Likelihood(nodes, y)
    layout.unit = -1.5
    location = dict(zip(NAMES, (0.1, 0.2, 0.3, 0.4), strict=True)) | {"uniform": -2.0}
    spread = dict(zip(NAMES, (1.0, 2.0, 3.0, 4.0), strict=True)) | {"uniform": 5.0}
    mean, variance = layout.prior(NAMES, module.Coefficients(location, spread))
    # θ, two exponents, three groups, two class terms, four intercepts, the mixture
    assert mean.tolist() == [0, 0.1, 0.2, 0, 0, 0, 0.3, 0.4, 0, 0, 0, 0, -3.5]
    wide = layout.with_widths(variance, 7.0, 8.0)
    assert wide.tolist() == [1, 1, 4, 49, 49, 49, 9, 16, 64, 64, 64, 64, 25]
    assert variance[3] == 1.0  # a copy was changed
    nothing = module.Coefficients(location | {"uniform": -np.inf}, spread)
    assert layout.prior(NAMES, nothing)[0][-1] == -7.0  # a weight below a thousandth


@pytest.mark.parametrize("start", [1.0, 2.0])
def test_the_base_of_label_residuals_is_temperature_and_intercepts(start):
    rng = np.random.default_rng(18)
    z = 3 * rng.normal(size=(5000, 3))
    truth = module.Base(1.5, np.array([0.6, 0.0, -0.6]))
    p = truth.probabilities(torch.from_numpy(z + 7.0)).numpy()  # an offset says nothing
    np.testing.assert_allclose(p, softmax(z / 1.5 + truth.intercepts, axis=1))
    y = (np.log(p) + rng.gumbel(size=z.shape)).argmax(axis=1)
    found = module.Base.fit(z, y, None, start)
    assert found.temperature == pytest.approx(1.5, rel=0.07)
    np.testing.assert_allclose(found.intercepts - found.intercepts[1], truth.intercepts, atol=0.15)
    weight = np.where(y == 0, 2.0, 1.0)  # as if there were twice as many of the first class
    more = module.Base.fit(z, y, weight, start).intercepts
    assert (more - more[1])[0] == pytest.approx(0.6 + math.log(2), abs=0.15)
