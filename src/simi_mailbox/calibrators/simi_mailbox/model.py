"""The model of a node's class: temperature, evidence, class intercepts, groups; and its fit.

    s_i = e^η_i (z_i − max z_i) / T + Σ_t b_t C_ti + e,    η_i = θ + Σ_t a_t x_ti + Σ_g w_ig u_g
    q_i = (1 − w) softmax(s_i) + w π

T is the temperature of temperature scaling, x and C are the terms of `evidence`, w_ig how far node
i belongs to group g, π the class frequencies that the model without evidence expects. All numbers
are estimated together by maximum a posteriori: (a, b) have a normal prior learned from other
graphs, the class intercepts e ~ N(0, τ²) and the deviations of groups u ~ N(0, σ²) one whose widths
are learned from the labels at hand. Normal tails matter: a coefficient that the labels cannot tell
must not run away, whatever a statistic reveals of the labels it was made from.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from torch import Tensor

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning

EXPONENTS = ("log_degree", "inverse_degree")
"""Terms of a node's temperature; all others are terms of classes."""
SCALE_WIDTH = 1.0
"""Of θ: how far the evidence may move the common temperature, as a logarithm."""
INTERCEPT_WIDTHS = (0.03, 0.1, 0.3, 1.0)
GROUP_WIDTHS = (0.02, 0.06, 0.2, 0.5)
INTERCEPTS_TYPICAL, GROUPS_TYPICAL = 0.1, 0.03
"""Scales of the half-Cauchy priors of τ and σ."""
VAGUE = {"log_degree": 0.3, "inverse_degree": 1.0, "uniform": 1.0}
VAGUE_COEFFICIENT, VAGUE_UNIFORM = 2.0, -2.0
"""What is believed where other graphs are no guide."""
ODDS = {"alike": 1.0, "unlike": 0.01, "none": 1.0}
"""Before labels are seen: a graph like the others, unlike any, or one without evidence."""
NO_WEIGHT, EXACT = -7.0, 1e-4
PASSES, HALVINGS, WIDTH_PASSES = 60, 30, 4
COLDEST = 30.0
"""Of |log T|."""
SETTLED, ROUGHLY, WIDTHS_SETTLED = 1e-3, 0.03, 0.2
"""A Newton step below these leaves an error of about its square."""
LOWEST_LEVEL = 0.25
"""The lowest factor by which selection bias may lower all scores."""
TEMPERATURE_WIDTH = 0.5
"""Of the Cauchy prior of log T around 0: a few labels, all right, say nothing about T."""
# Of late labels: fixed on the structural shifts of CoraML, Citeseer and Photo, 50 labels each, with
# a look at Computers under locality.
LATE_SCALE_WIDTH, LATE_WIDTHS, LATE_TYPICAL = 0.3, (0.1, 0.3, 1.0, 2.0), 0.3
LATE_TERMS = {"neighbours": 0.5, "labels": 4.0, "labels_2_steps": 4.0}
"""Evidence whose weight late labels estimate again, and by how much it may change."""
LATE_UNIFORM, LATE_UNIFORM_WIDTH = -3.0, 1.0
DRIFT_ODDS = 0.5
REFIT_LABELS, REFIT_DRIFT = 50, 0.5
"""So many late labels that show drift with this probability are worth a refit."""


@dataclass(frozen=True)
class Coefficients:
    """What is believed of the coefficients, or what was found: numbers by the names of terms.

    ``uniform`` is the log-odds of the uniform mixture relative to the squared error rate.
    """

    location: Mapping[str, float]
    spread: Mapping[str, float]

    @classmethod
    def vague(cls, names: tuple[str, ...]) -> Coefficients:
        """Where nothing is known of other graphs."""
        spread = {name: VAGUE.get(name, VAGUE_COEFFICIENT) for name in (*names, "uniform")}
        return cls({**dict.fromkeys(names, 0.0), "uniform": VAGUE_UNIFORM}, spread)


@dataclass(frozen=True, eq=False)
class Nodes:
    """What the model sees of some nodes, terms in the order of their names.

    ``gaps`` [m, K] are (z − max z) / T, ``exponents`` is [m, j], each of ``classes`` [m, K], and
    ``groups`` [m, G] the membership: rows sum to one, or there is no group.
    """

    gaps: Tensor
    exponents: Tensor
    classes: list[Tensor]
    groups: Floats

    @classmethod
    def bare(cls, gaps: Tensor, classes: Sequence[Tensor] = ()) -> Nodes:
        """Without groups and terms of the temperature."""
        none = np.empty((len(gaps), 0))
        return cls(gaps, torch.from_numpy(none), list(classes), none)


