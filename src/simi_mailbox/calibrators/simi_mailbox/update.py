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
from scipy.special import expit, logit, logsumexp, softmax

from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.simi_mailbox import model as models
from simi_mailbox.calibrators.simi_mailbox.model import Model, Nodes

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
    """What late labels tell of the level: ``scale`` a, ``intercepts`` b, probability of drift."""
    likelihood = models._Likelihood(Nodes.bare(model.scores(nodes).double()), y)
    likelihood.frequencies = model.frequencies
    mean, variance = np.zeros(likelihood.size), np.ones(likelihood.size)
    mean[-1] = logit(max(model.uniform, 1e-6))
    variance[0], variance[-1] = SCALE_WIDTH**2, FIXED**2
    start, told, found = (mean, *likelihood(mean)), [], []
    odds = models._log_half_cauchy(np.array(INTERCEPT_WIDTHS), INTERCEPTS_TYPICAL)
    for width in INTERCEPT_WIDTHS:
        wide = likelihood.with_widths(variance, 1.0, width)
        at, value, slope, hessian = models._minimum(likelihood, mean, wide, start)
        curved = at, value, slope, models._positive(hessian)
        told.append(models._log_evidence(*curved, mean, wide))
        found.append(at)
    evidence = odds + told
    gain = float(logsumexp(evidence) - logsumexp(odds) + start[1])
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
