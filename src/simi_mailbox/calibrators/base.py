"""The contract that every calibrator obeys."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from simi_mailbox._arrays import Bools, Floats, Ints
from simi_mailbox.calibrators.parts.fitted_values import Shapes, check_values
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.parameters import Fitted, Kind, check_parameters
from simi_mailbox.softmax import (
    LogitRange,
    keep_argmax,
    scaled_softmax,
    size_of_pass,
    threads_for,
)
from simi_mailbox.validation import (
    CalibrationData,
    Forward,
    InputType,
    Labelled,
    NodeInputs,
    are_log_probabilities,
    clip,
    moved,
    read_calibration,
    read_known,
    read_labels,
    read_node_ids,
    read_nodes,
    read_prior_shift,
)

Holdout = Literal["training", "separate"] | None


class Calibrator(Fitted, ABC):
    """Turns the logits of a trained GNN into calibrated probabilities.

    Hyper-parameters are keyword-only arguments of the constructor, stored untouched, and declared
    with what they may be (`simi_mailbox.parameters`). Fitted values end in an underscore. A method
    implements `_fit` and `_predict`; everything that can be wrong with what a user passes is dealt
    with here. ``get_params``, ``set_params``, ``repr`` and ``clone`` are scikit-learn's.

    Attributes
    ----------
    name : str
        Name in the registry.
    required_inputs : frozenset of str
        What the method needs besides logits and labels: ``"graph"``, ``"features"``,
        ``"forward"``.
    optional_inputs : frozenset of str
        What it can make use of besides: ``"hidden"``, ``"used_for_selection"``,
        ``"sample_weight"``, and ``"known"`` for the labels of ``predict_proba(known=…)``: others
        are not given these.
    keep_classes : bool
        Whether predicted classes are guaranteed to stay as they were.
    holdout : {"training", "separate"} or None
        What published tables pass as ``early_stopping_mask``: the nodes that the GNN was trained
        on, labelled nodes of the method's own, or nothing.
    shift_invariant : bool
        Whether a number added to all logits of a node leaves its probabilities as they are.
        Log-probabilities have lost that number: a method for which it matters warns of them.
    version : int
        Counts changes of what ``fit`` and ``predict_proba`` compute. Stored results carry it, so
        that a changed method is measured again.

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
    same number everywhere, ``"classes"`` for that of the classes; ``()`` is a single number."""

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
            Raw outputs of the trained model for all nodes (NumPy or torch), or what ``input_type``
            says.
        y : array [n] or [m]
            Labels 0..K-1, of all nodes in their order, or of the ``m`` nodes of ``mask`` in its
            order. Labels outside the masks are cut off before any method sees them and may hold
            anything.
        mask : array
            The calibration nodes: boolean [n] or indices [m], in any order; the result does not
            depend on it.
        graph
            A `Graph`, a PyG ``Data``, a DGL graph, a SciPy sparse matrix or an edge index [2, E].
        early_stopping_mask : array, optional
            Other labelled nodes, used only by methods that stop early. With it, ``y`` must have
            full length.
        features : array or sparse matrix [n, d], optional
            Node features, for methods that need them.
        forward : callable, optional
            ``forward(edge_weight) -> logits`` of the frozen GNN, for methods that need it.
        train_mask : array, optional
            The nodes that the GNN was trained on. They must not be calibration nodes: a model is
            more confident, and more often right, on what it was trained on. Methods that treat them
            apart (GATS) use which nodes they are. Their labels are not read.
        hidden : array [n, d], optional
            What enters the GNN's last layer, for methods that can make use of it (`SimiMailbox`).
        used_for_selection : bool
            Whether the calibration nodes had a part in choosing the GNN's checkpoint: some methods
            correct for the selection bias of such nodes.
        node_ids : array [n] of integers or strings, optional
            Names of the nodes that stay the same on other graphs, for methods that use the labels
            of ``fit`` as evidence in ``predict_proba`` (`SimiMailbox`).
        input_type : str
            What ``logits`` holds, never guessed: "logits", "log-probabilities" or "probabilities"
            of all classes; "binary-logits" or "binary-probabilities" of the second of two.
            ``predict_proba`` then expects the same.
        allow_training_nodes : bool
            Insist on calibration nodes that are in ``train_mask``.
        sample_weight : array [n] or [m], optional
            What each label counts, for labels that were collected by a known policy: 1 / P(the
            label was collected). For methods that can weigh labels (`optional_inputs`).
        prior_shift : dict, optional
            Undo another class balance in training, exactly, before anything is fitted:
            ``{"trained": shares, "deployed": shares}``, or ``{"class_weights": weights}`` of the
            loss. Kept for ``predict_proba``.

        Returns
        -------
        self
        """
        method = type(self).__name__
        passed = (graph, features, forward, train_mask, hidden)
        nodes = read_nodes(self.required_inputs, method, logits, *passed, input_type=input_type)
        offset = None if prior_shift is None else read_prior_shift(prior_shift, nodes.num_classes)
        nodes = nodes if offset is None else moved(nodes, offset)
        if sample_weight is not None and "sample_weight" not in self.optional_inputs:
            raise TypeError(f"{method} cannot weigh labels: leave sample_weight=, or use another")
        if node_ids is not None:
            nodes = replace(nodes, node_ids=read_node_ids(node_ids, nodes.num_nodes))
        data = read_calibration(
            nodes,
            y,
            mask,
            early_stopping_mask,
            allow_training_nodes=allow_training_nodes,
            used_for_selection=used_for_selection,
            sample_weight=sample_weight,
        )
        del y  # from here on, no other label exists
        if not self.shift_invariant and are_log_probabilities(nodes.logits):
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
        n, k = nodes.num_nodes, nodes.num_classes
        try:
            with threads_for(size_of_pass(n, k, nodes.graph)):
                self._fit(clip(data, limits))
        except BaseException:
            self._forget()  # a failed fit leaves an unfitted calibrator, not half of one
            raise
        self.num_classes_ = k
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

        The nodes and the graph need not be those that ``fit`` saw; ``train_mask`` says which of
        them the GNN was trained on, for methods that treat these apart, and ``hidden`` is what it
        was at ``fit``. ``logits`` holds what it held at ``fit``, unless ``input_type`` says
        otherwise. ``known``, a pair (nodes, labels), names labels that are known by now, for
        methods that take them as evidence on other nodes. ``node_ids`` says which nodes of ``fit``
        these are: the same names, or, where ``fit`` was given none, their positions there.
        """
        given = {"features": features, "forward": forward, "train_mask": train_mask}
        given |= {"hidden": hidden, "known": known, "node_ids": node_ids}
        nodes = self._read_fitted(logits, graph=graph, **given, input_type=input_type)
        with threads_for(size_of_pass(nodes.num_nodes, nodes.num_classes, nodes.graph)):
            probs = self._predict(nodes).detach().to(nodes.logits.dtype)
        if self.keep_classes:
            keep_argmax(probs, nodes.logits)
        probs = self._logit_range.restore(probs)
        if isinstance(logits, Tensor):
            return probs.to(logits.device)
        return probs.numpy()

    def score(self, logits: Any, y: Any, *, mask: Any, **inputs: Any) -> float:
        """Mean log-likelihood of the labels of ``mask``: minus the NLL, so that more is better.

        Judge on nodes that ``fit`` has not seen. ``inputs`` are those of ``predict_proba``.
        """
        from simi_mailbox.metrics import nll

        probs = self.predict_proba(logits, **inputs)
        n, k = probs.shape
        judged = read_labels(y, mask, n, k, "mask")
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
        self,
        logits: Any,
        *,
        known: Any = None,
        node_ids: Any = None,
        input_type: InputType | None = None,
        **inputs: Any,
    ) -> NodeInputs:
        self._check_fitted()
        kind = self.input_type_ if input_type is None else input_type
        nodes = read_nodes(
            self.required_inputs, type(self).__name__, logits, **inputs, input_type=kind
        )
        if nodes.num_classes != self.num_classes_:
            raise ValueError(
                f"logits have {nodes.num_classes} classes, "
                f"but this calibrator was fitted on {self.num_classes_}"
            )
        limits = self._logit_range
        if hasattr(self, "offset_"):
            nodes = moved(nodes, self.offset_)
        if node_ids is not None:
            nodes = replace(nodes, node_ids=read_node_ids(node_ids, nodes.num_nodes))
        if known is not None:
            if "known" not in self.optional_inputs:
                raise TypeError(f"{type(self).__name__} makes no use of known labels: leave known=")
            nodes = replace(nodes, known=self._read_known(known, nodes.num_nodes))
        return clip(nodes, limits)

    def _read_known(self, known: Any, num_nodes: int) -> Labelled:
        """Labels that were named for a prediction, their classes as a method numbers them."""
        given = read_known(known, num_nodes, self.num_classes_)
        numbered = self._logit_range.number(given.y)
        if bool((numbered < 0).any()):
            label = int(given.y[numbered < 0][0])
            raise ValueError(f"known names class {label}, which was masked when it was fitted")
        return Labelled(given.index, numbered)

    @property
    def _logit_range(self) -> LogitRange:
        """The classes that are possible and the widest row, as ``fit`` found them."""
        return LogitRange(self.num_classes_, self.classes_, float(self.widest_))

    def _restore(self, state: dict[str, Any]) -> None:
        """Take the fitted values of a file, or raise `ValueError` if no fit can have left them."""
        check_parameters(self)
        self._check_params()
        check_values(self.fitted, state)
        for name, value in state.items():
            setattr(self, name, value)
        self._check_state()

    @classmethod
    def num_parameters(cls, num_classes: int) -> int:
        """How many numbers, shrunk ones counted in part, the labels of ``fit`` decide about.

        What `simi_mailbox.testing` grants to chance where labels tell nothing; class intercepts
        need no grant there.
        """
        return 10

    def _check_state(self) -> None:
        """Raise `ValueError` for values, just read from a file, that this method cannot leave."""


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