@dataclass(frozen=True, eq=False)
class Model:
    """Fitted numbers of the formula at the top; ``trust`` is the weight of all terms but groups.

    ``level`` is a common factor of all scores, which takes selection bias out of the confidence.
    """

    names: tuple[str, ...]
    scale: float
    exponents: Floats
    classes: Floats
    intercepts: Floats
    groups: Floats
    frequencies: Floats
    uniform: float
    trust: float = 1.0
    level: float = 1.0

    @classmethod
    def bare(cls, frequencies: Floats, uniform: float = 0.0) -> Model:
        """The model whose scores are the gaps of `Nodes.bare`."""
        none = np.empty(0)
        zero = np.zeros(len(frequencies))
        return cls((), 0.0, none, none, zero, none, frequencies, uniform)

    def scores(self, nodes: Nodes) -> Tensor:
        """s of some nodes, [m, K]."""
        eta = nodes.exponents @ torch.from_numpy(self.exponents) + self.scale
        eta += torch.from_numpy(nodes.groups @ self.groups)
        found = nodes.gaps * eta.exp_().to(nodes.gaps.dtype)[:, None]
        found += torch.from_numpy(self.intercepts).to(found.dtype)
        for weight, term in zip(self.classes.tolist(), nodes.classes, strict=True):
            found.add_(term, alpha=weight)
        return found.mul_(self.level)

    def probabilities(self, nodes: Nodes) -> Tensor:
        """q of some nodes, [m, K]."""
        probs = self.scores(nodes).softmax(dim=1)
        expected = torch.from_numpy(self.frequencies).to(probs.dtype)
        return probs.mul_(1.0 - self.uniform).add_(expected, alpha=self.uniform)

    def numbers(self) -> dict[str, float]:
        """All but intercepts and groups, in one table."""
        found = {"scale": self.scale, "uniform": self.uniform}
        found |= {"trust": self.trust, "level": self.level}
        each = zip(self.names, [*self.exponents.tolist(), *self.classes.tolist()], strict=True)
        return found | dict(each)

    @classmethod
    def from_numbers(
        cls, numbers: Mapping[str, float], intercepts: Floats, groups: Floats, frequencies: Floats
    ) -> Model:
        """What `numbers` was made from."""
        rest = {name: float(value) for name, value in numbers.items()}
        scale, uniform, trust, level = (rest.pop(n) for n in ("scale", "uniform", "trust", "level"))
        exponents = np.array([rest[name] for name in rest if name in EXPONENTS])
        classes = np.array([rest[name] for name in rest if name not in EXPONENTS])
        found = scale, exponents, classes, intercepts, groups, frequencies
        return cls(tuple(rest), *found, uniform, trust, level)


def reference_temperature(logits: Floats, y: Ints, weight: Floats | None = None) -> float:
    """Temperature scaling with a Cauchy prior on log T; of dozens of labels nearly plain."""
    gaps, each = logits - logits.max(axis=1, keepdims=True), np.arange(len(y))
    counts = np.ones(len(y)) if weight is None else weight

    def cost(theta: Floats) -> tuple[float, Floats]:
        scaled = np.exp(theta) * gaps
        log_p = log_softmax(scaled, axis=1)
        slope = counts @ ((np.exp(log_p) * scaled).sum(axis=1) - scaled[each, y])
        far = theta / TEMPERATURE_WIDTH
        slope = slope + 2.0 * far / (1.0 + far**2) / TEMPERATURE_WIDTH
        value = float(np.log1p(far[0] ** 2) - counts @ log_p[each, y])
        return value / len(y), slope / len(y)

    how = {"ftol": 1e-14, "gtol": 1e-6}
    limits = [(-COLDEST, COLDEST)]
    found = minimize(cost, [0.0], jac=True, method="L-BFGS-B", bounds=limits, options=how)
    return math.exp(-found.x[0])


