"""How `SimiMailbox` predicted before it knew of labels nearby: for files of that time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Floats
from simi_mailbox.inputs import NodeInputs
from simi_mailbox.mailbox import mailbox
from simi_mailbox.prior.baseline import blend
from simi_mailbox.softmax import confidence

NAMES = {
    "many": "log_degree",
    "few": "inverse_degree",
    "mean_many": "mean_log_degree",
    "mean_few": "mean_inverse_degree",
}
"""What the oldest files call the effects of the degree."""


def numbers(baseline: Mapping[str, float]) -> dict[str, float]:
    """The numbers of such a file by their names: temperature, blind, effects of the degree."""
    known = {NAMES.get(name, name): float(value) for name, value in baseline.items()}
    effects = ("log_degree", "inverse_degree", "mean_log_degree", "mean_inverse_degree")
    return dict.fromkeys((*effects, "blind"), 0.0) | known


def scale(baseline: Mapping[str, float], data: NodeInputs) -> Tensor:
    """What every node's logits are multiplied by, besides 1/T: by its degree."""
    b, more = numbers(baseline), data.neighbourhoods.degree.double() + 1.0
    # The middles were rounded to float32 on their way.
    middles = torch.tensor([b["mean_log_degree"], b["mean_inverse_degree"]])
    effects = torch.tensor([b["log_degree"], b["inverse_degree"]], dtype=torch.float64)
    return torch.exp((torch.stack([more.log(), more.reciprocal()], dim=1) - middles) @ effects)


def points(baseline: Mapping[str, Any], data: NodeInputs, *, prior: bool) -> Floats:
    """(confidence, mailbox) of every node: confidence after the baseline, if there was a prior."""
    b = numbers(baseline)
    sure = confidence(data.logits)
    if prior:
        sure = confidence(data.logits, b["temperature"] / scale(baseline, data))
        sure = blend(sure, b["blind"], data.num_classes)
    similarity = mailbox(data.logits, data.neighbourhoods).double()
    return np.asarray(torch.stack([sure, similarity], dim=1).numpy())
