"""What a calibrator assumes before it looks at groups: three numbers, fitted on all labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simi_mailbox.graph import Graph
from simi_mailbox.softmax import confidence, row_blocks, top_gaps

Floats = npt.NDArray[np.float64]

THETA_SPREAD = 3.0
"""In log(1/T), about temperature scaling: far too wide to matter, but nothing runs away."""
PASSES = 60
SETTLED = 1e-4
"""A Newton step below this leaves an error of about its square: no further look is needed."""


@dataclass(frozen=True)
class Baseline:
    """One temperature that depends on the degree, and a share of blind guesses.

        p_i = (1 − blind) softmax(z_i / T_i) + blind / K
        log T_i = log T − effect · (log(1 + degree_i) − mean_log_degree)

    Temperature scaling is ``effect = blind = 0``. A positive effect makes nodes with many
    neighbours surer. The blind share is the part of nodes on which even a sure model is wrong: a
    temperature cannot say that, because it lets sure nodes become certain.

    Examples
    --------
    >>> path = Graph.from_edges([[0, 1], [1, 2]])
    >>> z = torch.tensor([[9.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> Baseline(temperature=1.0, effect=0.5, mean_log_degree=np.log(2)).scale(path).tolist()
    [1.0, 1.2247448713915892, 1.0]
    >>> Baseline(temperature=1.0, blind=0.1).confidence(z, path).round(decimals=2).tolist()
    [0.95, 0.71, 0.71]
    """

    temperature: float
    effect: float = 0.0
    mean_log_degree: float = 0.0
    blind: float = 0.0

    def scale(self, graph: Graph) -> Tensor:
        """What every node's logits are multiplied by, besides 1/T."""
        return torch.exp(self.effect * (log_degree(graph) - self.mean_log_degree))

    def confidence(self, logits: Tensor, graph: Graph) -> Tensor:
        """Largest probability of every node."""
        top = confidence(logits, self.temperature / self.scale(graph))
        return blend(top, self.blind, logits.shape[1])


def blend(probs: Tensor, blind: float, num_classes: int) -> Tensor:
    """(1 − blind) p + blind / K, in place; the order of classes stays."""
    return probs.mul_(1.0 - blind).add_(blind / num_classes) if blind else probs


def log_degree(graph: Graph) -> Tensor:
    """log(1 + degree) of every node."""
    return graph.degree.double().log1p()


@dataclass(frozen=True)
class Belief:
    """What is believed of effect and blind share before any label is seen: normal, independent.

    ``blind`` is the logarithm of the share relative to the squared error rate: a graph with half
    the errors has about a quarter of the blind guesses.
    """

    effect: float
    effect_spread: float
    blind: float
    blind_spread: float


def fit_baseline(
    logits: Tensor, y: Tensor, log_degrees: Tensor, temperature: float, belief: Belief
) -> tuple[Baseline, float]:
    """The likeliest baseline of labelled nodes, given what is believed beforehand.

    A damped Newton iteration in three numbers: log(1/T), effect and the log-odds of the blind
    share. ``temperature`` is that of temperature scaling on the same nodes, ``log_degrees`` are
    centred.

    Returns
    -------
    Baseline
        With ``mean_log_degree`` zero: the caller knows what was subtracted.
    float
        The blind share as `Belief` counts it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = torch.from_numpy(rng.normal(size=(4000, 3)) * 4)
    >>> y = torch.from_numpy((z.numpy() + rng.gumbel(size=z.shape)).argmax(1))
    >>> y[:400] = torch.from_numpy(rng.integers(3, size=400))  # one in ten is blind
    >>> found, _ = fit_baseline(z, y, torch.zeros(4000), 1.5, Belief(0, 1, 0, 5))
    >>> round(found.blind, 2), round(found.temperature, 1)
    (0.09, 1.1)
    """
    unit = 2.0 * float(np.log(error_rate(confidence(logits, temperature))))
    middle = np.array([-np.log(temperature), belief.effect, belief.blind + unit])
    precision = np.array([THETA_SPREAD, belief.effect_spread, belief.blind_spread]) ** -2.0
    objective = _Objective(logits, y, log_degrees.double(), middle, precision)
    found = _minimum(objective, middle)
    blind = float(1.0 / (1.0 + np.exp(-found[2])))
    baseline = Baseline(float(np.exp(-found[0])), float(found[1]), 0.0, blind)
    return baseline, float(found[2] - unit)


def error_rate(confidences: Tensor) -> float:
    """Expected share of wrong nodes, never nought: as if one right and one wrong had been added."""
    return float(((1.0 - confidences).sum() + 1.0) / (len(confidences) + 2.0))


class _Objective:
    """−log likelihood − log prior: value, gradient [3] and Hessian [3, 3]."""

    def __init__(self, logits: Tensor, y: Tensor, x: Tensor, middle: Floats, precision: Floats):
        self.logits, self.y, self.x = logits, y, x
        self.middle, self.precision = middle, precision

    def __call__(self, at: Floats) -> tuple[float, Floats, Floats]:
        theta, effect, odds = (float(v) for v in at)
        blind = 1.0 / (1.0 + np.exp(-odds))
        d_blind = blind * (1.0 - blind)
        guess = blind / self.logits.shape[1]
        value, moments = 0.0, torch.zeros(3, 3, dtype=torch.float64)
        first, cross = torch.zeros(3, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
        for rows in row_blocks(*self.logits.shape):
            x = self.x[rows]
            s = top_gaps(self.logits[rows]).mul_(torch.exp(theta + effect * x)[:, None])
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
            q = ((1.0 - blind) * p + guess).clamp_min_(1e-300)
            gap = (1.0 / self.logits.shape[1] - p) * d_blind / q
            g1, g2 = (1.0 - blind) * d1 / q, (1.0 - blind) * d2 / q
            value -= float(q.log().sum())
            first += torch.stack([-g1.sum(), -(g1 * x).sum(), -gap.sum()])
            curve = g1 * g1 - g2
            mixed = g1 * gap + d_blind * d1 / q
            bend = gap * gap - gap * (1.0 - 2.0 * blind)
            moments[0, 0] += curve.sum()
            moments[0, 1] += (curve * x).sum()
            moments[1, 1] += (curve * x * x).sum()
            moments[2, 2] += bend.sum()
            cross += torch.stack([mixed.sum(), (mixed * x).sum()])
        hessian = moments.numpy()
        hessian[1, 0] = hessian[0, 1]
        hessian[2, :2] = hessian[:2, 2] = cross.numpy()
        away = at - self.middle
        value += 0.5 * float(self.precision @ away**2)
        return value, first.numpy() + self.precision * away, hessian + np.diag(self.precision)


def _minimum(objective: _Objective, start: Floats) -> Floats:
    """Newton's method, damped until the value falls; curvature is made positive."""
    at = start
    value, slope, hessian = objective(at)
    for _ in range(PASSES):
        curvature, axes = np.linalg.eigh(hessian)
        step = -axes @ ((axes.T @ slope) / np.maximum(np.abs(curvature), 1e-6))
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))  # at most two units a time
        if np.abs(step).max() < SETTLED and curvature.min() > 0:
            return at + step
        for _ in range(PASSES):
            following = objective(at + step)
            if following[0] <= value:
                break
            step = step / 2
        else:
            break
        at, (value, slope, hessian) = at + step, following
    return at