@dataclass(frozen=True, eq=False)
class Base:
    """Temperature and class intercepts alone: what a label is compared with as evidence.

    Compared with softmax(z / T), residuals would carry the class balance of the training.
    """

    temperature: float
    intercepts: Floats

    @classmethod
    def fit(cls, logits: Floats, y: Ints, weight: Floats | None, temperature: float) -> Base:
        """Of labelled nodes; ``temperature`` is where to start."""
        gaps = logits - logits.max(axis=1, keepdims=True)
        nodes = Nodes.bare(torch.from_numpy(gaps / temperature))
        at = _fit_case(_Likelihood(nodes, y, weight), (), _nothing(()))[1]
        return cls(temperature * math.exp(-at[0]), at[1:-1])

    def probabilities(self, logits: Tensor) -> Tensor:
        """Of some nodes, [m, K]."""
        gaps = (logits - logits.amax(dim=1, keepdim=True)).div_(self.temperature)
        return gaps.add_(torch.from_numpy(self.intercepts).to(gaps.dtype)).softmax(dim=1)


def fit(
    nodes: Nodes,
    y: Ints,
    names: tuple[str, ...],
    belief: Coefficients,
    weight: Floats | None = None,
) -> Model:
    """The model of labelled nodes, given what is believed of its coefficients.

    Averaged over three cases, weighted by their Laplace evidence: a graph like others, one unlike
    any (wide normal priors around zero), and one without evidence.
    """
    objective = _Likelihood(nodes, y, weight)
    vague = Coefficients.vague(names)
    vague = Coefficients({**vague.location, "uniform": belief.location["uniform"]}, vague.spread)
    none = _fit_case(objective, names, _nothing(names))
    objective.frequencies = objective.expected(none[1])
    cases = {"alike": belief, "unlike": vague} if names else {"alike": belief}
    found, start = [], none[1]
    for case, told in cases.items():
        found.append((ODDS[case], *_fit_case(objective, names, told, start)))
        start = found[-1][2]
    found.append((ODDS["none"], *none))
    weight = softmax([math.log(odds) + evidence for odds, evidence, _ in found])
    at = sum(part * one for part, (*_, one) in zip(weight, found, strict=True))
    trust = float(weight[:-1].sum())
    theta, exponents, deviations, classes, intercepts, odds = np.split(
        np.asarray(at), np.cumsum(objective.sizes)
    )
    return Model(
        names, float(theta[0]), exponents, classes, intercepts, deviations,
        objective.frequencies, uniform=float(expit(odds[0])), trust=trust,
    )  # fmt: skip


def estimate(nodes: Nodes, y: Ints, names: tuple[str, ...]) -> dict[str, float]:
    """Coefficients that fit nodes whose labels are all known: what a prior is learned from."""
    objective = _Likelihood(replace(nodes, groups=nodes.groups[:, :0]), y)
    mean, variance = objective.prior(names, Coefficients.vague(names))
    start = (mean, *objective(mean))
    at = _minimum(objective, mean, objective.with_widths(variance, 1.0, 1.0), start)[0]
    found = dict(zip(names, at[objective.places].tolist(), strict=True))
    return {**found, "uniform": float(at[-1]) - objective.unit}


def error_rate(gaps: Floats) -> float:
    """Expected share of errors, never zero: as if one right and one wrong node had been added."""
    confidence = softmax(gaps, axis=1).max(axis=1)
    return float(((1.0 - confidence).sum() + 1.0) / (len(gaps) + 2.0))


def bias_unit(model: Model, nodes: Nodes) -> float:
    """What selection bias is counted in: error rate × (c − b) / (1 − b) / nodes.

    c is the mean confidence, b that of the class frequencies alone, which cannot look better.
    """
    base = float(model.frequencies.max())
    mean = float(model.probabilities(nodes).amax(dim=1).mean())
    share = max(mean - base, 0.0) / (1.0 - base)
    return error_rate(nodes.gaps.double().numpy()) * share


def level_for(model: Model, nodes: Nodes, drop: float) -> float:
    """The common factor of all scores that lowers the mean confidence of some nodes by ``drop``."""
    scores = model.scores(nodes).double().numpy()

    def mean(factor: float) -> float:
        return float(softmax(factor * scores, axis=1).max(axis=1).mean())

    # A quarter of the way to the class frequencies is the most that selection bias may take.
    start, base = mean(1.0), float(model.frequencies.max())
    target = start - min(drop / (1.0 - model.uniform), max(start - base, 0.0) / 4.0)
    if drop <= 0 or mean(LOWEST_LEVEL) >= target:
        return 1.0 if drop <= 0 else LOWEST_LEVEL
    return float(brentq(lambda factor: mean(factor) - target, LOWEST_LEVEL, 1.0, xtol=1e-9))


