"""Logistic regression of one class against the rest, for methods that map P(class)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from simi_mailbox._arrays import Bools, Floats
from simi_mailbox.exceptions import SolverError

MAX_STEPS, HALVINGS = 100, 50


def platt_targets(is_class: Bools, weight: Floats) -> Floats:
    """1 and 0 drawn a little inwards, (n₊ + 1) / (n₊ + 2) and 1 / (n₋ + 2) (Platt, 1999).

    The targets of a label and its opposite: separable labels then have a finite fit.

    Examples
    --------
    >>> platt_targets(np.array([True, False]), np.ones(2)).round(3).tolist()
    [0.667, 0.333]
    """
    positive = float(weight @ is_class)
    negative = float(weight.sum()) - positive
    found: Floats = np.where(is_class, (positive + 1) / (positive + 2), 1 / (negative + 2))
    return found


def logistic(x: Floats, target: Floats, weight: Floats) -> Floats:
    """Coefficients of least weighted cross-entropy between expit(x b) and targets in (0, 1).

    Newton's method with backtracking; where columns cannot be told apart, those of least size.

    Examples
    --------
    >>> logistic(np.ones((4, 1)), np.array([0.9, 0.9, 0.9, 0.1]), np.ones(4)).round(3).tolist()
    [0.847]
    """
    unit = np.maximum(np.abs(x).max(axis=0), 1e-300)
    x = x / unit
    at: Floats
    at, ridge = np.zeros(x.shape[1]), 1e-12 * float(weight.sum())

    def loss(b: Floats) -> float:
        s = x @ b
        return float(weight @ (np.logaddexp(0.0, s) - target * s)) + 0.5 * ridge * float(b @ b)

    value = loss(at)
    for _ in range(MAX_STEPS):
        p = expit(x @ at)
        slope = x.T @ (weight * (p - target)) + ridge * at
        curvature = x.T @ ((weight * p * (1 - p))[:, None] * x)
        step = np.linalg.solve(curvature + ridge * np.eye(len(at)), slope)
        decrease = float(slope @ step)
        if decrease <= 1e-14 * max(value, 1e-14):
            return np.asarray(at / unit)
        for _ in range(HALVINGS):
            after = loss(at - step)
            if after <= value - 1e-4 * decrease:
                break
            step, decrease = step / 2, decrease / 2
        else:  # the decrease is below rounding: this is the minimum
            return np.asarray(at / unit)
        at, value = at - step, after
    raise SolverError(f"the logistic regression did not settle in {MAX_STEPS} Newton steps")
