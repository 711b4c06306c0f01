"""How a model is run: its arguments, what enters its last layer, and one type of its nodes."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
import torch
from torch import Tensor, nn

from simi_mailbox.graph import Graph
from simi_mailbox.plain_text import unknown

MetaPath: TypeAlias = Sequence[tuple[str, ...]]

GRAPHS = ("edge_index", "adj_t", "adj", "edge_index_dict", "adj_t_dict")  # as models call it
FEATURES = ("x", "input", "x_dict")  # as models call those of the nodes
OPTIONAL = ("edge_weight", "edge_attr")  # with or without: only the user of a model knows
COMPILED = "_orig_mod"  # under which torch.compile keeps a module


def call(model: nn.Module, data: Any) -> Any:
    """Call a model on a ``Data`` by the names of its own arguments."""
    parameters = _parameters(model)
    if not parameters:
        return model(_attribute(data, "x"), _attribute(data, "edge_index"))
    required = [name for name, default in parameters.items() if default is inspect.Parameter.empty]
    if len(required) == 1 and required[0] not in GRAPHS:
        return model(_attribute(data, "x") if required[0] in FEATURES else data)
    given = {name: _attribute(data, name) for name in required}
    lacking = next((name for name in required if given[name] is None), None)
    if lacking is not None:
        raise TypeError(
            f"{type(model).__name__} takes {', '.join(required)}, but data has no {lacking}; "
            "say how to call it: call=lambda model, data: model(…)"
        )
    for name in OPTIONAL:
        if name in parameters and name not in required and _attribute(data, name) is not None:
            example = ", ".join(f"data.{part}" for part in [*required, name])
            raise TypeError(
                f"data has {name}, which {type(model).__name__} may be called with or without; say "
                f"how you call it: call=lambda model, data: model({example})"
            )
    return model(**given)


def graph_and_features(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The graph and the node features among the arguments of a call; None where there are none."""
    names = [*_parameters(model)] or ["x", "edge_index"]  # of a model that takes whatever comes
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    given = {name: value for name, value in given.items() if value is not None}
    graphs = [given[name] for name in GRAPHS if name in given]
    for value in given.values():  # a Data
        graphs += [value] * any(getattr(value, name, None) is not None for name in GRAPHS)
    features = [given[name] for name in FEATURES if name in given]
    features += [value for name, value in given.items() if name not in GRAPHS]
    first = next(iter(features), None)
    x = first if isinstance(first, Tensor | Mapping) else getattr(first, "x", None)
    return next(iter(graphs), None), x


def takes_graph(model: nn.Module) -> bool:
    """Whether a model may look at a graph, as far as its call tells."""
    return [*_parameters(model)] not in [[name] for name in FEATURES]


def _parameters(model: nn.Module) -> dict[str, Any]:
    """Named arguments and their defaults; none of models that take whatever comes (``*args``)."""
    signature = inspect.signature(getattr(model, COMPILED, model).forward)
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p.default for p in signature.parameters.values() if p.kind not in loose}


def _attribute(data: Any, name: str) -> Any:
    names = [name, f"{name}_dict"]  # the latter of a HeteroData
    names += ["adj_t", "adj_t_dict"] if name == "edge_index" else []  # which models take as well
    found = (getattr(data, key, None) for key in names)
    return next((value for value in found if value is not None), None)


