"""The exact solver: one temperature per group, by a safeguarded Newton iteration in θ = log(1/T).

Every group is a one-dimensional problem; one pass over the nodes serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.exceptions import SolverError
from simi_mailbox.softmax import moments, row_blocks

Three = tuple[Floats, Floats, Floats]  # a value per group, and its first two derivatives by θ
Moments = tuple[Tensor, Tensor, Tensor]
"""Of every node, as `moments` gives them; or a value and its first two derivatives."""
Function = Callable[[Floats, Bools], tuple[Floats, Floats]]
"""θ per group, and which groups matter -> (value, slope) per group."""

COLDEST, HOTTEST = 1e-3, 1e2
"""Temperatures lie between these multiples of the logits' scale (`theta_bounds`): probabilities are
0 or 1 to rounding, or uniform to 1 %."""
GRID = 17
MAX_PASSES = 200
STEP_TOLERANCE = 1e-11
VALUE_TOLERANCE = 1e-15


@dataclass(frozen=True)
class Solution:
    """Temperatures of all groups, and which of them lie on a bound instead of at an optimum."""

    temperatures: Floats
    at_bound: Bools


def theta_bounds(logits: Tensor) -> tuple[float, float]:
    """Bracket for θ = log(1/T), relative to the mean gap between the top logit and the average."""
    n, k = logits.shape
    gap = float(logits.amax(dim=1).double().sum() - logits.sum(dtype=torch.float64) / k) / n
    unit = gap if gap > 1e-30 else 1.0
    return -float(np.log(HOTTEST * unit)), -float(np.log(COLDEST * unit))


class Curve(Protocol):
    """A function of θ = log(1/T) for every group; groups that are not ``wanted`` get zeros."""

    n_groups: int

    def __call__(self, theta: Floats, wanted: Bools | None = None) -> Three: ...


class _OverNodes:
    """A curve that is a sum over the nodes of every group, divided by ``count``."""

    def __init__(self, logits: Tensor, groups: Tensor, n_groups: int, count: Floats | int) -> None:
        self.logits, self.groups, self.n_groups, self.count = logits, groups, n_groups, count

    def __call__(self, theta: Floats, wanted: Bools | None = None) -> Three:
        beta, rows = torch.from_numpy(np.exp(theta)), None
        if wanted is not None and not wanted.all():
            rows = torch.from_numpy(wanted)[self.groups].nonzero().flatten()
        sums = torch.zeros(3, self.n_groups, dtype=torch.float64)
        count = len(self.groups) if rows is None else len(rows)
        for block in row_blocks(count, self.logits.shape[1]):
            some = block if rows is None else rows[block]
            groups = self.groups[some]
            factor = beta[groups]
            terms = self._terms(some, factor, moments(self.logits[some], factor))
            sums.index_add_(1, groups, torch.stack(terms))
        value, d1, d2 = sums.numpy() / self.count
        return value, d1, d2

    def _terms(self, some: Tensor | slice, factor: Tensor, sums: Moments) -> Moments:
        """Value and derivatives of some nodes, from the `moments` of their logits."""
        raise NotImplementedError


class ConfidenceCurve(_OverNodes):
    """Mean confidence of the nodes of every group; zero for a group without nodes."""

    def __init__(self, logits: Tensor, groups: Tensor, n_groups: int) -> None:
        count = torch.bincount(groups, minlength=n_groups).clamp(min=1).double()
        super().__init__(logits, groups, n_groups, count.numpy())

    def _terms(self, some: Tensor | slice, factor: Tensor, sums: Moments) -> Moments:
        s0, m1, m2 = sums
        # c = 1/s0 with s0 = Σ_k exp(x_k) and x = β (z − max z); d x / d θ = x
        top = s0.reciprocal_()
        return top, -m1 * top, (2 * m1 * m1 - m1 - m2) * top


class CrossEntropy(_OverNodes):
    """Cross-entropy of every group, over the number of all nodes: groups add up to the mean."""

    def __init__(
        self, logits: Tensor, y: Tensor, groups: Tensor, n_groups: int, weight: Tensor | None = None
    ) -> None:
        super().__init__(logits, groups, n_groups, max(len(y), 1))
        self.weight = torch.ones(len(y)) if weight is None else weight
        self.own = logits.gather(1, y[:, None]).squeeze(1).double() - logits.amax(dim=1)

    def _terms(self, some: Tensor | slice, factor: Tensor, sums: Moments) -> Moments:
        s0, m1, m2 = sums
        target, weight = self.own[some] * factor, self.weight[some]
        first = m1 - target
        return (s0.log() - target) * weight, first * weight, (first + m2 - m1 * m1) * weight


def fit_cross_entropy(
    logits: Tensor,
    y: Tensor,
    groups: Tensor,
    n_groups: int,
    bounds: tuple[float, float],
    weight: Tensor | None = None,
) -> Solution:
    """Minimise the cross-entropy in every group (convex in 1/T); where it is constant, T = 1."""
    ce = CrossEntropy(logits, y, groups, n_groups, weight)
    theta, at_bound = _root(lambda *at: ce(*at)[1:], bounds, n_groups)
    return Solution(np.exp(-theta), at_bound)


def global_temperature(
    logits: Tensor, y: Tensor, weight: Tensor | None = None
) -> tuple[float, bool]:
    """The one temperature of least cross-entropy, and whether it lies on its bound."""
    one = torch.zeros(len(y), dtype=torch.int64)
    solution = fit_cross_entropy(logits, y, one, 1, theta_bounds(logits), weight)
    return float(solution.temperatures[0]), bool(solution.at_bound[0])


def group_temperatures(logits: Tensor, y: Tensor, groups: Tensor, n_groups: int) -> Floats:
    """Temperature of least cross-entropy in each group; where there is none, the global one."""
    solution = fit_cross_entropy(logits, y, groups, n_groups, theta_bounds(logits))
    empty = torch.bincount(groups, minlength=n_groups).numpy() == 0
    unsolved = empty | solution.at_bound  # no label, all predictions right, or worse than chance
    return np.where(unsolved, global_temperature(logits, y)[0], solution.temperatures)


class PaperLoss:
    """CE + λ Σ_n (a_n − mean confidence of group n)² as a function of θ, one value per group; no
    gap term where ``accuracy`` a_n is NaN. ``penalty`` is λ, or one for each row of θ."""

    def __init__(
        self, curve: Curve, ce: Curve, accuracy: Floats, penalty: float | Sequence[float]
    ) -> None:
        self.curve, self.ce = curve, ce
        self.penalty: Floats = np.reshape(np.asarray(penalty, dtype=np.float64), (-1, 1))
        self.accuracy, self.known = accuracy, ~np.isnan(accuracy)
        self.goal = np.where(self.known, accuracy, 0.0)

    def by_weight(self) -> list[PaperLoss]:
        """One loss for every λ."""
        weights = self.penalty[:, 0].tolist()
        return [PaperLoss(self.curve, self.ce, self.accuracy, weight) for weight in weights]

    def __call__(self, theta: Floats, wanted: Bools | None = None) -> Three:
        """Value, first and second derivative by θ."""
        value, d1, d2 = self.curve(theta, wanted)
        ce_value, ce_d1, ce_d2 = self.ce(theta, wanted)
        gap = value - self.goal
        weight = (self.penalty if np.ndim(theta) > 1 else self.penalty[0]) * self.known
        return (
            ce_value + weight * gap**2,
            ce_d1 + 2 * weight * gap * d1,
            ce_d2 + 2 * weight * (d1**2 + gap * d2),
        )


def fit_paper_loss(loss: PaperLoss, bounds: tuple[float, float]) -> Solution:
    """Minimise the paper's loss, globally in every group: between the minima of both terms a grid
    finds the cells where it turns from falling to rising, and the best of them is refined."""
    n = loss.curve.n_groups
    each = np.arange(n)

    def gap(theta: Floats, wanted: Bools) -> tuple[Floats, Floats]:
        value, slope, _ = loss.curve(theta, wanted)
        return value - loss.goal, slope

    terms: list[Function] = [lambda *at: loss.ce(*at)[1:], gap]
    ends = np.stack([_root(term, bounds, n)[0] for term in terms])
    ends = np.where(loss.known, ends, ends[0])  # one point: nowhere for the gap term to lead to
    grid = np.linspace(ends.min(axis=0), ends.max(axis=0), GRID)
    values, slopes, _ = (np.stack(part) for part in zip(*map(loss, grid), strict=True))
    best = values.argmin(axis=0)
    theta, lowest = grid[best, each], values[best, each]
    turns = (slopes[:-1] < 0) & (slopes[1:] > 0)
    for rank in range(int(turns.sum(axis=0).max(initial=0))):
        # The rank-th cell with a local minimum of every group that has so many.
        cells = turns & (np.cumsum(turns, axis=0) == rank + 1)
        there, cell = cells.any(axis=0), cells.argmax(axis=0)
        low, high = (np.where(there, grid[end, each], theta) for end in (cell, cell + 1))
        found, _ = _root(lambda *at: loss(*at)[1:], (low, high), n)
        at_found = loss(found)[0]
        better = at_found < lowest
        theta, lowest = np.where(better, found, theta), np.where(better, at_found, lowest)
    at_bound = (theta <= bounds[0]) | (theta >= bounds[1])
    return Solution(np.exp(-theta), at_bound)


def _root(
    function: Function, bounds: tuple[float | Floats, float | Floats], n: int
) -> tuple[Floats, Bools]:
    """Roots of ``n`` functions that rise through zero, by Newton's method inside a bracket.

    Without a sign change it is the bound nearest to zero; of a function that is zero at both ends
    θ = 0, that is T = 1, or the centre if that is outside.
    """
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (n,)).copy() for end in bounds)
    every = np.ones(n, dtype=bool)
    f_low, f_high = _finite(function(low, every)[0]), _finite(function(high, every)[0])
    flat = (f_low == 0) & (f_high == 0)
    at_bound = ~flat & ((f_low >= 0) | (f_high <= 0))
    neutral = np.where((low <= 0) & (high >= 0), 0.0, (low + high) / 2)
    theta = np.where(at_bound, np.where(f_low >= 0, low, high), neutral)
    settled = flat | at_bound
    for _ in range(MAX_PASSES):
        if settled.all():
            return theta, at_bound
        value, slope = function(theta, ~settled)
        _finite(value)
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


def _finite(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        group = int(np.flatnonzero(~np.isfinite(values))[0])
        raise SolverError(f"the objective of group {group} is not finite: {values[group]}")
    return values
