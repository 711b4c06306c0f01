"""What a calibrator assumes before it looks at groups: a dozen numbers, fitted on all labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.prior.evidence import CLASSES, EXPONENTS
from simi_mailbox.softmax import row_blocks

THETA_SPREAD = 3.0
"""In log(1/T), about temperature scaling: far too wide to matter, but nothing runs away."""
FREEDOM = 3.0
"""Degrees of freedom of a belief's tails (Student): a graph unlike all others may say so."""
PASSES = 60
SETTLED = 1e-4
"""A Newton step below this leaves an error of about its square: no further look is needed."""
NOTHING = 1e-12
"""What a step may still gain, relative to the value: below it, numbers cannot tell."""
HOTTER, COLDER = -3.0, 2.0
"""How far a node's exponent may move, as a logarithm, where classes are kept."""
BEYOND = 1.0
"""By how much a node may be colder than under temperature scaling, however hot the baseline is."""
EXPONENT_PASSES = 12
EXPONENT_SETTLED = 1e-5
"""A step of Newton's below this leaves an error of about its square."""
ENOUGH = 4096
"""Labelled nodes on which a dozen numbers are known as well as they need to be."""


@dataclass(frozen=True)
class Baseline:
    """One temperature, what evidence changes in it, and a share of blind guesses.

        s_i = (T / T_i) (z_i − max z_i) / T + Σ_t b_t C_ti,   log(T / T_i) = θ + Σ_t a_t x_ti
        q_i = (1 − blind) softmax(s_i) + blind / K

    Temperature scaling is the case without terms and blind guesses. The blind share is the part of
    nodes on which even a sure model is wrong: a temperature cannot say that, because it lets sure
    nodes become certain.

    Attributes
    ----------
    temperature : float
        T e^−θ: of a node whose terms are all nought.
    blind : float
    terms : dict
        Coefficients, by the names of `simi_mailbox.prior.evidence`: a of EXPONENTS, b of CLASSES.
    trust : float
        Chance that the terms say anything at all on this graph; the coefficients have it in them.
    """

    temperature: float
    blind: float = 0.0
    terms: Mapping[str, float] = field(default_factory=dict)
    trust: float = 1.0

    @classmethod
    def read(cls, fields: Mapping[str, float]) -> Baseline:
        """From the fields of a saved calibrator."""
        terms = {name: float(fields[name]) for name in (*EXPONENTS, *CLASSES) if name in fields}
        trust = float(fields.get("trust", 1.0))
        return cls(float(fields["temperature"]), float(fields["blind"]), terms, trust)

    def fields(self) -> dict[str, float]:
        """All numbers in one table, for files."""
        numbers = {"temperature": self.temperature, "blind": self.blind, "trust": self.trust}
        return {**numbers, **self.terms}

    @property
    def classes(self) -> tuple[str, ...]:
        """Terms of classes."""
        return tuple(name for name in CLASSES if name in self.terms)

    def exponents(self, terms: Tensor, unit: float) -> Tensor:
        """log(T / T_i) of every node, relative to the temperature ``unit``."""
        weights = [self.terms.get(name, 0.0) for name in EXPONENTS]
        level = float(np.log(unit / self.temperature))
        return terms @ torch.tensor(weights, dtype=torch.float64) + level

    def scores(self, exponents: Tensor, gaps: Tensor, classes: Mapping[str, Tensor]) -> Tensor:
        """s of some nodes: `exponents`, (z − max z) / T, and the evidence of their classes."""
        found = gaps * exponents.exp().to(gaps.dtype)[:, None]
        for name, part in classes.items():
            found.add_(part, alpha=self.terms[name])
        return found


def blend(probs: Tensor, blind: float, num_classes: int) -> Tensor:
    """(1 − blind) p + blind / K, in place; the order of classes stays."""
    return probs.mul_(1.0 - blind).add_(blind / num_classes) if blind else probs


