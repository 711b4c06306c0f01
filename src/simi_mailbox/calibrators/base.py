"""The contract that every calibrator obeys."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from torch import Tensor

from simi_mailbox import parameters, validation
from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Fitted, Kind, check_parameters
from simi_mailbox.softmax import LogitRange, keep_argmax, scaled_softmax, size_of_pass, threads_for
from simi_mailbox.validation import CalibrationData, Forward, InputType, Labelled, NodeInputs

Holdout = Literal["training", "separate"] | None
Shapes = dict[str, tuple[str | int, ...]]  # of fitted values, by name; equal names, equal lengths
POSITIVE = frozenset({"temperature_", "temperatures_", "scale_", "spread_"})
ENDLESS = frozenset({"widest_"})  # fitted values that may be infinite


class Calibrator(Fitted, ABC):
    """Turns the logits of a trained GNN into calibrated probabilities.

    A method implements `_fit` and `_predict`; inputs are checked here.

    Attributes
    ----------
    name : str
        Name in the registry.
    required_inputs, optional_inputs : frozenset of str
        What it needs besides logits and labels: ``"graph"``, ``"features"``, ``"forward"``; what it
        can make use of: ``"hidden"``, ``"used_for_selection"``, ``"sample_weight"``, ``"known"``.
    keep_classes : bool
        Whether predicted classes are guaranteed to stay as they were.
    holdout : {"training", "separate"} or None
        What published tables pass as ``early_stopping_mask``: the nodes that the GNN was trained
        on, labelled nodes of the method's own, or nothing.
    shift_invariant : bool
        Whether a number added to all logits of a node changes nothing. Other methods warn of
        log-probabilities, which have lost that number.
    version : int
        Counts changes of what is computed: stored results of another version are measured again.

    Examples
    --------
    >>> from simi_mailbox import calibrators
    >>> cal = calibrators.get("temperature")().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4))
    >>> cal.predict_proba([[2.0, 0.0]]).round(2).tolist()
    [[0.75, 0.25]]
    """

    kind = Kind("calibrator", version=1)
    required_inputs: ClassVar[frozenset[str]] = frozenset()
    optional_inputs: ClassVar[frozenset[str]] = frozenset()
    keep_classes: bool = False
    holdout: ClassVar[Holdout] = None
    shift_invariant: ClassVar[bool] = True
    version: ClassVar[int] = 1

    fitted: ClassVar[Shapes] = {}
    """Fitted values that prediction needs, and their shapes: numbers, or names that stand for the
    same number everywhere (``"classes"``: that of the classes); ``()`` is a single number."""

    classes_: Ints
    widest_: float
    groups_: Ints
    at_bound_: Bools
    input_type_: InputType
    offset_: Floats

    def fit(
        self,
        logits: Any,
        y: Any,
        *,
        mask: Any,
        graph: Any = None,
        early_stopping_mask: Any = None,
        features: Any = None,
        forward: Forward | None = None,
        train_mask: Any = None,
        hidden: Any = None,
        used_for_selection: bool = True,
        node_ids: Any = None,
        input_type: InputType = "logits",
        allow_training_nodes: bool = False,
        sample_weight: Any = None,
        prior_shift: Any = None,
    ) -> Self:
        """Fit on the labels of the calibration nodes.

        Parameters
        ----------
        logits : array [n, K], or [n] or [n, 1] of a binary model
            Outputs of the trained model for all nodes (NumPy or torch); see ``input_type``.
        y : array [n] or [m]
            Labels 0..K-1, of all nodes or of the ``m`` nodes of ``mask`` in its order. Labels
            outside the masks are cut off before any method sees them.
        mask : array
            The calibration nodes: boolean [n] or indices [m], in any order.
        graph
            A `Graph`, a PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].
        early_stopping_mask : array, optional
            Other labelled nodes, for methods that stop early. ``y`` then has full length.
        features : array or sparse matrix [n, d], optional
            Node features, for methods that need them.
        forward : callable, optional
            ``forward(edge_weight) -> logits`` of the frozen GNN, for methods that need it.
        train_mask : array, optional
            The nodes that the GNN was trained on, where it is more confident and more often right:
            no calibration nodes, unless ``allow_training_nodes``. Their labels are not read.
        hidden : array [n, d], optional
            What enters the GNN's last layer, for methods that can make use of it (`SimiMailbox`).
        used_for_selection : bool
            Whether the calibration nodes had a part in choosing the GNN's checkpoint: some methods
            correct for the selection bias of such nodes.
        node_ids : array [n] of integers or strings, optional
            Names of the nodes that stay the same on other graphs, for methods that use the labels
            of ``fit`` as evidence in ``predict_proba`` (`SimiMailbox`).
        input_type : str
            What ``logits`` holds, here and in ``predict_proba``: "logits", "log-probabilities" or
            "probabilities"; of the second of two classes "binary-logits" or "binary-probabilities".
        sample_weight : array [n] or [m], optional
            What each label counts, for methods that can weigh labels: 1 / P(the label was
            collected), where that is known.
        prior_shift : dict, optional
            Undo another class balance in training before anything is fitted: ``{"trained":
            shares, "deployed": shares}``, or ``{"class_weights": weights}`` of the loss.
        """
        method, offset = type(self).__name__, None
        passed = (graph, features, forward, train_mask, hidden, node_ids, input_type)
        nodes = validation.read_nodes(self.required_inputs, method, logits, *passed)
        if prior_shift is not None:
            offset = validation.read_prior_shift(prior_shift, nodes.num_classes)
            nodes = validation.moved(nodes, offset)
        if sample_weight is not None and "sample_weight" not in self.optional_inputs:
            raise TypeError(f"{method} cannot weigh labels: leave sample_weight=, or use another")
        how = {"allow_training_nodes": allow_training_nodes, "sample_weight": sample_weight}
        how["used_for_selection"] = used_for_selection
        data = validation.read_calibration(nodes, y, mask, early_stopping_mask, **how)
        del y  # from here on, no other label exists
        if not self.shift_invariant and validation.are_log_probabilities(nodes.logits):
            warnings.warn(
                "every row of the logits sums to one after exp: these are log-probabilities, and "
                f"{method} depends on the offset that they have lost; pass the model's raw "
                "outputs, or use another method",
                CalibrationWarning,
                stacklevel=2,
            )
        check_parameters(self)
        self._check_params()
        self._forget()
        named = torch.cat([part.y for part in data.labelled.values()])
        limits = LogitRange.of(nodes.logits, named)
        try:
            with threads_for(size_of_pass(nodes.logits, nodes.graph)):
                self._fit(validation.clip(data, limits))
        except BaseException:
            self._forget()  # a failed fit leaves an unfitted calibrator, not half of one
            raise
        self.num_classes_ = nodes.num_classes
        if offset is not None:
            self.offset_ = offset
        self.input_type_, self.classes_, self.widest_ = input_type, limits.classes, limits.widest
        self._tell_bounds()
        return self

    def predict_proba(
        self,
        logits: Any,
        *,
        graph: Any = None,
        features: Any = None,
        forward: Forward | None = None,
        train_mask: Any = None,
        hidden: Any = None,
        known: Any = None,
        node_ids: Any = None,
        input_type: InputType | None = None,
    ) -> Any:
        """Calibrated probabilities [n, K], as NumPy or torch, whichever ``logits`` are.

        Inputs are those of ``fit``, of the same nodes and graph or of others. ``known``, a pair
        (nodes, labels), names labels that are known by now. ``node_ids`` says which nodes of
        ``fit`` these are: the same names, or, where ``fit`` was given none, their positions there.
        """
        given = {"features": features, "forward": forward, "train_mask": train_mask}
        given |= {"hidden": hidden, "node_ids": node_ids, "input_type": input_type}
        nodes = self._read_fitted(logits, graph=graph, known=known, **given)
        with threads_for(size_of_pass(nodes.logits, nodes.graph)):
            probs = self._predict(nodes).detach().to(nodes.logits.dtype)
        if self.keep_classes:
            keep_argmax(probs, nodes.logits)
        probs = self._logit_range.restore(probs)
        return probs.to(logits.device) if isinstance(logits, Tensor) else probs.numpy()

    def score(self, logits: Any, y: Any, *, mask: Any, **inputs: Any) -> float:
        """Mean log-likelihood of the labels of ``mask``, which ``fit`` should not have seen.

        ``inputs`` are those of ``predict_proba``.
        """
        from simi_mailbox.metrics import nll

        probs = self.predict_proba(logits, **inputs)
        n, k = probs.shape
        judged = validation.read_labels(y, mask, n, k, "mask")
        return -nll(probs[judged.index], judged.y)

    @abstractmethod
    def _fit(self, data: CalibrationData) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _predict(self, data: NodeInputs) -> Tensor:
        """Probabilities [n, K]."""

    def _check_params(self) -> None:
        """Raise `ValueError` if hyper-parameters, each allowed alone, make no sense together."""

    def _tell_bounds(self) -> None:
        """Warn of temperatures on a bound: there, labels have not chosen them."""
        stuck = np.flatnonzero(getattr(self, "at_bound_", []))
        if len(stuck) and len(self.at_bound_) > 1:
            nodes = int(np.isin(self.groups_, stuck).sum())
            warnings.warn(
                f"{len(stuck)} of {len(self.at_bound_)} groups, with {nodes} of "
                f"{len(self.groups_)} nodes, have their temperature on a bound: the calibration "
                "labels in them are all right, or no better than a guess, and probabilities there "
                "say 0 and 1, or nothing; use fewer groups or more labels",
                CalibrationWarning,
                stacklevel=3,
            )

    def _read_fitted(
        self, logits: Any, *, known: Any = None, input_type: InputType | None = None, **inputs: Any
    ) -> NodeInputs:
        self._check_fitted()
        method = type(self).__name__
        inputs["input_type"] = input_type or self.input_type_
        nodes = validation.read_nodes(self.required_inputs, method, logits, **inputs)
        if nodes.num_classes != self.num_classes_:
            raise ValueError(
                f"logits have {nodes.num_classes} classes, "
                f"but this calibrator was fitted on {self.num_classes_}"
            )
        if hasattr(self, "offset_"):
            nodes = validation.moved(nodes, self.offset_)
        if known is not None:
            if "known" not in self.optional_inputs:
                raise TypeError(f"{method} makes no use of known labels: leave known=")
            nodes = replace(nodes, known=self._read_known(known, nodes.num_nodes))
        return validation.clip(nodes, self._logit_range)

    def _read_known(self, known: Any, num_nodes: int) -> Labelled:
        """Labels that were named for a prediction, their classes as a method numbers them."""
        given = validation.read_known(known, num_nodes, self.num_classes_)
        return Labelled(given.index, self._numbered(given.y, "known names"))

    def _numbered(self, y: Tensor, told: str) -> Tensor:
        """Classes as a method numbers them."""
        numbered = self._logit_range.number(y)
        if bool((numbered < 0).any()):
            label = int(y[numbered < 0][0])
            raise ValueError(f"{told} class {label}, which was masked when it was fitted")
        return numbered

    @property
    def _logit_range(self) -> LogitRange:
        return LogitRange(self.num_classes_, self.classes_, float(self.widest_))

    def _restore(self, state: dict[str, Any]) -> None:
        """Take the fitted values of a file, or raise `ValueError` if no fit can have left them."""
        check_parameters(self)
        self._check_params()
        check_values(self.fitted, state)
        self.__dict__.update(state)

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        """How many numbers ``fit`` learns: what `simi_mailbox.testing` grants to chance."""
        return 10


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides each node's logits by a temperature: softmax(z_i / T_i).

    Examples
    --------
    >>> from simi_mailbox.calibrators import TemperatureScaling
    >>> cal = TemperatureScaling().fit([[2.0, 0.0]] * 4, [0, 0, 0, 1], mask=range(4))
    >>> cal.node_temperatures([[1.0, 0.0]]).round(2).tolist(), cal.keep_classes
    ([1.82], True)
    """

    keep_classes = True

    def node_temperatures(self, logits: Any, **inputs: Any) -> Any:
        """Temperature of every node [n], as NumPy or torch, whichever ``logits`` are.

        ``inputs`` are those of ``predict_proba``: ``graph=…`` and whatever else the method needs.
        """
        temperatures = self._temperatures(self._read_fitted(logits, **inputs)).detach()
        return temperatures if isinstance(logits, Tensor) else temperatures.numpy()

    @abstractmethod
    def _temperatures(self, data: NodeInputs) -> Tensor:
        """Positive temperature of every node [n]."""

    def _predict(self, data: NodeInputs) -> Tensor:
        return scaled_softmax(data.logits, self._temperatures(data))


