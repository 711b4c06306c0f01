"""How a model is called, and what of its call a calibrator must see."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from simi_mailbox.pyg.hidden import COMPILED

GRAPHS = ("edge_index", "adj_t", "adj", "edge_index_dict", "adj_t_dict")
"""Names under which models take their graph."""
FEATURES = ("x", "input", "x_dict")
"""Names under which they take the nodes' features."""
OPTIONAL = ("edge_weight", "edge_attr")
"""What a model may be called with or without: only its user knows."""


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every part is in the mode it was in before."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training


def call(model: nn.Module, data: Any) -> Any:
    """Call a model on a ``Data`` by the names of its own arguments."""
    parameters = _parameters(model)
    if not parameters:
        return model(_attribute(data, "x"), _attribute(data, "edge_index"))
    required = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    if len(required) == 1 and required[0] not in GRAPHS:
        return model(_attribute(data, "x") if required[0] in FEATURES else data)
    missing = [name for name in required if _attribute(data, name) is None]
    if missing:
        raise TypeError(
            f"{type(model).__name__} takes {', '.join(required)}, but data has no {missing[0]}; "
            "say how to call it: call=lambda model, data: model(…)"
        )
    unsure = [p.name for p in parameters if p.name in OPTIONAL and p.name not in required]
    for name in unsure:
        if _attribute(data, name) is not None:
            raise TypeError(
                f"data has {name}, which {type(model).__name__} may be called with or without; say "
                f"how you call it: call=lambda model, data: model({_example(required, name)})"
            )
    return model(**{name: _attribute(data, name) for name in required})


def graph_of(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The graph among the arguments of a call; None if there is none."""
    given = _named(model, args, kwargs)
    for name in GRAPHS:
        if given.get(name) is not None:
            return given[name]
    for value in given.values():
        if any(getattr(value, name, None) is not None for name in GRAPHS):
            return value  # a Data
    return args[1] if len(args) > 1 and not _parameters(model) else None


def features_of(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The node features among the arguments of a call; None if there are none."""
    given = _named(model, args, kwargs)
    for name in FEATURES:
        if given.get(name) is not None:
            return given[name]
    others = [value for name, value in given.items() if name not in GRAPHS]
    first = args[0] if args and not _parameters(model) else next(iter(others), None)
    return first if isinstance(first, Tensor | Mapping) else getattr(first, "x", None)


def takes_graph(model: nn.Module) -> bool:
    """Whether a model may look at a graph, as far as its call tells."""
    names = [p.name for p in _parameters(model)]
    return names not in [[name] for name in FEATURES]


def as_logits(output: Any, model: nn.Module, node_type: str | None = None) -> Tensor:
    """What a model returned for the classified nodes, or a word on what was expected."""
    if isinstance(output, Mapping) and node_type in output:
        output = output[node_type]
    if not isinstance(output, Tensor):
        raise TypeError(
            f"{type(model).__name__} returned a {type(output).__name__}; expected a tensor of "
            "logits [nodes, classes]: wrap the part of the model that returns them"
        )
    return output


def _parameters(model: nn.Module) -> list[inspect.Parameter]:
    """Arguments that have a name; none for models that take whatever comes (``*args``)."""
    signature = inspect.signature(getattr(model, COMPILED, model).forward)
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p for p in signature.parameters.values() if p.kind not in loose]


def _named(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [p.name for p in _parameters(model)]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _attribute(data: Any, name: str) -> Any:
    for key in (name, f"{name}_dict"):  # of a HeteroData
        if getattr(data, key, None) is not None:
            return getattr(data, key)
    if name == "edge_index":  # models take PyG's adj_t in its place
        return _attribute(data, "adj_t")
    return None


def _example(required: list[str], name: str) -> str:
    return ", ".join(f"data.{part}" for part in [*required, name])
