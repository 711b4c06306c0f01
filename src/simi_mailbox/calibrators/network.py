"""Calibrators that learn a network, and their training: full batch, Adam, early stopping.

``forward(index)`` of a network gives calibrated logits [m, K] or inverse temperatures [m].

Early stopping follows GATS: the state of the lowest negative log-likelihood (NLL) of the hold-out
nodes is kept (the last of equals); training ends after ``patience`` epochs without a new one.
Published tables hold out the nodes the GNN was trained on. Without a hold-out a fifth of the
calibration nodes, even over the classes, takes its place; fewer than `FEWEST_TO_SPLIT` are all
trained on, for ``patience`` epochs, and the last state is kept.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import init
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.overrides import TorchFunctionMode

from simi_mailbox.calibrators.base import Calibrator, Holdout, TemperatureCalibrator
from simi_mailbox.exceptions import SolverError
from simi_mailbox.parameters import Count, NonNegative, Positive, Whole, hyperparameters
from simi_mailbox.softmax import row_blocks
from simi_mailbox.validation import CalibrationData, Labelled, NodeInputs

SCHEDULE = ("lr", "weight_decay", "epochs", "patience", "seed")
SMALLEST_INVERSE = 1e-6
CACHED_ELEMENTS = 1 << 18
FEWEST_TO_SPLIT = 20
STOP_SHARE = 5

N = TypeVar("N", bound=nn.Module)
T = TypeVar("T")
Loss = Callable[[Tensor, Labelled], Tensor]  # of a network's output on some labelled nodes


@hyperparameters
class NetworkCalibrator(Calibrator):
    """Trains the network that `_network` makes, by the rules at the top of this module.

    Parameters
    ----------
    lr, weight_decay : float
        Learning rate and weight decay of Adam.
    epochs, patience : int
        Most epochs to train, and epochs without a better likelihood of the hold-out to stop after.
    seed : int
        Of the first weights, of dropout, and of the split where there is no hold-out.

    Attributes
    ----------
    weights_ : dict of Tensor
    epochs_, best_epoch_ : int
        Epochs trained, and the epoch whose weights were kept.
    """

    holdout: ClassVar[Holdout] = "training"

    lr: Positive = 0.01
    weight_decay: NonNegative = 5e-3
    epochs: Count = 2000
    patience: Count = 100
    seed: Whole = 0

    @abstractmethod
    def _network(self, data: NodeInputs) -> nn.Module:
        """The network for these nodes, with new weights."""

    def _train(
        self, data: CalibrationData, nodes: tuple[Labelled, Labelled] | None = None, **how: Any
    ) -> None:
        """Fit the network; ``how`` is passed on to `train`."""
        schedule: dict[str, Any] = {key: getattr(self, key) for key in SCHEDULE}
        # Dropout and noise are drawn in every epoch: the hold-out needs a forward pass without.
        noisy = any(getattr(self, word, 0) > 0 for word in ("dropout", "noise"))
        fit_on, stop_on = nodes or stopping_split(data, self.seed)
        network, self.epochs_, self.best_epoch_ = train(
            lambda: self._built(data), fit_on, stop_on, noisy=noisy, **schedule, **how
        )
        self.weights_: dict[str, Tensor] = network.state_dict()

    def _trained(self, data: NodeInputs) -> Any:
        """The network for these nodes, with the fitted weights."""
        with seeded(0):  # first weights are drawn, and overwritten
            network = built(lambda: self._built(data))
        network.load_state_dict(self.weights_)
        return network.eval().requires_grad_(False)

    def _built(self, data: NodeInputs) -> nn.Module:
        return self._network(data).to(data.logits.dtype)


@hyperparameters
class NetworkTemperatures(NetworkCalibrator, TemperatureCalibrator):
    """A network whose output is an inverse temperature for every node."""

    def _fit(self, data: CalibrationData) -> None:
        self._train(data, likelihood=scaled_nll(data.logits))

    def _temperatures(self, data: NodeInputs) -> Tensor:
        inverse: Tensor = self._trained(data)(None)
        return inverse.clamp_min_(SMALLEST_INVERSE).reciprocal_()


def softmax_nll(logits: Tensor, nodes: Labelled) -> Tensor:
    """Of networks that return calibrated logits [m, K]: the cross-entropy."""
    return F.cross_entropy(logits, nodes.y)


def scaled_nll(logits: Tensor) -> Loss:
    """Of networks that return inverse temperatures [m]: the NLL of softmax(z_i · output_i)."""
    return lambda scale, nodes: _ScaledNll.apply(scale, logits[nodes.index], nodes.y)  # type: ignore[no-untyped-call]


class _ScaledNll(Function):
    """Value and slope in one pass, in blocks of a cache: several times faster than autograd."""

    @staticmethod
    def forward(ctx: Any, scale: Tensor, logits: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros((), dtype=torch.float64)
        slope = torch.empty_like(scale)
        for block in row_blocks(len(logits), logits.shape[1], CACHED_ELEMENTS):
            z, target = logits[block], y[block, None]
            log_probs = (z * scale[block, None]).log_softmax(dim=1)
            total -= log_probs.gather(1, target).sum(dtype=torch.float64)
            if ctx.needs_input_grad[0]:  # Σ_k q_k z_k − z_y
                expected = torch.einsum("nk,nk->n", log_probs.exp_(), z)
                slope[block] = expected - z.gather(1, target).flatten()
        ctx.save_for_backward(slope)
        return (total / len(y)).to(scale.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return slope * (gradients[0] / slope.numel()), None, None


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
    train, stop = (Labelled(nodes.index[part], nodes.y[part]) for part in (~held, held))
    return train, stop


def train(
    build: Callable[[], N],
    fit_on: Labelled,
    stop_on: Labelled | None,
    *,
    lr: float = 0.01,
    weight_decay: float = 0.0,
    epochs: int = 2000,
    patience: int = 100,
    seed: int = 0,
    likelihood: Loss = softmax_nll,
    objective: Loss | None = None,
    penalty: Callable[[N], Tensor] | None = None,
    noisy: bool = False,
) -> tuple[N, int, int]:
    """Minimise ``objective`` (default: ``likelihood``, the mean NLL) on ``fit_on`` plus
    ``penalty(network)``; the network in its best state, epochs done, and the best epoch. Only a
    ``noisy`` network needs two passes in each epoch."""
    with seeded(seed):
        network = built(build)
        adam = FlatAdam(network, lr=lr, weight_decay=weight_decay)

        def loss(output: Tensor) -> Tensor:
            value = (objective or likelihood)(output, fit_on)
            return value if penalty is None else value + penalty(network)

        def number(value: Tensor, what: str) -> float:
            if math.isnan(value.item()):
                raise SolverError(
                    f"the {what} of {type(network).__name__} is not a number after {done} epochs "
                    f"(lr={lr}): lower the learning rate, or look for extreme logits"
                )
            return value.item()

        if stop_on is None:
            epochs = min(epochs, patience)
        else:
            joint = torch.cat([fit_on.index, stop_on.index])
        best, best_epoch, best_state = math.inf, 0, adam.values.clone()
        for done in range(epochs + 1):  # `done` steps have been taken
            value, nll = None, -math.inf
            if stop_on is not None and noisy:
                with torch.no_grad():
                    nll = number(likelihood(network.eval()(stop_on.index), stop_on), "hold-out NLL")
            elif stop_on is not None:
                fitted, stop = network(joint).split([len(fit_on), len(stop_on)])
                value = loss(fitted)
                nll = number(likelihood(stop.detach(), stop_on), "hold-out NLL")
            if done and nll <= best:  # the state before the first step is no candidate
                best, best_epoch, best_state = nll, done, adam.values.clone()
            if done == epochs or done - best_epoch >= patience:
                break
            if value is None:
                value = loss(network.train()(fit_on.index))
            number(value.detach(), "loss")
            value.backward()  # type: ignore[no-untyped-call]
            adam.step()
        adam.values.copy_(best_state)
    return network.eval().requires_grad_(False), done, best_epoch


class FlatAdam:
    """The steps of ``torch.optim.Adam`` with L2 weight decay, on one vector: several times faster
    than on many tiny parameters, and without the compiler that ``torch.optim`` loads in seconds."""

    def __init__(self, network: nn.Module, *, lr: float = 0.01, weight_decay: float = 0.0) -> None:
        self.lr, self.weight_decay, self._steps = lr, weight_decay, 0
        parameters = [p for p in network.parameters() if p.requires_grad]
        self.values: Tensor = parameters_to_vector(parameters).detach()
        vector_to_parameters(self.values, parameters)  # each is a part of the vector from now on
        self.gradients, self._mean, self._square = torch.zeros(3, len(self.values)).to(self.values)
        parts = self.gradients.split([p.numel() for p in parameters])
        for parameter, gradient in zip(parameters, parts, strict=True):
            parameter.grad = gradient.view_as(parameter)

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


# --- random numbers from a stream of one's own: threads do not disturb each other -----------------

_stream: ContextVar[torch.Generator | None] = ContextVar("stream", default=None)

_DRAWS = {
    torch.rand, torch.randn, Tensor.uniform_, Tensor.normal_,
    init.uniform_, init.normal_, init.kaiming_uniform_, init.xavier_uniform_,
}  # fmt: skip


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw here, and in `built`, what PyTorch's common generator would draw for this seed."""
    token = _stream.set(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _stream.reset(token)


def built(build: Callable[[], T]) -> T:
    """What ``build`` makes, with first weights drawn from the stream."""
    with _FromStream():
        return build()


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """``torch.nn.functional.dropout`` with a mask drawn from the stream."""
    if not training or p == 0.0 or x.numel() == 0:
        return x
    mask = torch.empty_like(x).bernoulli_(1 - p, generator=_stream.get())
    return x * mask.div_(1 - p)


def chosen(shape: tuple[int, ...], share: float) -> Tensor:
    """True for a random share of the places, rounded to 1 / 2^16: faster than a Bernoulli draw."""
    size = math.prod(shape)
    words = torch.empty((size + 3) // 4, dtype=torch.int64)
    numbers = words.random_(-(2**63), None, generator=_stream.get()).view(torch.int16)[:size]
    if round(share * 2**16) == 2**16:
        return torch.ones(shape, dtype=torch.bool)
    return (numbers < round(share * 2**16) - 2**15).view(shape)


def normal_like(x: Tensor) -> Tensor:
    """Standard normal numbers from the stream, as many as ``x`` has."""
    return torch.empty_like(x).normal_(generator=_stream.get())


class _FromStream(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    """Gives the stream to everything that would draw from the common generator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func in _DRAWS and given.get("generator") is None:
            given["generator"] = _stream.get()
        return func(*args, **given)
