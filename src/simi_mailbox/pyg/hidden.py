"""What enters a model's last layer, seen by hooks while the model runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from simi_mailbox.plain_text import unknown

COMPILED = "_orig_mod"
"""The name under which ``torch.compile`` keeps a module."""


@dataclass(frozen=True)
class LayerCall:
    """A layer's name, and the rows of the classified nodes that went in and came out."""

    name: str
    entered: Tensor
    left: Tensor


def run_and_find(model: nn.Module, run: Callable[[], Any], node_type: str | None) -> Any:
    """What ``run()`` returned, and the `LayerCall` of the last layer that yields the classes.

    That is the last layer with weights whose output has the shape of the logits, unless no other
    layer with weights came before it: then what enters it is the model's input. None if there is
    no such layer.
    """
    calls: dict[str, LayerCall] = {}
    order: list[str] = []

    def take(call: LayerCall) -> None:
        order.append(call.name)
        calls.pop(call.name, None)
        for name, other in list(calls.items()):  # of each shape the last: activations are large
            if other.left.shape == call.left.shape:
                del calls[name]
        calls[call.name] = call

    with _watched(model, dict(_layers(model)), node_type, take):
        output = run()
    logits = _rows(output, node_type)
    last = [
        call for call in calls.values() if logits is not None and call.left.shape == logits.shape
    ]
    if not last or order[0] == last[-1].name:
        return output, None
    return output, last[-1]


def run_and_see(
    model: nn.Module, name: str, run: Callable[[], Any], node_type: str | None
) -> tuple[Any, Tensor]:
    """What ``run()`` returned, and what entered the layer ``name``."""
    entered: list[Tensor] = []
    layer = layer_named(model, name)
    with _watched(model, {name: layer}, node_type, lambda call: entered.append(call.entered)):
        output = run()
    if not entered:
        raise TypeError(
            f"no tensor [nodes, width] entered the layer {name!r} of {type(model).__name__}: name "
            "another one, hidden=…, or pass what enters the last layer yourself, as a tensor"
        )
    return output, entered[-1]


def layer_named(model: nn.Module, name: str) -> nn.Module:
    """A layer by its name in ``model.named_modules()``, compiled or not."""
    names: dict[str, nn.Module] = {
        plain(path): part for path, part in model.named_modules() if plain(path)
    }
    if name not in names:
        raise ValueError(unknown(f"layer of {type(model).__name__}", name, names))
    return names[name]


def plain(name: str) -> str:
    """The name of a part, or of its weights, as it is without ``torch.compile``."""
    return ".".join(part for part in name.split(".") if part != COMPILED)


def is_message_passing(part: nn.Module) -> bool:
    """Whether it is a layer of PyG; by name, since a model without must not import PyG."""
    return any(kind.__name__ == "MessagePassing" for kind in type(part).__mro__)


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Layers with weights: PyG's as a whole, of other modules the innermost."""
    inside: list[nn.Module] = []
    for path, part in model.named_modules():
        if any(part is inner for inner in inside):
            continue
        whole = is_message_passing(part)
        if whole:
            inside += [inner for inner in part.modules() if inner is not part]
        weights = next(part.parameters(recurse=whole), None)
        kind = type(part).__name__
        if weights is not None and "Norm" not in kind and kind != "PReLU":
            yield plain(path), part


@contextmanager
def _watched(
    model: nn.Module,
    layers: Mapping[str, nn.Module],
    node_type: str | None,
    take: Callable[[LayerCall], None],
) -> Iterator[None]:
    thread = threading.get_ident()  # other threads may run the same layers at the same time

    def hook_of(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            entered = _rows([*args, *kwargs.values()][0], node_type) if args or kwargs else None
            left = _rows(output, node_type)
            if threading.get_ident() != thread or entered is None or left is None:
                return
            if len(entered) == len(left):
                take(LayerCall(name, entered.detach(), left.detach()))

        return hook

    with _uncompiled(model), ExitStack() as hooks:
        for name, layer in layers.items():
            handle = layer.register_forward_hook(hook_of(name), with_kwargs=True)
            hooks.callback(handle.remove)
        yield


def _uncompiled(model: nn.Module) -> AbstractContextManager[Any]:
    """Compiled code does not see hooks that came later: such a model runs as it was written."""
    compiled = (
        plain(path) != path or getattr(part, "_compiled_call_impl", None) is not None
        for path, part in model.named_modules()
    )
    stance: Callable[[str], AbstractContextManager[Any]] | None = getattr(
        torch.compiler, "set_stance", None
    )
    return stance("force_eager") if any(compiled) and stance is not None else nullcontext()


def _rows(value: Any, node_type: str | None) -> Tensor | None:
    """Rows of the classified nodes among what a layer takes or returns."""
    if isinstance(value, Mapping):
        value = value.get(node_type)
    if isinstance(value, tuple):  # of a layer from some nodes to others: the latter
        value = value[-1]
    if not isinstance(value, Tensor) or value.layout is not torch.strided or value.ndim != 2:
        return None
    return value if value.is_floating_point() else None