def correction(model: Model, nodes: Nodes, y: Ints, evidence: Sequence[Tensor]) -> dict[str, Any]:
    """How far late labels move the scores of a fitted model: s' = e^a s + Σ_t c_t C_t + b.

    ``evidence`` is C of `LATE_TERMS`; a, b, c and the log-odds of the uniform mixture are normal.
    Shrunk by the probability that there is drift, by Laplace evidence against no change.
    """
    likelihood = _Likelihood(Nodes.bare(model.scores(nodes).double(), evidence), y)
    likelihood.frequencies = model.frequencies
    stays, variance = np.zeros(likelihood.size), np.ones(likelihood.size)
    stays[-1] = logit(max(model.uniform, 1e-6))
    mean = stays.copy()
    mean[-1] = max(stays[-1], LATE_UNIFORM)
    variance[0], variance[-1] = LATE_SCALE_WIDTH**2, LATE_UNIFORM_WIDTH**2
    variance[likelihood.places] = np.square([*LATE_TERMS.values()])[: len(evidence)]
    start, told, found = (stays, *likelihood(stays)), [], []
    odds = _log_half_cauchy(np.array(LATE_WIDTHS), LATE_TYPICAL)
    for width in LATE_WIDTHS:
        wide = likelihood.with_widths(variance, 1.0, width)
        at, value, slope, hessian = _minimum(likelihood, mean, wide, start)
        curved = at, value, slope, _positive(hessian)
        told.append(_log_evidence(*curved, mean, wide))
        found.append(at)
    weights = odds + told
    gain = float(logsumexp(weights) - logsumexp(odds) + start[1])
    drifted = float(expit(math.log(DRIFT_ODDS) + gain))
    at = stays + drifted * (softmax(weights) @ np.array(found) - stays)
    scale, *_, again, intercepts, uniform = np.split(at, np.cumsum(likelihood.sizes))
    return {
        "scale": float(scale[0]),
        "evidence": again,
        "intercepts": intercepts,
        "uniform": float(expit(uniform[0])),
        "drifted": drifted,
        "labels": len(y),
    }


def corrected(
    model: Model, nodes: Nodes, late: dict[str, Any], evidence: Sequence[Tensor]
) -> tuple[Model, Nodes]:
    """The model of the scores of ``model`` that a `correction` has found, and what it sees."""
    bare = Model.bare(model.frequencies, late["uniform"])
    change = replace(
        bare, scale=late["scale"], classes=late["evidence"], intercepts=late["intercepts"]
    )
    return change, Nodes.bare(model.scores(nodes), evidence)


def advice(found: dict[str, Any]) -> str:
    """Why a refit is better than an update, or ""."""
    if found["labels"] < REFIT_LABELS or found["drifted"] < REFIT_DRIFT:
        return ""
    return (
        f"{found['labels']} late labels show drift (probability {found['drifted']:.0%}): the level "
        "was corrected, but a refit on calibration nodes that include them is better"
    )


def _nothing(names: tuple[str, ...]) -> Coefficients:
    """No evidence."""
    location = {**dict.fromkeys(names, 0.0), "uniform": -np.inf}
    return Coefficients(location, dict.fromkeys(location, EXACT))


def _fit_case(
    objective: _Likelihood,
    names: tuple[str, ...],
    belief: Coefficients,
    start: Floats | None = None,
) -> tuple[float, Floats]:
    """Log evidence and parameters with one belief; widths of intercepts and groups by evidence."""
    mean, variance = objective.prior(names, belief)
    at = mean if start is None else np.append(start[:-1], mean[-1])
    where = (at, *objective(at))
    groups = GROUP_WIDTHS if objective.sizes[2] else (1.0,)
    grid = np.array(list(product(groups, INTERCEPT_WIDTHS)))
    odds = _log_half_cauchy(grid[:, 1], INTERCEPTS_TYPICAL)
    if objective.sizes[2]:
        odds += _log_half_cauchy(grid[:, 0], GROUPS_TYPICAL)
    widths = np.array([GROUPS_TYPICAL, INTERCEPTS_TYPICAL])
    for _ in range(WIDTH_PASSES):
        variances = objective.with_widths(variance, *widths)
        where = _minimum(objective, mean, variances, where, ROUGHLY)
        curved = (*where[:3], _positive(where[3]), mean)
        told = [_log_evidence(*curved, objective.with_widths(variance, *pair)) for pair in grid]
        evidence = odds + told
        before, widths = widths, np.exp(softmax(evidence) @ np.log(grid))
        if np.abs(np.log(widths / before)).max() < WIDTHS_SETTLED:
            break
    where = _minimum(objective, mean, objective.with_widths(variance, *widths), where)
    return float(logsumexp(evidence)), where[0]


