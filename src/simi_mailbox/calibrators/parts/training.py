"""The one training loop of all calibrators that learn a network: full batch, Adam, early stopping.

A network here is a module whose ``forward(index)`` returns, for the nodes ``index``, calibrated
logits [m, K], or whatever else a likelihood understands, such as inverse temperatures.

Early stopping follows the published convention of GATS and its descendants: after each step the
negative log-likelihood (NLL) of the hold-out nodes is looked at, the state is kept when it is at
most the best so far (ties update), and training ends after ``patience`` epochs without that.
Published tables hold out the nodes the GNN was trained on.

Without a hold-out, one fifth of the calibration nodes, spread evenly over the classes, takes its
place and is not trained on. With fewer than `FEWEST_TO_SPLIT` calibration nodes a fifth of them
says nothing, so all are trained on, for ``patience`` epochs, and the last state is kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from simi_mailbox.calibrators.parts.likelihood import Likelihood, Loss, softmax_nll
from simi_mailbox.calibrators.parts.randomness import built, seeded
from simi_mailbox.exceptions import SolverError
from simi_mailbox.validation import CalibrationData, Labelled

FEWEST_TO_SPLIT = 20
STOP_SHARE = 5

N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train; the defaults are those of the published tables."""

    lr: float = 0.01
    weight_decay: float = 0.0
    epochs: int = 2000
    patience: int = 100
    seed: int = 0


@dataclass(frozen=True)
class TrainedNetwork(Generic[N]):
    """A trained network in evaluation mode, with its best state, and how the training went."""

    network: N
    epochs: int
    best_epoch: int
    stop_nll: float | None


