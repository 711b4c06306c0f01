"""The loop that keeps the best epoch, on a model whose every value is known."""

import math

import pytest
import torch
from torch import Tensor, nn

from simi_mailbox_bench.backbones.training import Best, LowestLoss, step, train_loop


class Counter(nn.Module):
    """One weight that falls by one in each step, and a memory of the modes it was called in."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.modes: list[bool] = []

    def forward(self) -> Tensor:
        self.modes.append(self.training)
        return self.weight


def run(losses: list[float], patience: int | None = None) -> tuple[Counter, Best, list[int]]:
    model, told = Counter(), []

    def validate() -> tuple[float]:
        return (losses[round(-model().item()) - 1],)

    best = train_loop(
        model,
        torch.optim.SGD([model.weight], lr=1.0),
        model,
        validate,
        LowestLoss(patience),
        epochs=len(losses),
        progress=lambda epoch, loss: told.append(epoch),
    )
    return model, best, told


def test_the_weights_of_the_first_lowest_loss_are_kept() -> None:
    model, best, told = run([3.0, 1.0, 2.0, 1.0, 5.0])
    assert (best.epochs, best.epoch, best.scores, model.weight.item()) == (5, 2, (1.0,), -2.0)
    assert told == [1, 2, 3, 4, 5]
    assert not model.training
    assert not model.weight.requires_grad


@pytest.mark.parametrize(("patience", "epochs", "kept"), [(1, 2, 1), (2, 6, 4), (3, 7, 4)])
def test_patience_counts_epochs_since_the_best(patience: int, epochs: int, kept: int) -> None:
    _, best, told = run([3.0, 4.0, 2.0, 1.0, 2.0, 2.0, 2.0, 0.0], patience)
    assert (best.epochs, best.epoch, len(told)) == (epochs, kept, epochs)


def test_training_and_validation_alternate_in_their_own_mode() -> None:
    model, _, _ = run([1.0, 2.0])
    assert model.modes == [True, False, True, False]


def test_without_a_finite_loss_the_first_weights_stay() -> None:
    model, best, _ = run([math.nan, math.nan, math.nan], patience=2)
    assert (best.epochs, best.epoch, best.scores, model.weight.item()) == (2, 0, (), 0.0)


def test_a_step_leaves_alone_what_its_optimiser_does_not_have() -> None:
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    optimiser = torch.optim.SGD([model.bias], lr=0.1)
    for _ in range(2):
        step(model, optimiser, lambda: model(torch.ones(1, 2)).sum())
    assert torch.equal(model.weight, before)
    assert torch.equal(model.weight.grad, torch.ones(1, 2))  # of one step, not summed over two
