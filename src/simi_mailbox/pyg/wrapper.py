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
from simi_mailbox.pyg.batches import calibrator_hops, check_batch, model_hops
from simi_mailbox.pyg.calls import as_logits, call, evaluating, features_of, graph_of
from simi_mailbox.pyg.hetero import MetaPath, graph_among, is_hetero, part_of
from simi_mailbox.pyg.hidden import layer_named, plain, run_and_find, run_and_see
from simi_mailbox.pyg.identity import fingerprints, places

if TYPE_CHECKING:
    from simi_mailbox.monitor import Check

Call: TypeAlias = Callable[[nn.Module, Any], Any]
NO_EXPORT = (
    "a calibrated model cannot be traced, scripted or exported: its calibrator is no part of "
    "torch's graph; export calibrated.model, and apply calibrated.calibrator to its logits"
)
NOISE = 1e-3
"""Difference of two runs, relative to the largest logit, above which a model is random."""


class CalibratedModel(nn.Module):
    """Called like the model it holds; returns calibrated log-probabilities instead of logits.

    The model is always run in evaluation mode and without gradients: this is for prediction, not
    for training, and no gradient flows through it. The result lies on the device of the model's
    logits; the calibrator itself works on the CPU. Log-probabilities are finite: of a class that
    cannot be they are as low as the number format allows.

    ``state_dict`` holds the model's weights and the fitted calibrator (as the bytes of its file, a
    tensor), so that ``torch.load(…, weights_only=True)`` reads it. To load one, wrap a model of the
    same shape: ``CalibratedModel(model).load_state_dict(state)``; either may be compiled.

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
    hidden : str, optional
        The layer whose input the calibrator was fitted with as ``hidden``, as it is called in
        ``model.named_modules()``.
    node_type, metapath : optional
        As of `calibrate`.

    Examples
    --------
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> logits, edges = torch.tensor(problem.logits), problem.graph.edge_index()
    >>> cal = SimiMailbox().fit(logits, problem.y, graph=edges, mask=range(200))
    >>> class Trained(nn.Module):  # in place of a GNN
    ...     def forward(self, x, edge_index):
    ...         return x
    >>> calibrated = CalibratedModel(Trained(), cal)
    >>> calibrated(logits, edges).exp().sum(dim=1)[:3].round(decimals=3).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        model: nn.Module,
        calibrator: Calibrator | None = None,
        *,
        call: Call | None = None,
        num_hops: int | None = None,
        hidden: str | None = None,
        node_type: str | None = None,
        metapath: MetaPath | None = None,
    ) -> None:
        super().__init__()
        if hidden is not None:
            layer_named(model, hidden)
        self.model = model
        self.calibrator: Calibrator = SimiMailbox() if calibrator is None else calibrator
        self._call, self._model_hops = call, num_hops
        self.hidden_layer, self.node_type, self.metapath = hidden, node_type, metapath
        self._fitted_on: frozenset[str] = frozenset()

    # --- prediction -------------------------------------------------------------------------------

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
        logits, hidden = self._run(lambda: self.model(*args, **kwargs))
        graph = graph_of(self.model, args, kwargs)
        features = features_of(self.model, args, kwargs)
        node_ids = None if isinstance(graph, Tensor | Mapping) else self._node_ids(graph)
        return self.from_logits(logits, graph, features, hidden=hidden, node_ids=node_ids)

    def on(
        self, data: Any, *, hidden: Any = None, known: Any = None, node_ids: Any = None
    ) -> Tensor:
        """Log-probabilities of the nodes of a ``Data``; the arguments are those of `from_logits`.

        What enters the last layer is taken from the model, unless ``hidden`` is given, and ids from
        ``data.node_ids``, unless ``node_ids`` are.
        """
        given = self.inputs_on(data, hidden=hidden, known=known, node_ids=node_ids)
        return self.from_logits(**given)

    def inputs_on(
        self, data: Any, *, hidden: Any = None, known: Any = None, node_ids: Any = None
    ) -> dict[str, Any]:
        """The arguments of `from_logits` for the nodes of a ``Data``: the model is run here."""
        how = call if self._call is None else self._call
        logits, seen = self._run(lambda: how(self.model, data), see=hidden is None)
        part = part_of(data, self.node_type, self.metapath)
        return {
            "logits": logits, "graph": part, "features": getattr(part, "x", None), "known": known,
            "hidden": seen if hidden is None else hidden,
            "node_ids": self._node_ids(part) if node_ids is None else node_ids,
        }  # fmt: skip

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

        For logits that were computed before, such as by PyG's layer-wise ``inference``. ``graph``
        is whatever calibrators take, or a ``HeteroData`` or its ``edge_index_dict``; it and
        ``features`` may be left out if the method does not need them. ``hidden`` is what enters the
        last layer, where the calibrator was fitted with it. ``known`` is a pair (nodes, labels) of
        labels that are known by now. ``node_ids`` are the ids that the nodes had at ``fit``, or
        their numbers there, if they had none.
        """
        cal = self.calibrator
        if "graph" in cal.required_inputs and graph is None:
            raise TypeError(
                f"no graph is among the arguments of {type(self.model).__name__}: use "
                "from_logits(logits, graph) or on(data)"
            )
        given = {"graph": self._graph(graph, len(logits)), "features": features}
        if isinstance(features, Mapping):
            given["features"] = features[self.node_type]
        inputs = {name: value for name, value in given.items() if name in cal.required_inputs}
        if hidden is not None and "hidden" in cal.optional_inputs:
            inputs["hidden"] = hidden
        if node_ids is not None and "known" in cal.optional_inputs:
            inputs["node_ids"] = node_ids
        if known is not None:
            inputs["known"] = known
        probs: Tensor = cal.predict_proba(logits, **inputs)
        return probs.clamp_(min=torch.finfo(probs.dtype).tiny).log_()

    def seeds(
        self, batch: Any, nodes: Any = None, *, check: bool = True, known: Any = None
    ) -> Tensor:
        """Log-probabilities of the seed nodes of a mini-batch, as on the whole graph.

        The logits of all nodes of the batch are computed, since those of the seeds' neighbours
        matter; those of nodes near the rim are wrong, and not returned. Labels of ``fit`` are
        evidence where ``batch.node_ids`` names its nodes, or where `CountNeighbours` found the
        graph and the inputs of ``fit``; elsewhere a warning says that they are not.

        Parameters
        ----------
        batch : Data
            Seeds and their neighbours up to `num_hops` away, all of them: of a ``NeighborLoader``
            with ``num_neighbors=[-1] * num_hops``, or cut out by ``k_hop_subgraph``.
        nodes : Tensor, optional
            The seeds' numbers in the batch; by default the first ``batch.batch_size``, which is
            where loaders put them.
        check : bool
            Whether to look for missing neighbours; for that, `CountNeighbours` must have been
            applied to the whole graph.
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
            check_batch(batch, index, self.num_hops)
        log_probs = self.on(batch, known=known)
        return log_probs[index.to(log_probs.device)]

    # --- late labels and drift ----------------------------------------------------------------

    def update(self, node_ids: Any, labels: Any, data: Any = None) -> Self:
        """Take labels that have become known, as `SimiMailbox.update` does.

        ``data`` holds the nodes as they are now; by default those of the last prediction.
        """
        cal = self._watched("update")
        given: dict[str, Any] = {}
        if data is not None:
            seen = self.inputs_on(data)
            given = {name: seen[name] for name in ("logits", "hidden")}
            given |= {"graph": self._graph(seen["graph"], len(seen["logits"]))}
            given |= {"all_ids": seen["node_ids"]}
        cal.update(node_ids, labels, **given)
        return self

    def monitor(self, data: Any, **more: Any) -> Check:
        """Whether to trust the probabilities of the nodes of a ``Data``: `monitor.Monitor.check`.

        ``more`` are its other arguments, such as ``nodes``, ``features`` and ``known``.
        """
        from simi_mailbox.monitor import Monitor

        given = {**self.inputs_on(data), **more}
        given["graph"] = self._graph(given["graph"], len(given["logits"]))
        if "features" not in more:
            given.pop("features")
        return Monitor(self._watched("monitor")).check(given.pop("logits"), **given)

    def _watched(self, what: str) -> SimiMailbox:
        if not isinstance(self.calibrator, SimiMailbox):
            name = type(self.calibrator).__name__
            raise TypeError(f"{what} is for a SimiMailbox, and this model has a {name}")
        return self.calibrator

    @property
    def num_hops(self) -> int:
        """Hops that a mini-batch must hold around its seeds: the model's and the calibrator's."""
        hops = model_hops(self.model) if self._model_hops is None else self._model_hops
        return hops + calibrator_hops(self.calibrator)

    def _run(self, run: Callable[[], Any], *, see: bool = True) -> tuple[Tensor, Tensor | None]:
        """The model's logits, and what entered the layer that the calibrator looks at."""
        name, hidden = self.hidden_layer, None
        with evaluating(self.model):
            if name is None or not see:
                output = run()
            else:
                output, hidden = run_and_see(self.model, name, run, self.node_type)
        return as_logits(output, self.model, self.node_type), hidden

    def _graph(self, graph: Any, num_nodes: int) -> Any:
        if is_hetero(graph):
            return part_of(graph, self.node_type, self.metapath)
        if isinstance(graph, Mapping) and self.node_type is not None:
            return graph_among(graph, self.node_type, num_nodes, self.metapath)
        return graph

    def _node_ids(self, data: Any) -> Any:
        """What tells the nodes of ``fit`` among these; None if nothing does."""
        if "ids" in getattr(self.calibrator, "labels_", {}):
            return getattr(data, "node_ids", None)
        return places(data, self._fitted_on)

    # --- state ------------------------------------------------------------------------------------

    def get_extra_state(self) -> Tensor:
        """What the wrapper knows, as a line of JSON, and the calibrator's file, byte by byte."""
        known = {
            "hidden_layer": self.hidden_layer, "node_type": self.node_type,
            "metapath": self.metapath, "fitted_on": sorted(self._fitted_on),
        }  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.safetensors"
            self.calibrator.save(path)
            content = json.dumps(known).encode() + b"\n" + path.read_bytes()
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
            written = Path(folder) / "calibrator.safetensors"
            written.write_bytes(file)
            self.calibrator = calibrators.load(written)
        if layer is not None:
            layer_named(self.model, layer)
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
        PyG's, with the model's inputs, ``edge_index`` and ``y``. Labels outside the mask
        are not read. ``data.node_ids``, if there are any, are the nodes' ids, by which the labels
        of ``fit`` find them on other graphs.
    mask : array, optional
        The calibration nodes, boolean or indices, which the model was not trained on; by default
        ``data.val_mask``.
    calibrator : Calibrator or str, optional
        A calibrator, which is copied, or its name; by default `SimiMailbox`.
    hidden : "auto", str, Tensor or None
        What enters the model's last layer, for methods that can make use of it (`SimiMailbox`).
        "auto": the input of the last layer with weights that yields the classes, if other layers
        come before it. Or the name of a layer, as in ``model.named_modules()``, whose input is
        taken; or a tensor [n, d], where ``logits`` are given as well; or None, to do without.
        ``calibrated.hidden_layer`` tells which it is.
    node_type : str, optional
        Of a ``HeteroData``: the type of the nodes that are classified.
    metapath : sequence of (source type, target type), optional
        Along which types they are neighbours, as of PyG's ``AddMetaPaths``; by default along all
        edges among them.
    train_mask : array, optional
        The nodes that the model was trained on; by default ``data.train_mask``, if there is one.
        Their labels are not read.
    logits : Tensor, optional
        The model's logits of all nodes, if they were computed before.
    call, num_hops
        As of `CalibratedModel`.
    **fit
        Passed on to the calibrator's ``fit``, such as ``early_stopping_mask``.

    Returns
    -------
    CalibratedModel

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from simi_mailbox.synthetic import calibration_problem
    >>> problem = calibration_problem(500, 3, temperature=2.0, seed=0)
    >>> data = SimpleNamespace(  # in place of a PyG Data
    ...     x=torch.tensor(problem.logits), y=torch.tensor(problem.y),
    ...     edge_index=problem.graph.edge_index(), num_nodes=500, val_mask=torch.arange(500) < 200,
    ... )
    >>> class Trained(nn.Module):  # in place of a GNN
    ...     def forward(self, x, edge_index):
    ...         return x
    >>> calibrated = calibrate(Trained(), data, mask=data.val_mask)
    >>> calibrated(data.x, data.edge_index).shape
    torch.Size([500, 3])
    """
    part = part_of(data, node_type, metapath)
    if mask is None:
        mask = getattr(part, "val_mask", None)
    if getattr(part, "y", None) is None:
        raise TypeError("data has no labels: calibration needs data.y of the nodes of the mask")
    if train_mask is None:
        train_mask = getattr(part, "train_mask", None)
        if train_mask is not None and train_mask.ndim != 1:
            train_mask = None  # several splits: which one is not said
    result = CalibratedModel(
        model, _unfitted(calibrator), call=call, num_hops=num_hops, node_type=node_type,
        metapath=metapath,
    )  # fmt: skip
    method = result.calibrator
    given = {"graph": part, "features": getattr(part, "x", None)}
    inputs = {name: value for name, value in given.items() if name in method.required_inputs}
    if "forward" in method.required_inputs:
        raise TypeError(
            f"{type(method).__name__} runs the model with edge weights of its own, "
            "which a wrapped model cannot offer: use the calibrator itself"
        )
    if "hidden" not in method.optional_inputs:
        hidden = None
    if logits is None:
        logits, hidden = _first_run(result, data, hidden)
    elif isinstance(hidden, str) and hidden != "auto":
        raise TypeError(
            f"the model is not run where its logits are given: pass what enters {hidden!r} as a "
            "tensor, hidden=…"
        )
    if isinstance(hidden, Tensor):
        inputs["hidden"] = hidden
    if "known" in method.optional_inputs:
        result._fitted_on = fingerprints(part)
        if getattr(part, "node_ids", None) is not None:
            fit.setdefault("node_ids", part.node_ids)
    method.fit(logits, part.y, mask=mask, train_mask=train_mask, **inputs, **fit)
    return result


def _first_run(calibrated: CalibratedModel, data: Any, hidden: Any) -> tuple[Tensor, Any]:
    """Logits and what enters the last layer; which layer that is, is kept."""
    model, how = calibrated.model, calibrated._call or call
    if hidden == "auto" and isinstance(hidden, str):
        with evaluating(model):
            output, last = run_and_find(model, lambda: how(model, data), calibrated.node_type)
        logits = as_logits(output, model, calibrated.node_type)
        hidden = None if last is None else last.entered
        calibrated.hidden_layer = None if last is None else last.name
    else:
        if isinstance(hidden, str):
            layer_named(model, hidden)
            calibrated.hidden_layer = hidden
        logits, seen = calibrated._run(lambda: how(model, data))
        hidden = hidden if seen is None else seen
    again, _ = calibrated._run(lambda: how(model, data), see=False)
    if logits.numel() and (again - logits).abs().max() > NOISE * logits.abs().max():
        warnings.warn(
            f"two runs of {type(model).__name__} in evaluation mode differ by "
            f"{float((again - logits).abs().max()):.2g}: something in it is random, such as "
            "F.dropout(x) without training=self.training; probabilities will differ as well",
            CalibrationWarning,
            stacklevel=3,
        )
    return logits, hidden


def _unfitted(calibrator: Calibrator | str | None) -> Calibrator:
    if calibrator is None:
        return SimiMailbox()
    if isinstance(calibrator, str):
        return calibrators.get(calibrator)()
    if not isinstance(calibrator, Calibrator):
        raise TypeError(
            f"calibrator must be a Calibrator or its name, got {type(calibrator).__name__}"
        )
    copy: Calibrator = clone(calibrator)
    return copy