def stopping_split(data: CalibrationData, seed: int = 0) -> tuple[Labelled, Labelled | None]:
    """Nodes to train on and nodes to stop on: see the rule at the top of this module."""
    nodes = data.calibration
    if data.holdout is not None:
        return nodes, data.holdout
    if len(nodes) < FEWEST_TO_SPLIT:
        return nodes, None
    shuffled = torch.randperm(len(nodes), generator=torch.Generator().manual_seed(seed))
    by_class = shuffled[nodes.y[shuffled].argsort(stable=True)]
    # Every fifth of the list ordered by class: as even over the classes as can be.
    held = torch.zeros(len(nodes), dtype=torch.bool)
    held[by_class[STOP_SHARE // 2 :: STOP_SHARE]] = True
    return (
        Labelled(nodes.index[~held], nodes.y[~held]),
        Labelled(nodes.index[held], nodes.y[held]),
    )


def train(
    build: Callable[[], N],
    fit_on: Labelled,
    stop_on: Labelled | None,
    schedule: Schedule,
    *,
    likelihood: Likelihood = softmax_nll,
    objective: Likelihood | None = None,
    penalty: Callable[[N], Tensor] | None = None,
    noisy: bool = False,
) -> TrainedNetwork[N]:
    """Train the network that ``build`` makes, and give it back in its best state.

    ``likelihood(nodes)(network(nodes.index))`` is the mean NLL of labelled nodes; ``objective``, in
    the same form, is what is minimised on ``fit_on``, the likelihood by default, with
    ``penalty(network)`` added. The NLL of ``stop_on`` decides when to stop; without it training
    takes ``min(epochs, patience)`` epochs. A network that is not ``noisy`` (dropout, drawn with
    `parts.randomness`) needs one forward pass for both.
    """
    with seeded(schedule.seed):
        loop = _Loop(built(build), fit_on, stop_on, schedule, noisy)
        loop.objective, loop.penalty = (objective or likelihood)(fit_on), penalty
        if stop_on is not None:
            loop.nll = likelihood(stop_on)
        return loop.run()


def restore(build: Callable[[], N], weights: dict[str, Tensor]) -> N:
    """Make the network again with weights that `train` found, ready to predict."""
    with seeded(0):  # `build` draws initial weights, which are overwritten
        network = built(build)
    network.load_state_dict(weights)
    return network.eval().requires_grad_(False)


class FlatAdam:
    """Adam with L2 weight decay; the steps are those of ``torch.optim.Adam``.

    Calibrators have a handful of tiny parameters, for which one update of one vector is several
    times faster than an update of each; and ``torch.optim`` loads a compiler at its first use,
    which would make the first fit of a process wait for seconds.
    """

    values: Tensor
    gradients: Tensor

    def __init__(self, network: nn.Module, *, lr: float = 0.01, weight_decay: float = 0.0) -> None:
        self.lr, self.weight_decay = lr, weight_decay
        parameters = [p for p in network.parameters() if p.requires_grad]
        self.values = torch.cat([p.detach().flatten() for p in parameters])
        self.gradients = torch.zeros_like(self.values)
        self._mean, self._square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self._steps = 0
        sizes = [p.numel() for p in parameters]
        parts = zip(
            parameters,
            torch.split(self.values, sizes),
            torch.split(self.gradients, sizes),
            strict=True,
        )
        for parameter, value, gradient in parts:
            parameter.data = value.view(parameter.shape)
            parameter.grad = gradient.view(parameter.shape)

    def step(self) -> None:
        """Move against the gradients that have come together, and set them to zero."""
        self._steps += 1
        first, second = 0.9, 0.999
        gradient = self.gradients.add_(self.values, alpha=self.weight_decay)
        self._mean.lerp_(gradient, 1 - first)
        self._square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        size = self._square.sqrt().div_((1 - second**self._steps) ** 0.5).add_(1e-8)
        self.values.addcdiv_(self._mean, size, value=-self.lr / (1 - first**self._steps))
        self.gradients.zero_()


class _Loop(Generic[N]):
    objective: Loss
    nll: Loss
    penalty: Callable[[N], Tensor] | None

    def __init__(
        self,
        network: N,
        fit_on: Labelled,
        stop_on: Labelled | None,
        schedule: Schedule,
        noisy: bool,
    ) -> None:
        self.network, self.fit_on, self.stop_on = network, fit_on, stop_on
        self.schedule, self.noisy = schedule, noisy
        self.adam = FlatAdam(network, lr=schedule.lr, weight_decay=schedule.weight_decay)
        self.joint = fit_on.index if stop_on is None else torch.cat([fit_on.index, stop_on.index])

    def run(self) -> TrainedNetwork[N]:
        patience = self.schedule.patience
        epochs = self.schedule.epochs if self.stop_on else min(self.schedule.epochs, patience)
        best, best_epoch, best_state = math.inf, 0, self.adam.values.clone()
        done = 0
        for done in range(epochs + 1):  # `done` steps have been taken
            objective, nll = self._look(done)
            if done:  # the state before the first step is no candidate, as published
                if nll is None:
                    best_epoch = done
                elif nll <= best:
                    best, best_epoch, best_state = nll, done, self.adam.values.clone()
            if done == epochs or done - best_epoch >= patience:
                break
            self._step(objective, done)
        if self.stop_on is not None:
            self.adam.values.copy_(best_state)
        self.network.eval().requires_grad_(False)
        return TrainedNetwork(self.network, done, best_epoch, best if self.stop_on else None)

    def _look(self, done: int) -> tuple[Tensor | None, float | None]:
        """The objective, where the same forward pass gave it, and the hold-out NLL."""
        if self.stop_on is None or (self.noisy and not done):
            return None, None
        if self.noisy:
            self.network.eval()
            with torch.no_grad():
                stop = self.network(self.stop_on.index)
            objective = None
        else:
            fit, stop = self.network(self.joint).split([len(self.fit_on), len(self.stop_on)])
            objective, stop = self._objective(fit), stop.detach()
        return objective, self._number(self.nll(stop), "hold-out NLL", done)

    def _step(self, objective: Tensor | None, done: int) -> None:
        self.network.train()
        if objective is None:
            objective = self._objective(self.network(self.fit_on.index))
        self._number(objective.detach(), "loss", done)
        objective.backward()  # type: ignore[no-untyped-call]
        self.adam.step()

    def _objective(self, output: Tensor) -> Tensor:
        value = self.objective(output)
        return value if self.penalty is None else value + self.penalty(self.network)

    def _number(self, value: Tensor, what: str, done: int) -> float:
        """The value, or `SolverError` if it is none."""
        number = value.item()
        if math.isnan(number):
            raise SolverError(
                f"the {what} of {type(self.network).__name__} is not a number after {done} epochs "
                f"(lr={self.schedule.lr}): lower the learning rate, or look for extreme logits"
            )
        return number