@dataclass(frozen=True)
class Belief:
    """What is believed of a baseline before any label is seen: independent, by name of the term.

    ``blind`` is the logarithm of the share relative to the squared error rate: a graph with half
    the errors has about a quarter of the blind guesses. Terms that are not believed in are none.

    Examples
    --------
    >>> Belief({"near": 1.0, "blind": -1.0}, {"near": 0.5, "blind": 0.3}).terms
    ('near',)
    """

    middle: Mapping[str, float]
    spread: Mapping[str, float]

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms, in the order of `evidence`."""
        return tuple(name for name in (*EXPONENTS, *CLASSES) if name in self.middle)


def fit_baseline(
    gaps: Tensor,
    exponents: Tensor,
    classes: Mapping[str, Tensor],
    y: Tensor,
    temperature: float,
    belief: Belief,
    freedom: float | None = FREEDOM,
    doubt: bool = False,
) -> tuple[Baseline, float]:
    """The likeliest baseline of labelled nodes, given what is believed beforehand.

    A damped Newton iteration in a dozen numbers at most: log(1/T), the terms, and the log-odds of
    the blind share. Beliefs in terms have the tails of Student's t with ``freedom`` degrees (None:
    normal), so that labels can overrule other graphs. In ``doubt``, that no term says anything is
    as likely beforehand as that all of them do: see `_doubted`.

    Parameters
    ----------
    gaps : Tensor [m, K]
        (z − max z) / ``temperature``, which is that of temperature scaling.
    exponents : Tensor [m, 3], classes : dict of Tensor [m, K]
        The evidence on these nodes.
    y : Tensor [m]
        Their labels.

    Returns
    -------
    Baseline
    float
        The blind share as `Belief` counts it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = torch.from_numpy(rng.normal(size=(4000, 3)) * 4)
    >>> y = torch.from_numpy((z.numpy() + rng.gumbel(size=z.shape)).argmax(1))
    >>> y[:400] = torch.from_numpy(rng.integers(3, size=400))  # one in ten is blind
    >>> gaps = (z - z.amax(dim=1, keepdim=True)) / 1.5
    >>> loose = Belief({"blind": 0.0}, {"blind": 5.0})
    >>> found, _ = fit_baseline(gaps, torch.zeros(4000, 3), {}, y, 1.5, loose)
    >>> round(found.blind, 2), round(found.temperature, 1)
    (0.09, 1.1)
    """
    unit = 2.0 * float(np.log(error_rate(gaps.double().softmax(dim=1).amax(dim=1))))
    names = belief.terms
    middle = np.array([0.0, *(belief.middle[name] for name in names), belief.middle["blind"]])
    spread = np.array([THETA_SPREAD, *(belief.spread[name] for name in names)])
    spread = np.append(spread, belief.spread["blind"])
    middle[-1] += unit
    tails = np.zeros(len(middle), dtype=bool)
    tails[1:-1] = freedom is not None
    columns = [EXPONENTS.index(name) for name in names if name in EXPONENTS]
    x = torch.cat([torch.ones(len(y), 1), exponents[:, columns]], dim=1).double().numpy()
    stack = [classes[name].numpy() for name in names if name in CLASSES]
    belief_in = _Belief(middle, spread, tails, freedom or FREEDOM)
    objective = _Objective(gaps.numpy(), x, stack, y.numpy(), belief_in)
    at, hessian = _minimum(objective, middle)
    hessian += np.diag(belief_in.slack(at))  # never negative, as a covariance must be
    at, trust = _doubted(at, hessian, belief_in) if doubt and tails.any() else (at, 1.0)
    theta, *found, odds = at.tolist()
    blind = float(1.0 / (1.0 + np.exp(-odds)))
    terms = dict(zip(names, found, strict=True))
    return Baseline(temperature * float(np.exp(-theta)), blind, terms, trust), odds - unit


def enough(index: Tensor, sure: Tensor) -> Tensor:
    """All of these labelled nodes, or `ENOUGH` of them, spread evenly over their confidence.

    Chosen by confidence and not by number, so that names of nodes do not matter.

    Examples
    --------
    >>> len(enough(torch.arange(20_000), torch.rand(20_000)))
    4096
    """
    if len(index) <= ENOUGH:
        return index
    places = torch.linspace(0, len(index) - 1, ENOUGH, dtype=torch.float64).round().long()
    return index[sure[index].argsort()[places]]


def error_rate(confidences: Tensor) -> float:
    """Expected share of wrong nodes, never nought: as if one right and one wrong had been added."""
    return float(((1.0 - confidences).sum() + 1.0) / (len(confidences) + 2.0))


@dataclass(frozen=True)
class _Belief:
    """−log of a prior density: normal, or Student's t where there are ``tails``."""

    middle: Floats
    spread: Floats
    tails: Bools
    freedom: float

    def __call__(self, at: Floats) -> tuple[float, Floats, Floats]:
        """Value, slope and curvature, which is negative far out in the tails."""
        away, ratio = self._ratio(at)
        wide = 0.5 * (self.freedom + 1.0) * np.log1p(away**2 / self.freedom)
        value = float(np.where(self.tails, wide, 0.5 * away**2).sum())
        bend = 2.0 * self.tails * (ratio * away) ** 2 / (self.freedom + 1.0)
        return value, ratio * away / self.spread, (ratio - bend) / self.spread**2

    def slack(self, at: Floats) -> Floats:
        """What the curvature lacks to that of a normal density with the same slope there."""
        away, ratio = self._ratio(at)
        return 2.0 * self.tails * (ratio * away / self.spread) ** 2 / (self.freedom + 1.0)

    def _ratio(self, at: Floats) -> tuple[Floats, Floats]:
        away = (at - self.middle) / self.spread
        return away, np.where(self.tails, (self.freedom + 1.0) / (self.freedom + away**2), 1.0)

    def density_of_none(self) -> float:
        """log of the density of all numbers with ``tails`` being nought."""
        away, half = self.middle[self.tails] / self.spread[self.tails], (self.freedom + 1.0) / 2.0
        constant = math.lgamma(half) - math.lgamma(half - 0.5)
        constant -= 0.5 * math.log(math.pi * self.freedom)
        each = constant - half * np.log1p(away**2 / self.freedom) - np.log(self.spread[self.tails])
        return float(each.sum())


