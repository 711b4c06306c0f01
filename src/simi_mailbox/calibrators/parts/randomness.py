"""Random numbers from a stream of one's own: fits in several threads do not disturb each other."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import init
from torch.overrides import TorchFunctionMode

N = TypeVar("N")

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


def built(build: Callable[[], N]) -> N:
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
