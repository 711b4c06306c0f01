"""Exact temperatures for methods that fit one, or one for each of a few groups."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from simi_mailbox.temperature import fit_cross_entropy, theta_bounds

Floats = npt.NDArray[np.float64]


def one_temperature(logits: Tensor, y: Tensor) -> float:
    """Temperature of least cross-entropy on the given labelled nodes.

    Examples
    --------
    >>> z = torch.tensor([[2.0, 0.0]] * 4)
    >>> round(one_temperature(z, torch.tensor([0, 0, 0, 1])), 6)
    1.820478
    """
    one = torch.zeros(len(y), dtype=torch.int64)
    return float(fit_cross_entropy(logits, y, one, 1, theta_bounds(logits)).temperatures[0])


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
    return np.where(unsolved, one_temperature(logits, y), solution.temperatures)