def _log_half_cauchy(width: Any, typical: float) -> Any:
    return np.log(width) - np.log1p((width / typical) ** 2)  # on an even grid of logarithms


def _log_evidence(
    at: Floats, value: float, slope: Floats, hessian: Floats, mean: Floats, variance: Floats
) -> float:
    """log ∫ likelihood × normal prior, the likelihood being e^−(value + slope δ + δᵀHδ / 2)."""
    precision = hessian + np.diag(1.0 / variance)
    best = np.linalg.solve(precision, hessian @ at - slope + mean / variance)
    away = best - at
    cost = value + slope @ away + 0.5 * away @ hessian @ away
    cost += 0.5 * float(((best - mean) ** 2 / variance).sum())
    return -float(cost + 0.5 * np.linalg.slogdet(precision)[1] + 0.5 * np.log(variance).sum())


class _Likelihood:
    """−log likelihood of the parameters: value, gradient, Hessian.

    They stand in the order θ, a [j], u [G], b [h], e [K], log-odds of the uniform mixture. With
    F_i = (e^η g_i, C_i1, …, 1) [K × (1 + h + K)], d = F[y] − E_p F and ρ = (1 − w) p_y / q_y:
    ∇ log q = ρ d, ∇² log q = ρ (e₀e₀ᵀ d₀ − Cov_p F) + ρ (1 − ρ) d dᵀ in (η, b, e); η is linear.
    """

    def __init__(self, nodes: Nodes, y: Ints, counts: Floats | None = None) -> None:
        self.counts = np.ones(len(y)) if counts is None else counts
        self.gaps = nodes.gaps.double().numpy()
        self.unit = 2.0 * math.log(error_rate(self.gaps))
        self.y, self.classes = y, [part.double().numpy() for part in nodes.classes]
        exponents, k = nodes.exponents.double().numpy(), self.gaps.shape[1]
        self.x = np.concatenate([np.ones((len(y), 1)), exponents, nodes.groups], axis=1)
        self.sizes = [1, exponents.shape[1], nodes.groups.shape[1], len(nodes.classes), k]
        self.eta, self.size = self.x.shape[1], sum(self.sizes) + 1
        of_classes = range(self.eta, self.eta + len(nodes.classes))
        self.places = [*range(1, 1 + self.sizes[1]), *of_classes]
        """Where coefficients of terms stand."""
        self.frequencies: Floats = np.full(k, 1 / k)

    def prior(self, names: tuple[str, ...], belief: Coefficients) -> tuple[Floats, Floats]:
        """Mean and variance of all parameters, but for groups and intercepts."""
        mean, variance = np.zeros(self.size), np.ones(self.size)
        variance[0] = SCALE_WIDTH**2
        for place, name in zip(self.places, names, strict=True):
            mean[place], variance[place] = belief.location[name], belief.spread[name] ** 2
        mean[-1] = max(belief.location["uniform"] + self.unit, NO_WEIGHT)
        variance[-1] = belief.spread["uniform"] ** 2
        return mean, variance

    def with_widths(self, variance: Floats, groups: float, intercepts: float) -> Floats:
        """Variances with those of groups and intercepts."""
        found = variance.copy()
        found[1 + self.sizes[1] : self.eta] = groups**2
        found[self.eta + self.sizes[3] : -1] = intercepts**2
        return found

    def expected(self, at: Floats) -> Floats:
        """Mean probabilities of the classes, without evidence, as if a blank node were added."""
        j, h = self.eta, self.sizes[3]
        scores = np.exp(self.x @ at[:j])[:, None] * self.gaps + at[j + h : -1]
        total: Floats = self.counts @ softmax(scores, axis=1)
        return (total + 1.0 / len(total)) / (float(self.counts.sum()) + 1.0)

    def __call__(self, at: Floats) -> tuple[float, Floats, Floats]:
        x, y, j, (h, k), m = self.x, self.y, self.eta, self.sizes[3:], len(self.y)
        weight = float(expit(at[-1]))
        f = np.empty((1 + h, m, k))
        f[0] = np.exp(np.clip(x @ at[:j], -12.0, 12.0))[:, None] * self.gaps
        scores = f[0] + at[j + h : -1]
        for place, part in enumerate(self.classes):
            f[place + 1] = part
            scores += at[j + place] * part
        p, each = softmax(scores, axis=1), np.arange(m)
        own = p[each, y]
        expected = self.frequencies[y]
        q = np.maximum((1.0 - weight) * own + weight * expected, 1e-300)
        share = (1.0 - weight) * own / q
        rest = share * (1.0 - share)
        weighted = f * p
        mean = weighted.sum(axis=2).T
        d = np.empty((m, 1 + h + k))
        d[:, : 1 + h] = f[:, each, y].T - mean
        d[:, 1 + h :] = -p
        d[each, 1 + h + y] += 1.0
        first = np.empty_like(d)
        first[:, : 1 + h] = (weighted * f[0]).sum(axis=2).T - mean[:, :1] * mean
        first[:, 1 + h :] = p * (f[0] - mean[:, :1])
        slope_w = weight * (1.0 - weight)
        gap = (expected - own) * slope_w / q
        both = self.counts * (own * slope_w / q + gap * share)
        bend_w = self.counts @ (gap * gap - gap * (1.0 - 2.0 * weight))
        gap, share, rest = self.counts * gap, self.counts * share, self.counts * rest
        cross = (rest * d[:, 0])[:, None] * d - share[:, None] * first
        cross[:, 0] += share * d[:, 0]
        slopes = share[:, None] * d
        slope = np.concatenate([-x.T @ slopes[:, 0], -slopes[:, 1:].sum(axis=0), [-gap.sum()]])
        hessian = np.empty((self.size, self.size))
        hessian[:j, :j] = -x.T @ (cross[:, :1] * x)
        hessian[:j, j:-1] = -x.T @ cross[:, 1:]
        hessian[j:-1, :j] = hessian[:j, j:-1].T
        flat = weighted[1:] * share[:, None]
        inner = np.empty((h + k, h + k))
        means = mean[:, 1:] * share[:, None]
        inner[:h, :h] = np.tensordot(flat, f[1:], axes=((1, 2), (1, 2))) - mean[:, 1:].T @ means
        inner[:h, h:] = flat.sum(axis=1) - means.T @ p
        inner[h:, :h] = inner[:h, h:].T
        inner[h:, h:] = np.diag(share @ p) - (p * share[:, None]).T @ p
        hessian[j:-1, j:-1] = inner - d[:, 1:].T @ (rest[:, None] * d[:, 1:])
        hessian[-1, :j] = x.T @ (both * d[:, 0])
        hessian[-1, j:-1] = both @ d[:, 1:]
        hessian[:-1, -1] = hessian[-1, :-1]
        hessian[-1, -1] = bend_w
        return -float(self.counts @ np.log(q)), slope, hessian


