"""A model and its calibrator as one module."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import torch
from sklearn.base import clone
from torch import Tensor, nn

from simi_mailbox import calibrators
from simi_mailbox.calibrators import Calibrator, SimiMailbox
from simi_mailbox.pyg.batches import calibrator_hops, check_batch, model_hops
from simi_mailbox.pyg.calls import as_logits, call, evaluating, features_of, graph_of

Call: TypeAlias = Callable[[nn.Module, Any], Tensor]


class CalibratedModel(nn.Module):
    """Called like the model it holds; returns calibrated log-probabilities instead of logits.

    The model is always run in evaluation mode and without gradients: this is for prediction, not
    for training, and no gradient flows through it. The result lies on the device of the model's
    logits; the calibrator itself works on the CPU. Log-probabilities are finite: of a class that
    cannot be they are as low as the number format allows.

    ``state_dict`` holds the model's weights and the fitted calibrator (as the bytes of its file, a
    tensor), so that ``torch.load(…, weights_only=True)`` reads it. To load one, wrap a model of the
    same shape: ``CalibratedModel(model).load_state_dict(state)``.

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
    >>> calibrated(logits, edges).exp().sum(dim=1)[:3]
    tensor([1.0000, 1.0000, 1.0000])
    """

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
        self._call, self._model_hops = call, num_hops

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Log-probabilities [n, K]; the arguments are the model's."""
        with evaluating(self.model):
            logits = as_logits(self.model(*args, **kwargs), self.model)
        graph = graph_of(self.model, args, kwargs)
        return self.from_logits(logits, graph, features_of(self.model, args, kwargs))

    def on(self, data: Any, *, node_ids: Any = None) -> Tensor:
        """Log-probabilities of the nodes of a ``Data``; ``numbers`` as of `from_logits`."""
        features, logits = getattr(data, "x", None), logits_on(self.model, data, self._call)
        return self.from_logits(logits, data, features, node_ids=node_ids)

    def from_logits(
        self, logits: Tensor, graph: Any = None, features: Any = None, *, node_ids: Any = None
    ) -> Tensor:
        """Log-probabilities of all nodes from their logits; the model is not run.

        For logits that were computed before, such as by PyG's layer-wise ``inference``. ``graph``
        is whatever calibrators take; it and ``features`` may be left out if the method does not
        need them. ``numbers`` are those of the nodes, if they are a part of the graph that the
        calibrator was fitted on.
        """
        needs = self.calibrator.required_inputs
        if "graph" in needs and graph is None:
            raise TypeError(
                f"no graph is among the arguments of {type(self.model).__name__}: use "
                "from_logits(logits, graph) or on(data)"
            )
        given = {"graph": graph, "features": features}
        inputs = {name: value for name, value in given.items() if name in needs}
        if node_ids is not None and "known" in self.calibrator.optional_inputs:
            inputs["node_ids"] = node_ids
        probs: Tensor = self.calibrator.predict_proba(logits, **inputs)
        return probs.clamp_(min=torch.finfo(probs.dtype).tiny).log_()

    def seeds(self, batch: Any, nodes: Any = None, *, check: bool = True) -> Tensor:
        """Log-probabilities of the seed nodes of a mini-batch, as on the whole graph.

        The logits of all nodes of the batch are computed, since those of the seeds' neighbours
        matter; those of nodes near the rim are wrong, and not returned.

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
        """
        if nodes is None:
            size = getattr(batch, "batch_size", None)
            if size is None:
                raise TypeError("which nodes are seeds? pass their numbers in the batch, nodes=…")
            nodes = torch.arange(int(size))
        index = torch.as_tensor(nodes)
        if check:
            check_batch(batch, index, self.num_hops)
        node_ids = getattr(batch, "node_number", getattr(batch, "n_id", None))
        log_probs = self.on(batch, node_ids=node_ids)
        return log_probs[index.to(log_probs.device)]

    @property
    def num_hops(self) -> int:
        """Hops that a mini-batch must hold around its seeds: the model's and the calibrator's."""
        hops = model_hops(self.model) if self._model_hops is None else self._model_hops
        return hops + calibrator_hops(self.calibrator)

    def get_extra_state(self) -> Tensor:
        """The calibrator's file, byte by byte."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.safetensors"
            self.calibrator.save(path)
            return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Read the calibrator that `get_extra_state` wrote."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.safetensors"
            path.write_bytes(state.cpu().numpy().tobytes())
            self.calibrator = calibrators.load(path)

    def extra_repr(self) -> str:
        """Name the calibrator, which is no module, in ``print(calibrated)``."""
        return f"(calibrator): {self.calibrator!r}"


def calibrate(
    model: nn.Module,
    data: Any,
    mask: Any = None,
    calibrator: Calibrator | str | None = None,
    *,
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
    data : Data
        PyG's, with the model's inputs, ``edge_index`` and ``y``. Labels outside the mask
        are not read.
    mask : array, optional
        The calibration nodes, boolean or indices, which the model was not trained on; by default
        ``data.val_mask``.
    calibrator : Calibrator or str, optional
        A calibrator, which is copied, or its name; by default `SimiMailbox`.
    train_mask : array, optional
        The nodes that the model was trained on; by default ``data.train_mask``, if there is one.
        Methods that take known labels as evidence (`SimiMailbox`) read their labels.
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
    if mask is None:
        mask = getattr(data, "val_mask", None)
    if hasattr(data, "edge_index_dict"):
        raise TypeError(
            f"this {type(data).__name__} has several kinds of nodes or edges: calibrate the kind "
            "that is classified by a calibrator itself, with its logits and the edges among it"
        )
    if getattr(data, "y", None) is None:
        raise TypeError("data has no labels: calibration needs data.y of the nodes of the mask")
    if train_mask is None:
        train_mask = getattr(data, "train_mask", None)
        if train_mask is not None and train_mask.ndim != 1:
            train_mask = None  # several splits: which one is not said
    result = CalibratedModel(model, _unfitted(calibrator), call=call, num_hops=num_hops)
    given = {"graph": data, "features": getattr(data, "x", None)}
    inputs = {
        name: value for name, value in given.items() if name in result.calibrator.required_inputs
    }
    if "forward" in result.calibrator.required_inputs:
        raise TypeError(
            f"{type(result.calibrator).__name__} runs the model with edge weights of its own, "
            "which a wrapped model cannot offer: use the calibrator itself"
        )
    if logits is None:
        logits = logits_on(model, data, call)
    result.calibrator.fit(logits, data.y, mask=mask, train_mask=train_mask, **inputs, **fit)
    return result


def logits_on(model: nn.Module, data: Any, how: Call | None = None) -> Tensor:
    """Logits of the nodes of a ``Data``, in evaluation mode and without gradients."""
    with evaluating(model):
        return as_logits((call if how is None else how)(model, data), model)


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
