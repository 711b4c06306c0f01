"""Late labels: how far they move the level of a fitted model.

    s' = e^a s + b,    a ~ N(0, σ²),    b ~ N(0, τ²)

s are the scores of the fitted model. Two cases are weighed by their Laplace evidence: nothing has
drifted (a = b = 0, what the labels of ``fit`` have shown), or it has; the correction is shrunk by
the probability of the second. The width τ is averaged over a grid, as in `model`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import expit, logit, logsumexp, softmax

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.simi_mailbox.model import (
    Model,
    Nodes,
    _Likelihood,
    _log_evidence,
    _log_half_cauchy,
    _minimum,
    _positive,
)

# Fixed on the structural shifts of CoraML, Citeseer and Photo, 50 labels each.
SCALE_WIDTH = 0.3
INTERCEPT_WIDTHS = (0.1, 0.3, 1.0, 2.0)
INTERCEPTS_TYPICAL = 0.3
ODDS = 0.2
"""Of drift, before late labels are seen."""
FIXED = 1e-4
REFIT_LABELS, REFIT_DRIFT = 50, 0.5
"""So many late labels that show drift with this probability are worth a refit."""


def correction(model: Model, nodes: Nodes, y: Ints) -> dict[str, Any]:
    """What late labels tell of the level: ``scale`` a, ``intercepts`` b, probability of drift.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = 3 * rng.normal(size=(400, 2))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> none = np.empty((400, 0))
    >>> model = Model((), 0.0, none[0], none[0], np.zeros(2), none[0], np.full(2, 0.5), 0.0)
    >>> as_before = Nodes(torch.from_numpy(z), torch.from_numpy(none), [], none)
    >>> doubled = replace(as_before, gaps=2 * as_before.gaps)
    >>> [round(correction(model, nodes, y)["drifted"], 1) for nodes in (as_before, doubled)]
    [0.0, 1.0]
    """
    blank = np.empty((len(y), 0))
    scores = model.scores(nodes).double()
    likelihood = _Likelihood(Nodes(scores, torch.from_numpy(blank), [], blank), y)
    likelihood.frequencies, layout = model.frequencies, likelihood.layout
    mean, variance = np.zeros(layout.size), np.ones(layout.size)
    mean[-1] = logit(max(model.uniform, 1e-6))
    variance[0], variance[-1] = SCALE_WIDTH**2, FIXED**2
    evidence, found = [], []
    for width in INTERCEPT_WIDTHS:
        wide = layout.with_widths(variance, 1.0, width)
        start = (mean, *likelihood(mean))
        at, value, slope, hessian = _minimum(likelihood, mean, wide, start)
        told = _log_evidence(at, value, slope, _positive(hessian), mean, wide)
        evidence.append(told + _log_half_cauchy(width, INTERCEPTS_TYPICAL))
        found.append(at)
    before = logsumexp([_log_half_cauchy(width, INTERCEPTS_TYPICAL) for width in INTERCEPT_WIDTHS])
    gain = float(logsumexp(evidence) - before + likelihood(mean)[0])
    drifted = float(expit(math.log(ODDS) + gain))
    at = drifted * (softmax(evidence) @ np.array(found))
    return {"scale": float(at[0]), "intercepts": at[1:-1], "drifted": drifted, "labels": len(y)}


def corrected(model: Model, scale: float, intercepts: Floats) -> Model:
    """The model whose scores are e^scale times those of ``model``, plus intercepts."""
    level = model.level * math.exp(scale)
    return replace(model, level=level, intercepts=model.intercepts + intercepts / level)


def advice(found: dict[str, Any]) -> str:
    """Why a refit is better than an update, or ""."""
    if found["labels"] < REFIT_LABELS or found["drifted"] < REFIT_DRIFT:
        return ""
    return (
        f"{found['labels']} late labels show drift (probability {found['drifted']:.0%}): the level "
        "was corrected, but a refit on calibration nodes that include them is better"
    )
