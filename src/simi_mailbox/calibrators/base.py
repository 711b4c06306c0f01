"""The contract that every calibrator obeys."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from simi_mailbox.calibrators import io
from simi_mailbox.exceptions import NotFittedError
from simi_mailbox.inputs import (
    CalibrationData,
    Forward,
    NodeInputs,
    read_labels,
    read_nodes,
)
from simi_mailbox.temperature import scaled_softmax

Holdout = Literal["training", "separate"] | None


class Calibrator(ABC):
    """Turns the logits of a trained GNN into probabilities that mean what they say.

    Hyper-parameters are keyword-only arguments of the constructor, stored untouched. Fitted values
    end in an underscore. A method implements `_fit` and `_predict`; everything that can be wrong
    with what a user passes is dealt with here.

    Attributes
    ----------
    name : str
        Name in the registry.
    needs : frozenset of str
        What the method needs besides logits and labels: ``"graph"``, ``"features"``,
        ``"forward"``.
    preserves_accuracy : bool
        Whether predicted classes are guaranteed to stay as they were.
    holdout : {"training", "separate"} or None
        What published tables pass as ``holdout_mask``: the nodes that the GNN was trained on,
        labelled nodes of the method's own, or nothing.
    version : int
        Counts changes of what ``fit`` and ``predict_proba`` compute. Stored results carry it, so
        that a changed method is measured again.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[frozenset[str]] = frozenset()
    preserves_accuracy: ClassVar[bool] = False
    holdout: ClassVar[Holdout] = None
    version: ClassVar[int] = 1

    num_classes_: int

    def fit(
        self,
        logits: Any,
        y: Any,
        *,
        mask: Any,
        graph: Any = None,
        holdout_mask: Any = None,
        features: Any = None,
        forward: Forward | None = None,
    ) -> Self:
        """Fit on the labels of the calibration nodes.

        Parameters
        ----------
        logits : array [n, K]
            Raw outputs of the trained model for all nodes (NumPy or torch); not probabilities.
        y : array [n] or [m]
            Labels 0..K-1, of all nodes or of the ``m`` nodes of ``mask``. Labels outside the masks
            are cut off before any method sees them and may hold anything.
        mask : array
            The calibration nodes: boolean [n] or indices [m].
        graph
            A `Graph`, a PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].
        holdout_mask : array, optional
            Other labelled nodes, used only by methods that stop early. With it, ``y`` must have
            full length.
        features : array or sparse matrix [n, d], optional
            Node features, for methods that need them.
        forward : callable, optional
            ``forward(edge_weight) -> logits`` of the frozen GNN, for methods that need it.

        Returns
        -------
        self
        """
        nodes = read_nodes(self.needs, type(self).__name__, logits, graph, features, forward)
        n, k = nodes.num_nodes, nodes.num_classes
        calibration = read_labels(y, mask, n, k, "mask")
        holdout = None
        if holdout_mask is not None:
            if len(y) != n:
                raise ValueError(f"holdout_mask needs labels of full length {n}, got {len(y)}")
            holdout = read_labels(y, holdout_mask, n, k, "holdout_mask")
        del y  # from here on, no other label exists
        self._check_params()
        self._forget()
        try:
            self._fit(CalibrationData(**vars(nodes), calibration=calibration, holdout=holdout))
        except BaseException:
            self._forget()  # a failed fit leaves an unfitted calibrator, not half of one
            raise
        self.num_classes_ = k
        return self

    def predict_proba(
        self,
        logits: Any,
        *,
        graph: Any = None,
        features: Any = None,
        forward: Forward | None = None,
    ) -> Any:
        """Calibrated probabilities [n, K], as NumPy or torch, whichever ``logits`` are.

        The nodes and the graph need not be those that ``fit`` saw.
        """
        nodes = self._read_fitted(logits, graph, features, forward)
        probs = self._predict(nodes).detach().to(nodes.logits.dtype)
        if self.preserves_accuracy:
            keep_argmax(probs, nodes.logits)
        if isinstance(logits, Tensor):
            return probs.to(logits.device)
        return probs.numpy()

    @abstractmethod
    def _fit(self, data: CalibrationData) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _predict(self, data: NodeInputs) -> Tensor:
        """Probabilities [n, K]."""

    def _check_params(self) -> None:  # noqa: B027
        """Raise `ValueError` if a hyper-parameter makes no sense."""

    def _read_fitted(
        self, logits: Any, graph: Any, features: Any, forward: Forward | None
    ) -> NodeInputs:
        if not hasattr(self, "num_classes_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: call fit(...) first"
            )
        nodes = read_nodes(self.needs, type(self).__name__, logits, graph, features, forward)
        if nodes.num_classes != self.num_classes_:
            raise ValueError(
                f"logits have {nodes.num_classes} classes, "
                f"but this calibrator was fitted on {self.num_classes_}"
            )
        return nodes

    # --- parameters, state, files -------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Hyper-parameters by name (scikit-learn's convention; ``deep`` changes nothing)."""
        return {name: getattr(self, name) for name in _parameter_names(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Change hyper-parameters; takes effect at the next ``fit``."""
        known = _parameter_names(type(self))
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has: {', '.join(known) or 'none'}"
                )
            setattr(self, name, value)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator to one file (safetensors; written whole or not at all)."""
        if not hasattr(self, "num_classes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted: nothing to save")
        io.save(path, self.name, self.get_params(), self._state())

    def _state(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}

    def _forget(self) -> None:
        for name in self._state():
            delattr(self, name)

    def __repr__(self) -> str:
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(type(self)).parameters.items()
        }
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if not _same(value, defaults[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides each node's logits by a temperature: softmax(z_i / T_i)."""

    preserves_accuracy: ClassVar[bool] = True

    def node_temperatures(
        self,
        logits: Any,
        *,
        graph: Any = None,
        features: Any = None,
        forward: Forward | None = None,
    ) -> Any:
        """Temperature of every node [n], as NumPy or torch, whichever ``logits`` are."""
        nodes = self._read_fitted(logits, graph, features, forward)
        temperatures = self._temperatures(nodes).detach()
        return temperatures if isinstance(logits, Tensor) else temperatures.numpy()

    def _predict(self, data: NodeInputs) -> Tensor:
        return scaled_softmax(data.logits, self._temperatures(data))

    @abstractmethod
    def _temperatures(self, data: NodeInputs) -> Tensor:
        """Positive temperature of every node [n]."""


def keep_argmax(probs: Tensor, logits: Tensor) -> None:
    """Undo, in place, ties that rounding made: the predicted class stays strictly on top.

    Dividing by a temperature keeps the order of the logits exactly, but two logits one rounding
    step apart may become equal; the smallest possible step up restores the winner.
    """
    winner = logits.argmax(dim=1)
    lost = (probs.argmax(dim=1) != winner).nonzero().flatten()
    if lost.numel():
        top = probs[lost].max(dim=1).values
        probs[lost, winner[lost]] = torch.nextafter(top, torch.full_like(top, torch.inf))


def _parameter_names(cls: type[Calibrator]) -> list[str]:
    return list(inspect.signature(cls).parameters)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray | Tensor) or isinstance(b, np.ndarray | Tensor):
        return a is b
    return bool(a == b)