# --- whether values that come from a file are such as a fit can leave -----------------------------


def check_values(shapes: Shapes, state: dict[str, Any]) -> None:
    """Raise `ValueError` unless these are the values of a fit, with the ``shapes`` of a method."""
    wrong = [name for name in state if not name.endswith("_") or name.startswith("_")]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no fitted value")
    classes = state.get("num_classes_")
    if type(classes) is not int or classes < 2:
        raise ValueError(f"num_classes_ must be a whole number ≥ 2, got {classes!r}")
    missing = {"classes_", "input_type_", "widest_", *shapes} - set(state)
    if missing:
        raise ValueError(f"{min(missing)} is missing")
    possible = np.asarray(state["classes_"])
    if possible.ndim != 1 or not np.isin(possible, np.arange(classes)).all():
        raise ValueError(f"classes_ must be some of 0..{classes - 1}")
    if state["input_type_"] not in get_args(InputType):
        raise ValueError(f"input_type_ must be one of {', '.join(get_args(InputType))}")
    parameters.check_numbers(state, ENDLESS)
    sizes: dict[str | int, int] = {"classes": len(np.unique(possible))}
    for name, shape in shapes.items():
        found = np.shape(state[name])
        if len(found) != len(shape) or np.asarray(state[name]).dtype.kind not in "iuf":
            kind = f"an array of {len(shape)} dimensions" if shape else "a number"
            raise ValueError(f"{name} must be {kind}")
        for side, length in zip(shape, found, strict=True):
            sizes.setdefault(side, length if isinstance(side, str) else side)
        expected = [sizes[side] for side in shape]
        if list(found) != expected:
            raise ValueError(f"{name} has shape {list(found)}, expected {expected}")
    for name in POSITIVE & set(state):
        if not np.min(state[name], initial=np.inf) > 0:
            raise ValueError(f"{name} must be positive, got {np.min(state[name]):.6g}")