def _minimum(
    objective: _Likelihood,
    mean: Floats,
    variance: Floats,
    start: tuple[Floats, float, Floats, Floats],
    settled: float = SETTLED,
) -> tuple[Floats, float, Floats, Floats]:
    """Newton's method, damped until the posterior rises; where it ends, with the likelihood there.

    By hand: value, slope and Hessian come from one pass, where SciPy asks for each in turn.
    """
    at, now = start[0], start[1:]
    for _ in range(PASSES):
        away = at - mean
        value = now[0] + 0.5 * float(away @ (away / variance))
        slope = now[1] + away / variance
        curvature, axes = np.linalg.eigh(now[2] + np.diag(1.0 / variance))
        step = -axes @ ((axes.T @ slope) / np.maximum(np.abs(curvature), 1e-6))
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        for _ in range(HALVINGS):
            after, away = objective(at + step), at + step - mean
            if after[0] + 0.5 * float(away @ (away / variance)) <= value + 1e-9:
                break
            step = step / 2.0
        else:
            break
        at, now = at + step, after
        if np.abs(step).max() < settled:
            return at, *now
    last = f"its last step was {np.abs(step).max():.1g}"
    told = f"the fit did not settle ({last}); look at logits and labels"
    warnings.warn(told, CalibrationWarning, stacklevel=2)
    return at, *now


def _positive(hessian: Floats) -> Floats:
    """The nearest matrix without negative curvature, which a mixture's likelihood may have."""
    curvature, axes = np.linalg.eigh(hessian)
    found: Floats = (axes * np.maximum(curvature, 1e-8)) @ axes.T
    return found