class _Objective:
    """−log likelihood − log prior of (θ, terms, log-odds of blind): value, gradient, Hessian.

    With F_i = (e^η g_i, C_i1, …) [K × (1 + h)], d = F[y] − E_p F and ρ = (1 − blind) p_y / q_y:
    ∇ log q = ρ d, ∇² log q = ρ (e₀e₀ᵀ d₀ − Cov_p F) + ρ (1 − ρ) d dᵀ in (η, b), and η is linear.
    """

    def __init__(self, gaps: Floats, x: Floats, stack: list[Floats], y: Ints, belief: _Belief):
        self.gaps, self.x, self.stack, self.y, self.belief = gaps, x, stack, y, belief

    def __call__(self, at: Floats) -> tuple[float, Floats, Floats]:
        m = len(at)
        j, h, k = self.x.shape[1], len(self.stack), self.gaps.shape[1]
        blind = 1.0 / (1.0 + np.exp(-at[-1]))
        d_blind = blind * (1.0 - blind)
        value, slope, hessian = 0.0, np.zeros(m), np.zeros((m, m))
        for rows in row_blocks(len(self.y), k * (h + 2)):
            x, y = self.x[rows], self.y[rows]
            f = np.empty((len(y), h + 1, k))
            f[:, 0] = np.exp(x @ at[:j])[:, None] * self.gaps[rows]
            for place, part in enumerate(self.stack):
                f[:, place + 1] = part[rows]
            s = f[:, 0] + np.tensordot(f[:, 1:], at[j:-1], axes=(1, 0))
            p = np.exp(s - s.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
            each = np.arange(len(y))
            own = p[each, y]
            weighted = f * p[:, None, :]
            mean = weighted.sum(axis=2)
            d = f[each, :, y] - mean
            q = np.maximum((1.0 - blind) * own + blind / k, 1e-300)
            share = (1.0 - blind) * own / q
            rest = share * (1.0 - share)
            slopes = share[:, None] * d
            first = np.matmul(weighted, f[:, 0, :, None])[:, :, 0] - mean[:, :1] * mean
            cross = (rest * d[:, 0])[:, None] * d - share[:, None] * first
            cross[:, 0] += share * d[:, 0]
            value -= float(np.log(q).sum())
            slope[:j] -= x.T @ slopes[:, 0]
            slope[j:-1] -= slopes[:, 1:].sum(axis=0)
            hessian[:j, :j] -= x.T @ (cross[:, :1] * x)
            if h:
                hessian[:j, j:-1] -= x.T @ cross[:, 1:]
                weighted *= share[:, None, None]
                inner = np.tensordot(weighted[:, 1:], f[:, 1:], axes=((0, 2), (0, 2)))
                inner -= mean[:, 1:].T @ (share[:, None] * mean[:, 1:])
                hessian[j:-1, j:-1] += inner - d[:, 1:].T @ (rest[:, None] * d[:, 1:])
            gap = (1.0 / k - own) * d_blind / q
            slope[-1] -= gap.sum()
            hessian[-1, -1] += (gap * gap - gap * (1.0 - 2.0 * blind)).sum()
            both = own * d_blind / q + gap * share
            hessian[-1, :j] += x.T @ (both * d[:, 0])
            hessian[-1, j:-1] += both @ d[:, 1:]
        hessian[j:-1, :j] = hessian[:j, j:-1].T
        hessian[:-1, -1] = hessian[-1, :-1]
        more, away, curvature = self.belief(at)
        return value + more, slope + away, hessian + np.diag(curvature)


def _doubted(at: Floats, hessian: Floats, belief: _Belief) -> tuple[Floats, float]:
    """The mean over two models, all terms or none, and the chance of the first.

    Terms that the labels say nothing about cost likelihood, ten numbers fitted on chance. The odds
    of "none" are by how much the labels have raised the density of nought (Savage and Dickey),
    with the normal approximation of the posterior, and one to one beforehand. Where the terms are
    none, the other numbers are what they would be then.
    """
    terms = belief.tails
    covariance = np.linalg.pinv(hessian, hermitian=True)
    own = covariance[np.ix_(terms, terms)]
    pull = np.linalg.solve(own, at[terms])
    log_here = -0.5 * float(at[terms] @ pull + np.linalg.slogdet(2.0 * np.pi * own)[1])
    trust = 1.0 / (1.0 + math.exp(min(log_here - belief.density_of_none(), 700.0)))
    return at - (1.0 - trust) * covariance[:, terms] @ pull, trust


def _minimum(objective: _Objective, start: Floats) -> tuple[Floats, Floats]:
    """Newton's method, damped until the value falls; curvature is made positive. And the Hessian.

    By hand, because value, slope and Hessian come from one pass over the nodes, while SciPy's
    minimisers ask for each in turn.
    """
    at, step = start, np.full_like(start, np.inf)
    value, slope, hessian = objective(at)
    for _ in range(PASSES):
        curvature, axes = np.linalg.eigh(hessian)
        step = -axes @ ((axes.T @ slope) / np.maximum(np.abs(curvature), 1e-6))
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))  # at most two units a time
        little = abs(float(slope @ step)) <= NOTHING * (1.0 + abs(value))
        if (np.abs(step).max() < SETTLED or little) and curvature.min() > 0:
            return np.asarray(at + step), hessian
        for _ in range(PASSES):
            following = objective(at + step)
            if following[0] <= value:
                break
            step = step / 2
        else:
            break
        at, (value, slope, hessian) = at + step, following
    warnings.warn(
        f"the baseline did not settle (its last step was {np.abs(step).max():.1g}); look at logits "
        "and labels, or use prior=None",
        CalibrationWarning,
        stacklevel=2,
    )
    return at, axes @ (np.maximum(np.abs(curvature), 1e-6)[:, None] * axes.T)


