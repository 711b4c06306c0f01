"""What a report is about: inputs as users pass them, and methods that are run on them."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox._arrays import Floats, Ints
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.graph import as_graph
from simi_mailbox.plain_text import plain
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.validation import (
    NO_LABEL,
    NodeInputs,
    as_numpy,
    read_classes,
    read_index,
    read_logits,
    read_probabilities,
)


@dataclass(frozen=True, kw_only=True)
class ReportInputs(NodeInputs):
    """Checked input: logits and graph of all nodes, and what follows; None if it was not given.

    Attributes
    ----------
    calibration, test, train : int64 arrays or None
        Node numbers.
    test_labels : int64 array or None
        Labels of just those nodes.
    labels : int64 [n] or None
        Labels that methods may be fitted with: of calibration and training nodes, −1 elsewhere.
    class_names : tuple of str

    Examples
    --------
    >>> inputs = read_inputs([[2.0, 0.0], [0.0, 1.0]], y=[0, 1], test=[1])
    >>> inputs.test_labels.tolist(), inputs.class_names
    ([1], ('0', '1'))
    """

    calibration: Ints | None
    test: Ints | None
    test_labels: Ints | None
    train: Ints | None
    labels: Ints | None
    class_names: tuple[str, ...]

    @property
    def labelled(self) -> Ints | None:
        """Nodes that distances are measured to: training nodes, or else calibration nodes."""
        return self.calibration if self.train is None else self.train

    @property
    def shown(self) -> Ints:
        """Nodes that the pictures are about: test nodes, or all if none were named."""
        return np.arange(self.num_nodes, dtype=np.int64) if self.test is None else self.test


def read_inputs(
    logits: Any,
    graph: Any = None,
    y: Any = None,
    calibration: Any = None,
    test: Any = None,
    train: Any = None,
    class_names: Sequence[str] | None = None,
) -> ReportInputs:
    """Check what a report is made from.

    Raises
    ------
    ValueError, TypeError
        If something has the wrong shape, or if a node is in two of the three sets.

    Examples
    --------
    >>> read_inputs([[2.0, 0.0], [0.0, 1.0]], y=[0, 1], calibration=[0], test=[1]).shown.tolist()
    [1]
    """
    z = read_logits(logits)
    n, k = int(z.shape[0]), int(z.shape[1])
    nobody = np.empty(0, dtype=np.int64)
    given = {"calibration": calibration, "train": train, "test": test}
    nodes = {
        name: nobody if index is None else read_index(index, n, name)
        for name, index in given.items()
    }
    for name, other in (("calibration", "test"), ("train", "test"), ("calibration", "train")):
        both = np.intersect1d(nodes[name], nodes[other])
        if both.size:
            raise ValueError(
                f"{both.size} nodes are both in {name} and in {other} (node {both[0]} is the "
                "first); a model looks better than it is on nodes it was fitted to: take them out "
                "of one of the two"
            )
    labels, test_labels = None, None
    if y is not None:
        # The shape of labels is checked even if nobody's is read.
        read = {name: read_classes(y, index, n, k, of=name) for name, index in nodes.items()}
        labels, test_labels = np.full(n, NO_LABEL, dtype=np.int64), read.pop("test")
        for name, classes in read.items():
            labels[nodes[name]] = classes
    return ReportInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, n),
        calibration=None if calibration is None else nodes["calibration"],
        test=None if test is None else nodes["test"],
        test_labels=None if test is None else test_labels,
        train=None if train is None else nodes["train"],
        labels=labels,
        class_names=_class_names(class_names, k),
    )


def _class_names(given: Sequence[str] | None, k: int) -> tuple[str, ...]:
    if given is None:
        return tuple(str(c) for c in range(k))
    if isinstance(given, str) or len(given) != k:
        raise ValueError(f"class_names must hold {k} names, got {given!r:.80}")
    return tuple(plain(str(name)) for name in given)


Methods = Sequence[Any] | Mapping[str, Any]

BEFORE = "uncalibrated"


@dataclass(frozen=True)
class Outcome:
    """Probabilities [n, K] of one method, its settings in words, and its warnings while fitting.

    ``calibrator`` is None for the uncalibrated model and for probabilities that were passed in.
    """

    name: str
    probs: Any
    calibrator: Calibrator | None
    settings: str
    warnings: tuple[str, ...] = ()


def run_methods(
    inputs: ReportInputs, methods: Methods, *, used_for_selection: bool = True
) -> tuple[list[Outcome], list[str]]:
    """Probabilities before calibration and after each method, and what could not be run.

    ``methods`` and ``used_for_selection`` are those of `write_report`.
    """
    before = scaled_softmax(inputs.logits).numpy()
    outcomes = [Outcome(BEFORE, before, None, "softmax(logits)")]
    missing = []
    taken = {BEFORE}
    for name, given in _named(methods):
        shown = _unused(name, taken)
        taken.add(shown)
        if isinstance(given, Calibrator):
            lacks = _lacks(given, inputs)
            if lacks:
                missing.append(f"{shown} was left out: {lacks}.")
                continue
            outcomes.append(_run(shown, given, inputs, used_for_selection))
        else:
            outcomes.append(Outcome(shown, _checked(shown, given, inputs), None, "given"))
    return outcomes, missing


def node_temperatures(outcome: Outcome, inputs: ReportInputs) -> Floats | None:
    """Temperature of every node, for methods that have one."""
    fitted = outcome.calibrator
    if not isinstance(fitted, calibrators.TemperatureCalibrator):
        return None
    temperatures = fitted.node_temperatures(
        inputs.logits, graph=inputs.graph, train_mask=inputs.train
    )
    return as_numpy(temperatures).astype(np.float64)


def _named(methods: Methods) -> Iterable[tuple[str, Any]]:
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list, got the string {methods!r}; write [{methods!r}]")
    if isinstance(methods, Mapping):
        pairs: Iterable[tuple[str, Any]] = methods.items()
    else:
        pairs = ((m if isinstance(m, str) else getattr(m, "name", ""), m) for m in methods)
    for name, given in pairs:
        if isinstance(given, str):
            if given == BEFORE:
                continue  # always there
            yield name, calibrators.get(given)()
        elif isinstance(given, type) and issubclass(given, Calibrator):
            yield name, given()
        elif name:
            yield name, given
        else:
            raise TypeError(
                f"cannot use {type(given).__name__} as a method: pass a name "
                f"({', '.join(calibrators.names())}), a calibrator, or a mapping from names to "
                "probabilities"
            )


def _unused(name: str, taken: set[str]) -> str:
    name = plain(str(name))
    shown, count = name, 2
    while shown in taken:
        shown, count = f"{name} ({count})", count + 1
    return shown


def _lacks(calibrator: Calibrator, inputs: ReportInputs) -> str:
    if "graph" in calibrator.required_inputs and inputs.graph is None:
        return "it needs a graph, and no edges were given"
    other = sorted(calibrator.required_inputs - {"graph"})
    if other:
        return f"it needs {' and '.join(other)}, which a report does not take"
    if not _is_fitted(calibrator):
        if inputs.calibration is None:
            return "no calibration nodes were named"
        if inputs.labels is None:
            return "no labels were given to calibrate with"
    return ""


def _is_fitted(calibrator: Calibrator) -> bool:
    return hasattr(calibrator, "num_classes_")


def _run(
    name: str, calibrator: Calibrator, inputs: ReportInputs, used_for_selection: bool
) -> Outcome:
    complaints: list[str] = []
    start = time.perf_counter()
    note = "fitted before"
    if not _is_fitted(calibrator):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CalibrationWarning)
            calibrator.fit(
                inputs.logits,
                inputs.labels,
                mask=inputs.calibration,
                graph=inputs.graph,
                early_stopping_mask=inputs.train,
                train_mask=inputs.train,
                used_for_selection=used_for_selection,
            )
        complaints = [
            str(warning.message).replace("train_mask", "train (--train)")  # as a report calls it
            for warning in caught
            if issubclass(warning.category, CalibrationWarning)
        ]
        note = f"fitted in {time.perf_counter() - start:.2f} s"
    probs = calibrator.predict_proba(
        inputs.logits, graph=inputs.graph, train_mask=inputs.train
    ).numpy()
    return Outcome(name, probs, calibrator, f"{calibrator!r}, {note}", tuple(complaints))


def _checked(name: str, given: Any, inputs: ReportInputs) -> Any:
    probs = as_numpy(given)
    shape = (inputs.num_nodes, inputs.num_classes)
    if probs.shape != shape:
        raise ValueError(
            f"probabilities of {name!r} have shape {list(probs.shape)}, expected {list(shape)}"
        )
    try:
        return read_probabilities(probs)
    except (ValueError, TypeError) as error:
        raise ValueError(f"rows of {name!r} are not probabilities: {error}") from error
