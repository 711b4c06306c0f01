"""The flat optimiser takes the steps of torch's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from simi_mailbox.calibrators.parts.flat_adam import FlatAdam
from simi_mailbox.calibrators.parts.training import seeded


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_steps_are_those_of_torch(weight_decay: float) -> None:
    with seeded(0):
        ours = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).double()
        x = torch.randn(20, 3, dtype=torch.float64)
    theirs = copy.deepcopy(ours)
    flat = FlatAdam(ours, lr=0.02, weight_decay=weight_decay)
    reference = torch.optim.Adam(theirs.parameters(), lr=0.02, weight_decay=weight_decay)
    for _ in range(30):
        ours(x).square().mean().backward()
        flat.step()
        reference.zero_grad()
        theirs(x).square().mean().backward()
        reference.step()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)


def test_frozen_parameters_stay() -> None:
    layer = nn.Linear(2, 1)
    layer.bias.requires_grad_(False)
    bias = layer.bias.clone()
    flat = FlatAdam(layer, weight_decay=1.0)
    layer(torch.ones(1, 2)).sum().backward()
    flat.step()
    assert flat.values.numel() == 2
    assert torch.equal(layer.bias, bias)
