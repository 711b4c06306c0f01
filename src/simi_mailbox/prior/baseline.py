"""What a calibrator assumes before it looks at groups: four numbers, fitted on all labels."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import Graph
from simi_mailbox.softmax import confidence, row_blocks, top_gaps

THETA_SPREAD = 3.0
"""In log(1/T), about temperature scaling: far too wide to matter, but nothing runs away."""
PASSES = 60
OLDER_NAMES = {
    "many": "log_degree",
    "few": "inverse_degree",
    "mean_many": "mean_log_degree",
    "mean_few": "mean_inverse_degree",
}
"""What older files of priors and calibrators call the effects of the degree."""
SETTLED = 1e-4
"""A Newton step below this leaves an error of about its square: no further look is needed."""


@dataclass(frozen=True)
class Baseline:
    """One temperature that depends on the degree, and a share of blind guesses.

        p_i = (1 − blind) softmax(z_i / T_i) + blind / K
        log T_i = log T − log_degree · log(1 + degree_i) − inverse_degree / (1 + degree_i)

    relative to the mean node. Temperature scaling is ``log_degree = inverse_degree = blind = 0``.
    Where ``inverse_degree`` is negative, nodes with hardly a neighbour are less sure. The blind
    share is the part of nodes on which even a sure model is wrong: a temperature cannot say that,
    because it lets sure nodes become certain.

    Examples
    --------
    >>> path = Graph.from_edges([[0, 1], [1, 2]])
    >>> z = torch.tensor([[9.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> lonely = Baseline(temperature=1.0, inverse_degree=-1.0, mean_inverse_degree=0.5)
    >>> lonely.scale(path).round(decimals=2).tolist()
    [1.0, 1.18, 1.0]
    >>> Baseline(temperature=1.0, blind=0.1).confidence(z, path).round(decimals=2).tolist()
    [0.95, 0.71, 0.71]
    """

    temperature: float
    log_degree: float = 0.0
    inverse_degree: float = 0.0
    blind: float = 0.0
    mean_log_degree: float = 0.0
    mean_inverse_degree: float = 0.0

    @classmethod
    def read(cls, fields: Mapping[str, float]) -> Baseline:
        """From the fields of a saved calibrator."""
        return cls(**{OLDER_NAMES.get(name, name): value for name, value in fields.items()})

    def scale(self, graph: Graph) -> Tensor:
        """What every node's logits are multiplied by, besides 1/T."""
        terms = degree_terms(graph) - torch.tensor([self.mean_log_degree, self.mean_inverse_degree])
        effects = torch.tensor([self.log_degree, self.inverse_degree], dtype=torch.float64)
        return torch.exp(terms @ effects)

    def confidence(self, logits: Tensor, graph: Graph) -> Tensor:
        """Largest probability of every node."""
        top = confidence(logits, self.temperature / self.scale(graph))
        return blend(top, self.blind, logits.shape[1])


def blend(probs: Tensor, blind: float, num_classes: int) -> Tensor:
    """(1 − blind) p + blind / K, in place; the order of classes stays."""
    return probs.mul_(1.0 - blind).add_(blind / num_classes) if blind else probs


def degree_terms(graph: Graph) -> Tensor:
    """log(1 + degree) and 1 / (1 + degree) of every node, [n, 2]."""
    more = graph.degree.double() + 1.0
    return torch.stack([more.log(), more.reciprocal()], dim=1)


@dataclass(frozen=True)
class Belief:
    """What is believed of a baseline before any label is seen: normal, independent.

    ``blind`` is the logarithm of the share relative to the squared error rate: a graph with half
    the errors has about a quarter of the blind guesses.
    """

    log_degree: float
    log_degree_spread: float
    inverse_degree: float
    inverse_degree_spread: float
    blind: float
    blind_spread: float


def fit_baseline(
    logits: Tensor, y: Tensor, terms: Tensor, temperature: float, belief: Belief
) -> tuple[Baseline, float]:
    """The likeliest baseline of labelled nodes, given what is believed beforehand.

    A damped Newton iteration in four numbers: log(1/T), the two effects of the degree, and the
    log-odds of the blind share. ``temperature`` is that of temperature scaling on the same nodes,
    ``terms`` are their `degree_terms`, centred.

    Returns
    -------
    Baseline
        With means zero: the caller knows what was subtracted.
    float
        The blind share as `Belief` counts it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = torch.from_numpy(rng.normal(size=(4000, 3)) * 4)
    >>> y = torch.from_numpy((z.numpy() + rng.gumbel(size=z.shape)).argmax(1))
    >>> y[:400] = torch.from_numpy(rng.integers(3, size=400))  # one in ten is blind
    >>> found, _ = fit_baseline(z, y, torch.zeros(4000, 2), 1.5, Belief(0, 1, 0, 1, 0, 5))
    >>> round(found.blind, 2), round(found.temperature, 1)
    (0.09, 1.1)
    """
    unit = 2.0 * float(np.log(error_rate(confidence(logits, temperature))))
    believed = belief.log_degree, belief.inverse_degree, belief.blind + unit
    spreads = belief.log_degree_spread, belief.inverse_degree_spread, belief.blind_spread
    middle = np.array([-np.log(temperature), *believed])
    objective = _Objective(logits, y, terms, middle, np.array([THETA_SPREAD, *spreads]) ** -2.0)
    theta, log_degree, inverse_degree, odds = _minimum(objective, middle).tolist()
    blind = float(1.0 / (1.0 + np.exp(-odds)))
    baseline = Baseline(float(np.exp(-theta)), log_degree, inverse_degree, blind)
    return baseline, odds - unit


def error_rate(confidences: Tensor) -> float:
    """Expected share of wrong nodes, never nought: as if one right and one wrong had been added."""
    return float(((1.0 - confidences).sum() + 1.0) / (len(confidences) + 2.0))


class _Objective:
    """−log likelihood − log prior of (θ, effects, log-odds of blind): value, gradient, Hessian."""

    def __init__(
        self, logits: Tensor, y: Tensor, terms: Tensor, middle: Floats, precision: Floats
    ) -> None:
        self.logits, self.y = logits, y
        self.x = torch.cat([torch.ones(len(y), 1), terms], dim=1).double()
        self.middle, self.precision = middle, precision

    def __call__(self, at: Floats) -> tuple[float, Floats, Floats]:
        weights, odds = torch.from_numpy(at[:-1]), float(at[-1])
        blind = 1.0 / (1.0 + np.exp(-odds))
        d_blind = blind * (1.0 - blind)
        guess = 1.0 / self.logits.shape[1]
        value, m = 0.0, len(at) - 1
        slope, hessian = np.zeros(m + 1), np.zeros((m + 1, m + 1))
        for rows in row_blocks(*self.logits.shape):
            x = self.x[rows]
            s = top_gaps(self.logits[rows]).mul_(torch.exp(x @ weights)[:, None])
            own = s.gather(1, self.y[rows, None]).squeeze(1)
            e = s.exp()
            total = e.sum(dim=1)
            p = own.exp() / total
            m1 = e.mul_(s).sum(dim=1) / total
            m2 = e.mul_(s).sum(dim=1) / total
            # p is the probability of the label under the temperature; d own / d θ = own.
            rise = own - m1
            d1 = p * rise
            d2 = d1 * rise + p * (rise - m2 + m1 * m1)
            q = ((1.0 - blind) * p + blind * guess).clamp_min_(1e-300)
            gap = (guess - p) * d_blind / q
            g1, g2 = (1.0 - blind) * d1 / q, (1.0 - blind) * d2 / q
            value -= float(q.log().sum())
            slope -= torch.cat([x.T @ g1, gap.sum()[None]]).numpy()
            hessian[:m, :m] += (x.T @ ((g1 * g1 - g2)[:, None] * x)).numpy()
            hessian[m, :m] += (x.T @ (g1 * gap + d_blind * d1 / q)).numpy()
            hessian[m, m] += float((gap * gap - gap * (1.0 - 2.0 * blind)).sum())
        hessian[:m, m] = hessian[m, :m]
        away = at - self.middle
        value += 0.5 * float(self.precision @ away**2)
        return value, slope + self.precision * away, hessian + np.diag(self.precision)


def _minimum(objective: _Objective, start: Floats) -> Floats:
    """Newton's method, damped until the value falls; curvature is made positive.

    By hand, because value, slope and Hessian come from one pass over the nodes, while SciPy's
    minimisers ask for each in turn.
    """
    at, step = start, np.full_like(start, np.inf)
    value, slope, hessian = objective(at)
    for _ in range(PASSES):
        curvature, axes = np.linalg.eigh(hessian)
        step = -axes @ ((axes.T @ slope) / np.maximum(np.abs(curvature), 1e-6))
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))  # at most two units a time
        if np.abs(step).max() < SETTLED and curvature.min() > 0:
            return np.asarray(at + step)
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
    return at
