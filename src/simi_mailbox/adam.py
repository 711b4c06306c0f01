"""The released optimiser of the paper's loss: Adam, kept for measuring the exact solver against."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.validation import Labelled

LEARNING_RATE = 0.01
PATIENCE = 100


def fit_adam(
    logits: Tensor,
    groups: Tensor,
    calibration: Labelled,
    accuracy: Floats,
    penalty: float,
    *,
    holdout: Labelled | None = None,
    epochs: int = 2000,
) -> Floats:
    """Minimise CE + λ Σ_n (a_n − mean confidence of group n)² as the released code does.

    Temperatures are ReLU(T) + 1e-8 from T = 1, full batch, at most ``epochs`` steps. With a
    hold-out, the temperatures of lowest hold-out ECE are kept and the search stops after
    `PATIENCE` epochs without an equal or better one. Where ``accuracy`` is NaN the gap term is
    left out.
    """
    n_groups = len(accuracy)
    known = torch.from_numpy(~np.isnan(accuracy))
    goal = torch.from_numpy(np.nan_to_num(accuracy)).to(logits.dtype)
    sizes = torch.bincount(groups, minlength=n_groups).clamp(min=1)
    parameter = torch.ones(n_groups, dtype=logits.dtype, requires_grad=True)
    optimiser = torch.optim.Adam([parameter], lr=LEARNING_RATE)
    best, best_ece, waited = parameter.detach().clone(), np.inf, 0
    for _ in range(epochs):
        temperature = parameter.relu() + 1e-8
        log_probs = torch.log_softmax(logits / temperature[groups, None], dim=1)
        top = log_probs.amax(dim=1).exp()
        mean = torch.zeros(n_groups, dtype=logits.dtype).index_add(0, groups, top) / sizes
        ce = torch.nn.functional.nll_loss(log_probs[calibration.index], calibration.y)
        loss = ce + penalty * ((goal - mean)[known] ** 2).sum()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        if holdout is None:
            best = parameter.detach().clone()
            continue
        ece = _ece(log_probs.detach()[holdout.index], holdout.y)
        waited += 1
        if ece <= best_ece:
            best, best_ece, waited = parameter.detach().clone(), ece, 0
        elif waited >= PATIENCE:
            break
    result: Floats = (best.relu() + 1e-8).double().numpy()
    return result


def _ece(log_probs: Tensor, y: Tensor, bins: int = 10) -> float:
    top, predicted = log_probs.max(dim=1)
    conf = top.exp().double()
    gap = conf - (predicted == y).double()
    cell = (conf * bins).long().clamp(max=bins - 1)
    sums = torch.zeros(bins, dtype=torch.float64).index_add(0, cell, gap)
    return float(sums.abs().sum() / len(y))
