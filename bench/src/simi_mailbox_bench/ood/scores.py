"""Scores that are high for nodes like those trained on, and low for others.

Each takes what the model says of all nodes and returns one number per node, as a tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.graph import as_graph
from simi_mailbox.validation import Forward, read_logits
from simi_mailbox_bench.backbones.gpn.network import GPNPrediction


def max_probability(logits: Any) -> Tensor:
    """Largest softmax probability (Hendrycks & Gimpel, 2017).

    Examples
    --------
    >>> max_probability(torch.tensor([[0.0, 0.0], [9.0, 0.0]]))
    tensor([0.5000, 0.9999])
    """
    return torch.softmax(read_logits(logits), dim=1).amax(dim=1)


def energy(logits: Any, *, temperature: float = 1.0) -> Tensor:
    """Negative free energy T · log Σ exp(z / T) (Liu et al., 2020).

    Examples
    --------
    >>> energy(torch.tensor([[0.0, 0.0], [9.0, 0.0]]))
    tensor([0.6931, 9.0001])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    return temperature * torch.logsumexp(read_logits(logits) / temperature, dim=1)


def propagated_energy(
    logits: Any, graph: Any, *, steps: int = 2, keep: float = 0.5, temperature: float = 1.0
) -> Tensor:
    """GNNSafe (Wu et al., 2023): energy, averaged with that of the neighbours ``steps`` times.

    In each step e ← keep · e + (1 - keep) · mean of the neighbours' e. A node without neighbours
    gets zero from them, as in the authors' code, and so counts as unknown.

    Examples
    --------
    >>> logits = torch.tensor([[9.0, 0.0], [0.0, 0.0]])
    >>> propagated_energy(logits, [[0], [1]], steps=1)
    tensor([4.8466, 4.8466])
    """
    if steps < 0:
        raise ValueError(f"steps must not be negative, got {steps}")
    if not 0.0 <= keep <= 1.0:
        raise ValueError(f"keep must be in [0, 1], got {keep}")
    current = energy(logits, temperature=temperature)
    neighbourhoods = as_graph(graph, current.numel())
    rows, degree = neighbourhoods.rows(), neighbourhoods.degree.clamp_min(1).to(current.dtype)
    for _ in range(steps):
        received = torch.zeros_like(current).index_add_(0, rows, current[neighbourhoods.indices])
        current = keep * current + (1.0 - keep) * received / degree
    return current


def evidence(prediction: GPNPrediction) -> Tensor:
    """Pseudo-observations that a GPN has for each node.

    Examples
    --------
    >>> evidence(GPNPrediction(torch.tensor([[1.0, 1.0], [9.0, 1.0]]), torch.zeros(2)))
    tensor([0., 8.])
    """
    return prediction.evidence


def calibrated_confidence(
    calibrator: Calibrator,
    logits: Any,
    graph: Any = None,
    *,
    features: Any = None,
    forward: Forward | None = None,
) -> Tensor:
    """Largest calibrated probability, by a calibrator fitted in distribution.

    The graph may be another one than the calibrator saw: its nodes are new to it. ``features`` and
    ``forward`` are for calibrators that need them, as in their ``predict_proba``.

    Examples
    --------
    >>> from simi_mailbox import calibrators
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    >>> fitted = calibrators.get("temperature")().fit(logits, [0, 1, 1], mask=[0, 1, 2])
    >>> calibrated_confidence(fitted, logits).argmin().item()
    2
    """
    z = read_logits(logits)
    probs: Tensor = calibrator.predict_proba(z, graph=graph, features=features, forward=forward)
    return probs.amax(dim=1)