def promise(gaps: Tensor, scores: Tensor) -> Tensor:
    """What scores say of the class that is predicted, which they may think little of.

    Examples
    --------
    >>> promise(torch.tensor([[-1.0, 0.0]]), torch.tensor([[3.0, 3.0]])).tolist()
    [0.5]
    """
    return scores.softmax(dim=1).gather(1, gaps.argmax(dim=1, keepdim=True))[:, 0]


def nearest_exponents(gaps: Tensor, exponents: Tensor, scores: Tensor) -> Tensor:
    """log(T / T_i) at which softmax((T / T_i) gaps_i) is nearest to softmax(scores_i).

    In the sense of Kullback and Leibler. Its gap to nought rises with the exponent, so that
    Newton's method inside a bracket around ``exponents`` finds it. It is a temperature: classes
    keep their order.

    Examples
    --------
    >>> gaps = torch.tensor([[0.0, -1.0, -3.0]], dtype=torch.float64)
    >>> nearest_exponents(gaps, torch.zeros(1), 2 * gaps).exp().round(decimals=6).tolist()
    [2.0]
    """
    gaps, q = gaps.double(), scores.double().softmax(dim=1)
    found, todo = exponents.double().clone(), torch.arange(len(gaps))
    x0 = gaps * found.exp().to(gaps.dtype)[:, None]
    target = (q * x0).sum(dim=1)
    x = torch.zeros(len(gaps), dtype=gaps.dtype)
    low, high = torch.full_like(x, HOTTER), (BEYOND - found).clamp(min=COLDER)
    moving = torch.ones(len(x), dtype=torch.bool)
    for _ in range(EXPONENT_PASSES):
        beta = x.exp()
        weight = (x0 * beta[:, None]).exp_()  # the largest is 1: so are gaps
        total = weight.sum(dim=1)
        mean = weight.mul_(x0).sum(dim=1).div_(total)
        square = weight.mul_(x0).sum(dim=1).div_(total)
        slope = (square - mean * mean).mul_(beta).clamp_(min=1e-12)
        gap = mean - target
        low, high = torch.where(gap < 0, x, low), torch.where(gap > 0, x, high)
        following = x - gap / slope
        inside = (following > low) & (following < high)
        following = torch.where(inside, following, (low + high) / 2)
        following = torch.where(moving & (gap != 0), following, x)
        moving &= (following - x).abs() > EXPONENT_SETTLED  # a node's end is its own affair
        x = following
        if not moving.any():
            break
        if moving.sum() < len(moving) // 2:
            found[todo[~moving]] += x[~moving].double()
            todo, x0, x = todo[moving], x0[moving], x[moving]
            target, low, high = target[moving], low[moving], high[moving]
            moving = moving[moving]
    found[todo] += x.double()
    return found
