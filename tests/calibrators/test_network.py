"""The shared training loop: what it keeps, when it stops, what it leaves alone."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from simi_mailbox.calibrators.network import (
    FEWEST_TO_SPLIT,
    FlatAdam,
    built,
    dropout,
    seeded,
    softmax_nll,
    stopping_split,
    train,
)
from simi_mailbox.exceptions import SolverError
from simi_mailbox.validation import CalibrationData, Labelled

_generator = torch.Generator().manual_seed(1)
LOGITS = 3 * torch.randn(200, 4, generator=_generator)
LABELS = torch.multinomial((LOGITS / 2).softmax(1), 1, generator=_generator).flatten()


class Scale(nn.Module):
    """q = softmax(z * scale), optionally with dropout on z."""

    def __init__(self, dropout=0.0, start=1.0):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(start))
        self.dropout = dropout

    def forward(self, index):
        return dropout(LOGITS[index], self.dropout, self.training) * self.scale


def nodes(start, stop):
    index = torch.arange(start, stop)
    return Labelled(index, LABELS[index])


def test_shared_forward_gives_the_same_training_as_two_forwards():
    one, two = (train(Scale, nodes(0, 80), nodes(80, 160), epochs=60, noisy=n) for n in (0, 1))
    assert one[0].scale.item() == pytest.approx(two[0].scale.item(), rel=1e-6)
    assert one[1:] == two[1:]


@pytest.mark.parametrize("noisy", [False, True])
def test_best_state_is_the_one_with_the_lowest_holdout_nll(noisy):
    nll: list[float] = []

    def heard(output, some):
        value = softmax_nll(output, some)
        if len(some) == 180:
            nll.append(value.item())
        return value

    schedule = {"lr": 0.05, "epochs": 300, "patience": 30}
    given = (lambda: Scale(start=2.0), nodes(0, 20), nodes(20, 200))
    network, epochs, best_epoch = train(*given, likelihood=heard, noisy=noisy, **schedule)
    del nll[0]  # the state before the first step is no candidate
    assert epochs == len(nll) < 300
    assert best_epoch == 1 + max(k for k, value in enumerate(nll) if value == min(nll))
    assert epochs == best_epoch + 30
    again = F.cross_entropy(network(nodes(20, 200).index), nodes(20, 200).y).item()
    assert again == pytest.approx(min(nll), rel=1e-6)


def test_ties_update_the_best_epoch():
    class Still(Scale):
        def forward(self, index):
            return LOGITS[index] + 0 * self.scale

    assert train(Still, nodes(0, 9), nodes(9, 30), epochs=25, patience=5)[1:] == (25, 25)


def test_without_stopping_nodes_trains_for_patience_epochs_and_keeps_the_last_state():
    network, *epochs = train(Scale, nodes(0, 10), None, epochs=500, patience=7)
    assert epochs == [7, 7]
    assert network.scale.item() != 1.0


def test_same_seed_same_bits_and_the_global_stream_is_untouched():
    def run(seed):
        given = (lambda: Scale(0.5), nodes(0, 50), nodes(50, 90))
        return train(*given, epochs=10, seed=seed, noisy=True)[0]

    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = run(0)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(parameter.requires_grad for parameter in first.parameters())
    torch.rand(5)
    assert run(0).scale.item() == first.scale.item()
    assert run(1).scale.item() != first.scale.item()


def test_a_loss_that_is_not_a_number_says_when_and_why():
    class Breaks(Scale):
        calls = 0

        def forward(self, index):
            self.calls += 1
            return super().forward(index) * (math.nan if self.calls > 3 else 1.0)

    with pytest.raises(SolverError, match=r"Breaks is not a number after 3 epochs \(lr=0.01\)"):
        train(Breaks, nodes(0, 9), nodes(9, 30))


def test_split_prefers_the_holdout_then_a_fifth_then_nothing():
    given = CalibrationData(LOGITS, calibration=nodes(0, 100), holdout=nodes(100, 120))
    assert stopping_split(given) == (given.calibration, given.holdout)

    alone = CalibrationData(LOGITS, calibration=nodes(0, 100))
    fit_on, stop_on = stopping_split(alone, seed=4)
    assert stop_on is not None
    assert sorted(torch.cat([fit_on.index, stop_on.index]).tolist()) == list(range(100))
    for part in (fit_on, stop_on):
        assert torch.equal(LABELS[part.index], part.y)
    counts = LABELS[:100].bincount(minlength=4) / 5
    assert ((stop_on.y.bincount(minlength=4) - counts).abs() < 1).all()
    assert torch.equal(stopping_split(alone, seed=4)[0].index, fit_on.index)
    assert not torch.equal(stopping_split(alone, seed=5)[0].index, fit_on.index)

    few = CalibrationData(LOGITS, calibration=nodes(0, FEWEST_TO_SPLIT - 1))
    assert stopping_split(few) == (few.calibration, None)


@pytest.mark.parametrize("noisy", [False, True])
def test_penalty_of_the_network_is_added_to_the_objective(noisy):
    how = {"penalty": lambda n: 100 * n.scale.square(), "likelihood": lambda x, _: 0 * x.sum()}
    some = nodes(0, 80)
    network = train(Scale, some, some, lr=0.05, epochs=60, patience=60, noisy=noisy, **how)[0]
    assert abs(network.scale.item()) < 0.05


@pytest.mark.parametrize("weight_decay", [0.0, 0.05])
def test_steps_are_those_of_torch_and_frozen_parameters_stay(weight_decay):
    x = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with seeded(0):
        ours = built(lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).double())
    ours[0].bias.requires_grad_(False)
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
