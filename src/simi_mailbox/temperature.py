"""The exact solver: one temperature per group, all groups at once.

Every problem here is one-dimensional per group, because the temperature T_n of group n touches only
the nodes of group n. All are solved in θ = log(1/T), so that temperatures stay positive, inside a
bracket, so that they stay bounded, by a safeguarded Newton iteration, so that there is no learning
rate and nothing can diverge. One pass over the nodes serves all groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.exceptions import SolverError
from simi_mailbox.softmax import confidence, row_blocks, scaled_softmax, top_gaps

Function = Callable[[Floats], tuple[Floats, Floats]]
"""θ per group -> (value, slope) per group."""

COLDEST, HOTTEST = 1e-3, 1e2
"""Temperatures lie between these multiples of the logits' own scale (see `theta_bounds`)."""
GRID = 17
MAX_PASSES = 200
STEP_TOLERANCE = 1e-11
VALUE_TOLERANCE = 1e-15

__all__ = [
    "ConfidenceCurve",
    "CrossEntropy",
    "Solution",
    "confidence",
    "fit_confidence",
    "fit_cross_entropy",
    "fit_paper_loss",
    "global_temperature",
    "group_temperatures",
    "scaled_softmax",
    "theta_bounds",
]


@dataclass(frozen=True)
class Solution:
    """Temperatures of all groups, and which of them lie on a bound instead of at an optimum."""

    temperatures: Floats
    at_bound: Bools

    @property
    def theta(self) -> Floats:
        """log(1/T)."""
        return -np.log(self.temperatures)


def theta_bounds(logits: Tensor) -> tuple[float, float]:
    """Bracket for θ = log(1/T), relative to the mean gap between the top logit and the average.

    Relative bounds make calibration indifferent to the unit of the logits: calibrating 100 z gives
    the probabilities of calibrating z. At the cold end probabilities are 0 or 1 to rounding, at the
    hot end they are uniform to a hundredth.
    """
    total = 0.0
    n, k = logits.shape
    for rows in row_blocks(n, k):
        total -= float(top_gaps(logits[rows]).mean(dim=1).sum())
    gap = total / n
    unit = gap if gap > 1e-30 else 1.0
    return -float(np.log(HOTTEST * unit)), -float(np.log(COLDEST * unit))


