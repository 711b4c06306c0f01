"""A model and its calibrator as one module."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import torch
from sklearn.base import clone
from torch import Tensor, nn

from simi_mailbox import calibrators
from simi_mailbox.calibrators import Calibrator, SimiMailbox
from simi_mailbox.exceptions import CalibrationWarning, FileFormatError
from simi_mailbox.pyg import batches, runs
from simi_mailbox.pyg.runs import MetaPath, is_hetero, part_of, plain

if TYPE_CHECKING:
    from simi_mailbox.monitor import Check

Call: TypeAlias = Callable[[nn.Module, Any], Any]
NO_EXPORT = (
    "a calibrated model cannot be traced, scripted or exported: its calibrator is no part of "
    "torch's graph; export calibrated.model, and apply calibrated.calibrator to its logits"
)
NOISE = 1e-3  # of two runs, relative to the largest logit: above it a model is random


class CalibratedModel(nn.Module):
    """Called like the model it holds; returns calibrated log-probabilities instead of logits.

    The model is run in evaluation mode and no gradient flows through it. The result lies on the
    device of the logits; the calibrator works on the CPU. Log-probabilities are finite, also of a
    class that cannot be.

    ``state_dict`` holds the model's weights and the fitted calibrator, as ``torch.load(…,
    weights_only=True)`` reads it. To load one, wrap a model of the same shape, compiled or not:
    ``CalibratedModel(model).load_state_dict(state)``.

    Parameters
    ----------
    model : torch.nn.Module
        Any model that returns logits [nodes, classes].
    calibrator : Calibrator, optional
        A fitted one; without it, call ``load_state_dict`` first.
    call : callable, optional
        ``call(model, data) -> logits``: how to call the model on a ``Data``, where the names of its
        arguments do not tell.
    num_hops : int, optional
        Hops that the model's logits depend on, where its layers do not tell; for mini-batches.
    """

    hidden_layer: str | None = None
    node_type: str | None = None
    metapath: MetaPath | None = None
    _fitted_on: frozenset[str] = frozenset()

    def __init__(
        self,
        model: nn.Module,
        calibrator: Calibrator | None = None,
        *,
        call: Call | None = None,
        num_hops: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.calibrator: Calibrator = SimiMailbox() if calibrator is None else calibrator
        self._call, self._model_hops = call or runs.call, num_hops

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Log-probabilities [n, K]; the arguments are the model's."""
        if torch._C._get_tracing_state() or getattr(torch.compiler, "is_exporting", bool)():
            raise RuntimeError(NO_EXPORT)
        run = self._forward
        if "torch._dynamo" in sys.modules:  # the calibrator is not torch's to compile
            run = torch.compiler.disable(run)  # type: ignore[no-untyped-call]
        return run(args, kwargs)

    forward._torchdynamo_disable = True  # type: ignore[attr-defined]
    forward._torchdynamo_disable_msg = NO_EXPORT  # type: ignore[attr-defined]

    def _forward(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        logits, _, hidden = self._run(lambda: self.model(*args, **kwargs), self.hidden_layer)
        graph, features = runs.graph_and_features(self.model, args, kwargs)
        node_ids = None if isinstance(graph, Tensor | Mapping) else self._node_ids(graph)
        return self.from_logits(logits, graph, features, hidden=hidden, node_ids=node_ids)

    def on(self, data: Any, **given: Any) -> Tensor:
        """Log-probabilities of the nodes of a ``Data``; ``given`` is that of `inputs_on`."""
        return self.from_logits(**self.inputs_on(data, **given))

    def inputs_on(
        self, data: Any, *, hidden: Any = None, known: Any = None, node_ids: Any = None
    ) -> dict[str, Any]:
        """The arguments of `from_logits` for the nodes of a ``Data``: the model is run here.

        What is not given is taken from the model (``hidden``) and from ``data`` (``node_ids``).
        """
        layer = self.hidden_layer if hidden is None else None
        logits, _, seen = self._run(lambda: self._call(self.model, data), layer)
        part = part_of(data, self.node_type, self.metapath)
        return {
            "logits": logits,
            "graph": part,
            "features": getattr(part, "x", None),
            "hidden": seen if hidden is None else hidden,
            "known": known,
            "node_ids": self._node_ids(part) if node_ids is None else node_ids,
        }

    def from_logits(
        self,
        logits: Tensor,
        graph: Any = None,
        features: Any = None,
        *,
        hidden: Any = None,
        known: Any = None,
        node_ids: Any = None,
    ) -> Tensor:
        """Log-probabilities of all nodes from their logits; the model is not run.

        ``graph`` is whatever calibrators take, or a ``HeteroData`` or its ``edge_index_dict``;
        ``hidden`` what enters the last layer, ``known`` a pair (nodes, labels) of labels that are
        known by now, ``node_ids`` the ids that the nodes had at ``fit``, or their numbers there.
        """
        cal = self.calibrator
        if "graph" in cal.required_inputs:
            if graph is None:
                raise TypeError(
                    f"no graph is among the arguments of {type(self.model).__name__}: use "
                    "from_logits(logits, graph) or on(data)"
                )
            graph = part_of(graph, self.node_type, self.metapath, len(logits))
        if isinstance(features, Mapping):
            features = features[self.node_type]
        given = {"graph": graph, "features": features, "hidden": hidden, "known": known}
        wanted = {*cal.required_inputs, *(cal.optional_inputs & {"hidden"}), "known"}
        given = {name: given.get(name) for name in wanted}
        ids = node_ids if "known" in cal.optional_inputs else None
        probs: Tensor = cal.predict_proba(logits, node_ids=ids, **given)
        return probs.clamp_(min=torch.finfo(probs.dtype).tiny).log_()

    def seeds(
        self, batch: Any, nodes: Any = None, *, check: bool = True, known: Any = None
    ) -> Tensor:
        """Log-probabilities of the seed nodes of a mini-batch, as on the whole graph.

        Labels of ``fit`` are evidence where ``batch.node_ids`` names its nodes, or where
        `CountNeighbours` found the graph and inputs of ``fit``; elsewhere a warning says so.

        Parameters
        ----------
        batch : Data
            Seeds and their neighbours up to `num_hops` away, all of them: of a ``NeighborLoader``
            with ``num_neighbors=[-1] * num_hops``, or cut out by ``k_hop_subgraph``.
        nodes : Tensor, optional
            The seeds' numbers in the batch; by default the first ``batch.batch_size``.
        check : bool
            Whether to look for missing neighbours, which `CountNeighbours` must have counted.
        known : pair, optional
            As of `from_logits`; nodes by their numbers in the batch.
        """
        if is_hetero(batch):
            raise TypeError(
                "mini-batches of several types of nodes cannot be checked for missing neighbours: "
                "compute the logits of all nodes and pass them to from_logits(logits, data)"
            )
        if nodes is None:
            size = getattr(batch, "batch_size", None)
            if size is None:
                raise TypeError("which nodes are seeds? pass their numbers in the batch, nodes=…")
            nodes = torch.arange(int(size))
        index = torch.as_tensor(nodes)
        if check:
            batches.check_batch(batch, index, self.num_hops)
        log_probs = self.on(batch, known=known)
        return log_probs[index.to(log_probs.device)]

    def update(self, node_ids: Any, labels: Any, data: Any = None) -> Self:
        """Take labels that have become known, as `SimiMailbox.update` does.

        ``data`` holds the nodes as they are now; by default those of the last prediction.
        """
        given = {}
        if data is not None:
            seen = self.inputs_on(data)
            given = {name: seen[name] for name in ("logits", "graph", "hidden")}
            given["all_ids"] = seen["node_ids"]
        self._simi_mailbox("update").update(node_ids, labels, **given)
        return self

    def monitor(self, data: Any, **more: Any) -> Check:
        """`monitor.Monitor.check` of the nodes of a ``Data``; ``more`` are its other arguments."""
        from simi_mailbox.monitor import Monitor

        given = {**self.inputs_on(data), "features": None, **more}
        return Monitor(self._simi_mailbox("monitor")).check(given.pop("logits"), **given)

    def _simi_mailbox(self, what: str) -> SimiMailbox:
        if not isinstance(self.calibrator, SimiMailbox):
            name = type(self.calibrator).__name__
            raise TypeError(f"{what} is for a SimiMailbox, and this model has a {name}")
        return self.calibrator

    @property
    def num_hops(self) -> int:
        """Hops that a mini-batch must hold around its seeds: the model's and the calibrator's."""
        own = batches.model_hops(self.model) if self._model_hops is None else self._model_hops
        return own + batches.calibrator_hops(self.calibrator)

    def _run(self, run: Callable[[], Any], layer: str | None) -> Any:
        return runs.logits_and_hidden(self.model, run, layer, self.node_type)

    def _first_run(self, data: Any, layer: str | None) -> Any:
        """As `_run`; where the model gives another answer the second time, a warning says so."""
        first, second = (
            self._run(lambda: self._call(self.model, data), name) for name in (layer, None)
        )
        gap = float((second[0] - first[0]).abs().amax()) if first[0].numel() else 0.0
        if gap > NOISE * float(first[0].abs().max()):
            warnings.warn(
                f"two runs of {type(self.model).__name__} in evaluation mode differ by {gap:.2g}: "
                "something in it is random, such as F.dropout(x) without training=self.training",
                CalibrationWarning,
                stacklevel=3,
            )
        return first

    def _node_ids(self, data: Any) -> Any:
        """What tells the nodes of ``fit`` among these; None if nothing does."""
        if "ids" in getattr(self.calibrator, "labels_", {}):
            return getattr(data, "node_ids", None)
        return batches.places(data, self._fitted_on)

    def get_extra_state(self) -> Tensor:
        """What the wrapper knows, as a line of JSON, and the calibrator's file, byte by byte."""
        known = {name: getattr(self, name) for name in ("hidden_layer", "node_type", "metapath")}
        head = json.dumps({**known, "fitted_on": sorted(self._fitted_on)})
        with tempfile.TemporaryDirectory() as folder:
            self.calibrator.save(path := Path(folder, "calibrator.safetensors"))
            content = head.encode() + b"\n" + path.read_bytes()
        return torch.frombuffer(bytearray(content), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Read what `get_extra_state` wrote."""
        head, _, file = state.cpu().numpy().tobytes().partition(b"\n")
        try:
            known = json.loads(head)
            fitted_on = frozenset(map(str, known["fitted_on"]))
            layer, node_type, path = known["hidden_layer"], known["node_type"], known["metapath"]
        except (ValueError, TypeError, KeyError) as error:
            raise FileFormatError("the state of the calibrated model is damaged") from error
        with tempfile.TemporaryDirectory() as folder:
            (written := Path(folder, "calibrator.safetensors")).write_bytes(file)
            self.calibrator = calibrators.load(written)
        if layer is not None:
            runs.layer_named(self.model, layer)
        self.hidden_layer, self.node_type, self._fitted_on = layer, node_type, fitted_on
        self.metapath = None if path is None else [tuple(step) for step in path]

    def state_dict(self, *args: Any, prefix: str = "", **kwargs: Any) -> Any:
        """As of every module; weights are named as those of a model that is not compiled."""
        state = super().state_dict(*args, prefix=prefix, **kwargs)
        for name in [name for name in state if name.startswith(prefix)]:
            state[prefix + plain(name.removeprefix(prefix))] = state.pop(name)
        return state

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        """Names of a compiled model are those of this one, and the other way round."""
        paths = {plain(path): path for path, _ in self.named_modules()}
        for name in [name for name in state if name.startswith(prefix)]:
            path, _, last = plain(name.removeprefix(prefix)).rpartition(".")
            if path in paths:
                state[prefix + ".".join(filter(None, (paths[path], last)))] = state.pop(name)
        super()._load_from_state_dict(state, prefix, *args)

    def __prepare_scriptable__(self) -> nn.Module:
        """Called by ``torch.jit.script``."""
        raise RuntimeError(NO_EXPORT)

    def extra_repr(self) -> str:
        """Name the calibrator, which is no module, in ``print(calibrated)``."""
        return f"(calibrator): {self.calibrator!r}\n(hidden): {self.hidden_layer}"


def calibrate(
    model: nn.Module,
    data: Any,
    mask: Any = None,
    calibrator: Calibrator | str | None = None,
    *,
    hidden: str | Tensor | None = "auto",
    node_type: str | None = None,
    metapath: MetaPath | None = None,
    train_mask: Any = None,
    logits: Tensor | None = None,
    call: Call | None = None,
    num_hops: int | None = None,
    **fit: Any,
) -> CalibratedModel:
    """Calibrate a trained model on some nodes of a graph.

    Parameters
    ----------
    model : torch.nn.Module
        The trained model; it is run in evaluation mode and not changed.
    data : Data or HeteroData
        PyG's, with the model's inputs, ``edge_index`` and ``y``. Labels outside the mask are not
        read. ``data.node_ids``, if there are any, are the nodes' ids on all graphs.
    mask : array, optional
        The calibration nodes, boolean or indices, which the model was not trained on; by default
        ``data.val_mask``.
    calibrator : Calibrator or str, optional
        A calibrator, which is copied, or its name; by default `SimiMailbox`.
    hidden : "auto", str, Tensor or None
        What enters the model's last layer, for methods that can use it: found by itself
        (``calibrated.hidden_layer`` tells the layer); of a layer named as in
        ``model.named_modules()``; a tensor [n, d], where ``logits`` are given; or nothing.
    node_type : str, optional
        Of a ``HeteroData``: the type of the nodes that are classified.
    metapath : sequence of (source type, target type), optional
        Along which types they are neighbours, as of PyG's ``AddMetaPaths``; by default along all
        edges among them.
    train_mask : array, optional
        The nodes that the model was trained on, whose labels are not read; by default
        ``data.train_mask``, if there is one.
    logits : Tensor, optional
        The model's logits of all nodes, if they were computed before.
    call, num_hops
        As of `CalibratedModel`.
    **fit
        Passed on to the calibrator's ``fit``, such as ``early_stopping_mask``.
    """
    part = part_of(data, node_type, metapath)
    if getattr(part, "y", None) is None:
        raise TypeError("data has no labels: calibration needs data.y of the nodes of the mask")
    if train_mask is None:
        train_mask = getattr(part, "train_mask", None)
        if train_mask is not None and train_mask.ndim != 1:
            train_mask = None  # several splits: which one is not said
    calibrator = "simi-mailbox" if calibrator is None else calibrator
    named = isinstance(calibrator, str)
    method = calibrators.get(calibrator)() if named else clone(calibrator)
    if "forward" in method.required_inputs:
        raise TypeError(
            f"{type(method).__name__} runs the model with edge weights of its own, "
            "which a wrapped model cannot offer: use the calibrator itself"
        )
    result = CalibratedModel(model, method, call=call, num_hops=num_hops)
    result.node_type, result.metapath = node_type, metapath
    if "hidden" not in method.optional_inputs:
        hidden = None
    layer = hidden if isinstance(hidden, str) else None
    if logits is None:
        logits, result.hidden_layer, seen = result._first_run(data, layer)
        hidden = hidden if seen is None else seen
    elif layer not in (None, "auto"):
        raise TypeError(
            f"the model is not run where its logits are given: pass what enters {hidden!r} as a "
            "tensor, hidden=…"
        )
    offered = {"graph": part, "features": getattr(part, "x", None)}
    fit |= {name: offered[name] for name in method.required_inputs}
    fit |= {"hidden": hidden} if isinstance(hidden, Tensor) else {}
    if "known" in method.optional_inputs:
        result._fitted_on = batches.fingerprints(part)
        fit.setdefault("node_ids", getattr(part, "node_ids", None))
    mask = getattr(part, "val_mask", None) if mask is None else mask
    method.fit(logits, part.y, mask=mask, train_mask=train_mask, **fit)
    return result