def logits_and_hidden(
    model: nn.Module, run: Callable[[], Any], layer: str | None, node_type: str | None
) -> tuple[Tensor, str | None, Tensor | None]:
    """The logits that ``run()`` returns, and a layer's name with what entered it.

    The model runs in evaluation mode without gradients, and is then in the mode it was in before.
    The layer "auto" is the last one with weights whose output has the shape of the logits, unless
    no other with weights came before it: then what enters it is the model's input.
    """
    layers = _layers(model) if layer == "auto" else {}
    if layer not in (None, "auto"):
        layers = {layer: layer_named(model, layer)}
    order: list[str] = []
    seen: dict[Any, tuple[str, Tensor]] = {}  # of each shape one: activations are large
    thread = threading.get_ident()  # other threads may run the same layers at the same time

    def hook(name: str, _: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        entered = _rows(next(iter([*args, *kwargs.values()]), None), node_type)
        left = _rows(output, node_type)
        if threading.get_ident() != thread or entered is None or left is None:
            return
        if len(entered) == len(left):
            order.append(name)
            seen[left.shape if layer == "auto" else layer] = name, entered.detach()

    modes = [(part, part.training) for part in model.modules()]
    with ExitStack() as stack:
        stack.enter_context(_uncompiled(model) if layers else nullcontext())
        for name, part in layers.items():
            handle = part.register_forward_hook(partial(hook, name), with_kwargs=True)
            stack.callback(handle.remove)
        try:
            model.eval()
            with torch.no_grad():
                output = run()
        finally:
            for part, training in modes:
                part.training = training
    if isinstance(output, Mapping) and node_type in output:
        output = output[node_type]
    if not isinstance(output, Tensor):
        raise TypeError(
            f"{type(model).__name__} returned a {type(output).__name__}; expected a tensor of "
            "logits [nodes, classes]: wrap the part of the model that returns them"
        )
    found, entered = seen.get(output.shape if layer == "auto" else layer, (None, None))
    if layer == "auto" and found in order[:1]:
        return output, None, None
    if layer not in (None, "auto") and entered is None:
        raise TypeError(
            f"no tensor [nodes, width] entered the layer {layer!r} of {type(model).__name__}: name "
            "another one, hidden=…, or pass what enters the last layer yourself, as a tensor"
        )
    return output, found, entered


def layer_named(model: nn.Module, name: str) -> nn.Module:
    """A layer by its name in ``model.named_modules()``, compiled or not."""
    names: dict[str, nn.Module] = {plain(path): part for path, part in model.named_modules()}
    del names[""]  # the model itself
    if name not in names:
        raise ValueError(unknown(f"layer of {type(model).__name__}", name, names))
    return names[name]


def plain(name: str) -> str:
    """The name of a part, or of its weights, as it is without ``torch.compile``."""
    return ".".join(part for part in name.split(".") if part != COMPILED)


def is_message_passing(part: nn.Module) -> bool:
    """Whether it is a layer of PyG; by name, since a model without must not import PyG."""
    return any(kind.__name__ == "MessagePassing" for kind in type(part).__mro__)


def _layers(model: nn.Module) -> dict[str, nn.Module]:
    """Layers with weights, by name: PyG's as a whole, of other modules the innermost."""
    found, inside = {}, set[nn.Module]()
    for path, part in model.named_modules():
        if part in inside:
            continue
        whole, kind = is_message_passing(part), type(part).__name__
        if whole:
            inside |= {*part.modules()} - {part}
        weights = next(part.parameters(recurse=whole), None)
        if weights is not None and "Norm" not in kind and kind != "PReLU":
            found[plain(path)] = part
    return found


def _uncompiled(model: nn.Module) -> AbstractContextManager[Any]:
    """Compiled code does not see hooks that came later: such a model runs as it was written."""
    compiled = (
        plain(path) != path or getattr(part, "_compiled_call_impl", None) is not None
        for path, part in model.named_modules()
    )
    stance: Any = getattr(torch.compiler, "set_stance", None)
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


def is_hetero(data: Any) -> bool:
    """Whether this is a ``HeteroData``."""
    return hasattr(data, "edge_index_dict")


def part_of(
    data: Any, node_type: str | None, metapath: MetaPath | None, num_nodes: int | None = None
) -> Any:
    """What a calibrator sees of a ``HeteroData`` or its ``edge_index_dict``; others as they are."""
    if isinstance(data, Mapping) and node_type is not None and num_nodes is not None:
        return graph_among(data, node_type, num_nodes, metapath)
    if not is_hetero(data):
        return data
    if node_type is None or node_type not in data.node_types:
        raise ValueError(
            f"this {type(data).__name__} has several types of nodes: say which one is classified, "
            f"node_type=…, one of {', '.join(data.node_types)}; got {node_type!r}"
        )
    store = data[node_type]
    graph = graph_among(data.edge_index_dict, node_type, int(store.num_nodes), metapath)
    own = {**dict(store.items()), "edge_index": graph.edge_index(), "num_nodes": store.num_nodes}
    return SimpleNamespace(**own)


def graph_among(
    edges: Mapping[Any, Any], node_type: str, num_nodes: int, metapath: MetaPath | None
) -> Graph:
    """The edges among the nodes of one type: all, or along a metapath as of ``AddMetaPaths``."""
    if metapath is None:
        own = _between(edges, (node_type, node_type))
        if own is None:
            others = {kind[0] for kind in edges if kind[-1] == node_type}
            other = min(others & {kind[-1] for kind in edges if kind[0] == node_type} or {"other"})
            raise TypeError(
                f"no edges join nodes of type {node_type!r}: say along which types they are "
                f"neighbours, metapath=[({node_type!r}, {other!r}), ({other!r}, {node_type!r})]"
            )
        return Graph.from_edges(own, num_nodes)
    if not metapath or metapath[0][0] != node_type or metapath[-1][-1] != node_type:
        raise ValueError(f"metapath must begin and end with {node_type!r}, got {metapath}")
    # Large enough for the nodes of every type.
    size = max([num_nodes, *(int(i.max()) + 1 for i in edges.values() if i.numel())])
    reached = scipy.sparse.identity(size, format="csr", dtype=bool)
    for step in metapath:
        found = _between(edges, tuple(step))
        if found is None:
            known = ", ".join(map(str, edges))
            raise ValueError(f"metapath names edges {tuple(step)}, but there are only {known}")
        one = np.ones(found.shape[1], dtype=bool)
        reached = reached @ scipy.sparse.csr_array((one, tuple(found)), shape=(size, size))
    return Graph.from_scipy(reached[:num_nodes, :num_nodes].T)


def _between(edges: Mapping[Any, Any], step: tuple[str, ...]) -> Any:
    """Edges of one type, or of all between two types of nodes; None if there are none."""
    found = [
        np.asarray(index.cpu())
        for kind, index in edges.items()
        if step in (tuple(kind), (kind[0], kind[-1]))
    ]
    return np.concatenate(found, axis=1) if found else None