class ConfidenceCurve:
    """Mean confidence of every group as a function of the group's θ, over all its nodes.

    ``scale``, if given, multiplies the logits of every node besides exp(θ).
    """

    def __init__(
        self, logits: Tensor, groups: Tensor, n_groups: int, scale: Tensor | None = None
    ) -> None:
        self.logits, self.groups, self.n_groups = logits, groups, n_groups
        self.scale = scale
        self.counts: Floats = torch.bincount(groups, minlength=n_groups).double().numpy()

    def __call__(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Mean confidence, first and second derivative by θ; zero for groups without node."""
        beta = torch.from_numpy(np.exp(theta))
        sums = torch.zeros(3, self.n_groups, dtype=torch.float64)
        for rows in row_blocks(*self.logits.shape):
            group = self.groups[rows]
            factor = beta[group] if self.scale is None else beta[group] * self.scale[rows]
            # c = 1/s0 with s0 = Σ_k exp(x_k) and x = β (z − max z); d x / d θ = x
            x = top_gaps(self.logits[rows]).mul_(factor[:, None])
            e = x.exp()
            top = e.sum(dim=1).reciprocal_()
            m1 = e.mul_(x).sum(dim=1).mul_(top)
            m2 = e.mul_(x).sum(dim=1).mul_(top)
            parts = torch.stack([top, -m1 * top, (2 * m1 * m1 - m1 - m2) * top])
            sums.index_add_(1, group, parts)
        value, d1, d2 = sums.numpy() / np.maximum(self.counts, 1.0)
        return value, d1, d2


class CrossEntropy:
    """Cross-entropy of the labelled nodes of every group as a function of the group's θ.

    Each group's value is its sum divided by the number of all labelled nodes, so that the groups'
    values add up to the mean cross-entropy.
    """

    def __init__(self, logits: Tensor, y: Tensor, groups: Tensor, n_groups: int) -> None:
        self.logits, self.y, self.groups, self.n_groups = logits, y, groups, n_groups

    def __call__(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Value, first and second derivative by θ."""
        beta = torch.from_numpy(np.exp(theta))
        sums = torch.zeros(3, self.n_groups, dtype=torch.float64)
        for rows in row_blocks(*self.logits.shape):
            group = self.groups[rows]
            x = top_gaps(self.logits[rows]).mul_(beta[group, None])
            target = x.gather(1, self.y[rows, None]).squeeze(1)
            e = x.exp()
            s0 = e.sum(dim=1)
            m1 = e.mul_(x).sum(dim=1) / s0
            m2 = e.mul_(x).sum(dim=1) / s0
            first = m1 - target
            sums.index_add_(1, group, torch.stack([s0.log() - target, first, first + m2 - m1 * m1]))
        value, d1, d2 = sums.numpy() / max(len(self.y), 1)
        return value, d1, d2


def fit_cross_entropy(
    logits: Tensor, y: Tensor, groups: Tensor, n_groups: int, bounds: tuple[float, float]
) -> Solution:
    """Minimise the cross-entropy of the labelled nodes in every group (convex in 1/T).

    Groups without labelled node, or whose labelled nodes have constant logits, get T = 1.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0]] * 4)
    >>> y = torch.tensor([0, 0, 0, 1])
    >>> one = torch.zeros(4, dtype=torch.int64)
    >>> fit_cross_entropy(z, y, one, 1, theta_bounds(z)).temperatures.round(6)
    array([1.820478])
    """
    ce = CrossEntropy(logits, y, groups, n_groups)

    theta, at_bound = _root(lambda theta: ce(theta)[1:], bounds, n_groups)
    return Solution(np.exp(-theta), at_bound)


def global_temperature(logits: Tensor, y: Tensor) -> tuple[float, bool]:
    """The one temperature of least cross-entropy on labelled nodes, and whether it is on its bound.

    Examples
    --------
    >>> z, y = torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])
    >>> temperature, at_bound = global_temperature(z, y)
    >>> round(temperature, 6), at_bound
    (1.820478, False)
    """
    one = torch.zeros(len(y), dtype=torch.int64)
    solution = fit_cross_entropy(logits, y, one, 1, theta_bounds(logits))
    return float(solution.temperatures[0]), bool(solution.at_bound[0])


def group_temperatures(logits: Tensor, y: Tensor, groups: Tensor, n_groups: int) -> Floats:
    """Temperature of least cross-entropy in each group; where there is none, the global one.

    A group without labels has no optimum, nor has one whose predictions are all right (colder is
    always better) or worse than chance (hotter is): the temperature of all nodes together is the
    best guess for them.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0]] * 4)
    >>> y, groups = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 0, 2])
    >>> group_temperatures(z, y, groups, 3).round(6)
    array([1.820478, 1.820478, 1.820478])
    """
    solution = fit_cross_entropy(logits, y, groups, n_groups, theta_bounds(logits))
    empty = torch.bincount(groups, minlength=n_groups).numpy() == 0
    unsolved = empty | solution.at_bound
    return np.where(unsolved, global_temperature(logits, y)[0], solution.temperatures)


def fit_confidence(
    curve: ConfidenceCurve, target: Floats, bounds: tuple[float, float], start: Floats | None = None
) -> Solution:
    """Find the temperatures at which every group's mean confidence meets its target.

    Examples
    --------
    >>> curve = ConfidenceCurve(torch.tensor([[1.0, 0.0]]), torch.zeros(1, dtype=torch.int64), 1)
    >>> solution = fit_confidence(curve, np.array([0.9]), (-5.0, 5.0))
    >>> curve(solution.theta)[0].round(9)
    array([0.9])
    """

    theta, at_bound = _root(_excess(curve, target), bounds, curve.n_groups, start)
    return Solution(np.exp(-theta), at_bound)


def fit_paper_loss(
    curve: ConfidenceCurve,
    ce: CrossEntropy,
    accuracy: Floats,
    penalty: float,
    bounds: tuple[float, float],
) -> Solution:
    """Minimise CE + λ Σ_n (a_n − mean confidence of group n)², globally in every group.

    Both terms fall and then rise in θ, so the minimum lies between their two minimisers. Between
    them the sum may have several minima: a grid finds the cells in which the derivative turns from
    falling to rising, Newton solves each of them, and the best is taken. Where ``accuracy`` is NaN
    (no labelled node) the gap term is left out.
    """
    known = ~np.isnan(accuracy)
    goal = np.where(known, accuracy, 0.0)

    def loss(theta: Floats) -> tuple[Floats, Floats, Floats]:
        value, d1, d2 = curve(theta)
        ce_value, ce_d1, ce_d2 = ce(theta)
        gap = value - goal
        return (
            ce_value + penalty * gap**2,
            ce_d1 + 2 * penalty * gap * d1,
            ce_d2 + 2 * penalty * (d1**2 + gap * d2),
        )

    n = curve.n_groups
    ends = np.stack(
        [
            _root(lambda theta: ce(theta)[1:], bounds, n)[0],
            _root(_excess(curve, goal), bounds, n)[0],
        ]
    )
    ends = np.where(known, ends, ends[0])  # one point: nowhere for the gap term to lead to
    grid = np.linspace(ends.min(axis=0), ends.max(axis=0), GRID)
    values, slopes, _ = (np.stack(part) for part in zip(*map(loss, grid), strict=True))
    best = values.argmin(axis=0)
    theta, lowest = grid[best, np.arange(n)], values[best, np.arange(n)]
    turns = (slopes[:-1] < 0) & (slopes[1:] > 0)
    for rank in range(int(turns.sum(axis=0).max(initial=0))):
        # The rank-th cell with a local minimum of every group that has so many.
        order = np.cumsum(turns, axis=0) == rank + 1
        cell = np.where((order & turns).any(axis=0), (order & turns).argmax(axis=0), -1)
        low = np.where(cell >= 0, grid[cell, np.arange(n)], theta)
        high = np.where(cell >= 0, grid[np.minimum(cell + 1, GRID - 1), np.arange(n)], theta)
        found, _ = _root(lambda theta: loss(theta)[1:], (low, high), n)
        at_found = loss(found)[0]
        better = at_found < lowest
        theta, lowest = np.where(better, found, theta), np.where(better, at_found, lowest)
    at_bound = (theta <= bounds[0]) | (theta >= bounds[1])
    return Solution(np.exp(-theta), at_bound)


def _excess(curve: ConfidenceCurve, target: Floats) -> Function:
    def excess(theta: Floats) -> tuple[Floats, Floats]:
        value, slope, _ = curve(theta)
        return value - target, slope

    return excess


def _root(
    function: Function,
    bounds: tuple[float | Floats, float | Floats],
    n: int,
    start: Floats | None = None,
) -> tuple[Floats, Bools]:
    """Roots of ``n`` functions that rise through zero, by Newton's method inside a bracket.

    A function without a sign change ends at the bound where it is nearest to zero; one that is zero
    at both ends has no preference and gets θ = 0, that is T = 1, or the middle if that is outside.
    """
    low = np.broadcast_to(np.asarray(bounds[0], dtype=np.float64), (n,)).copy()
    high = np.broadcast_to(np.asarray(bounds[1], dtype=np.float64), (n,)).copy()
    f_low, f_high = function(low)[0], function(high)[0]
    _must_be_finite(f_low, f_high)
    flat = (f_low == 0) & (f_high == 0)
    at_bound = ~flat & ((f_low >= 0) | (f_high <= 0))
    neutral = np.where((low <= 0) & (high >= 0), 0.0, (low + high) / 2)
    settled = flat | at_bound
    theta = np.where(settled, np.where(f_low >= 0, low, high), neutral)
    theta = np.where(flat, neutral, theta)
    if start is not None:
        theta = np.where(settled, theta, np.clip(start, low, high))
    for _ in range(MAX_PASSES):
        if settled.all():
            return theta, at_bound
        value, slope = function(theta)
        _must_be_finite(value)
        high = np.where(~settled & (value > 0), theta, high)
        low = np.where(~settled & (value <= 0), theta, low)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = theta - value / slope
        inside = (newton > low) & (newton < high)
        following = np.where(inside, newton, (low + high) / 2)
        exact = np.abs(value) <= VALUE_TOLERANCE
        done = exact | (np.abs(following - theta) <= STEP_TOLERANCE)
        theta = np.where(settled | exact, theta, following)
        settled = settled | done
    raise SolverError(
        f"{int((~settled).sum())} of {n} temperatures did not settle in {MAX_PASSES} passes; "
        f"the widest bracket left for log(1/T) is {float((high - low)[~settled].max()):.3g}"
    )


def _must_be_finite(*values: Floats) -> None:
    for value in values:
        if not np.isfinite(value).all():
            group = int(np.flatnonzero(~np.isfinite(value))[0])
            raise SolverError(f"the objective of group {group} is not finite: {value[group]}")
