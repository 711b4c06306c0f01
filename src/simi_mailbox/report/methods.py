"""What a report is about: inputs as users pass them, and methods that are run on them."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
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
    """Checked input: logits and graph of all nodes, and node numbers; None if not given.

    Methods may be fitted with ``labels`` [n]: of calibration and training nodes, −1 elsewhere.
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
    """Check what a report is made from: shapes, and that no node is in two of the three sets."""
    z = read_logits(logits)
    n, k = int(z.shape[0]), int(z.shape[1])
    names: Sequence[Any] = range(k) if class_names is None else class_names
    if isinstance(names, str) or len(names) != k:
        raise ValueError(f"class_names must hold {k} names, got {class_names!r:.80}")
    given = {"calibration": calibration, "train": train, "test": test}
    nodes = {name: read_index(v, n, name) for name, v in given.items() if v is not None}
    for name, other in combinations(nodes, 2):
        both = np.intersect1d(nodes[name], nodes[other])
        if both.size:
            raise ValueError(
                f"{both.size} nodes are both in {name} and in {other} (node {both[0]} is the "
                "first); a model looks better than it is on nodes it was fitted to: take them out "
                "of one of the two"
            )
    labels, test_labels = None, None
    if y is not None:
        labels = np.full(n, NO_LABEL, dtype=np.int64)
        read_classes(y, np.empty(0, dtype=np.int64), n, k)  # checks its shape, reads nobody's
        for name, index in nodes.items():
            read = read_classes(y, index, n, k, of=name)
            if name == "test":
                test_labels = read
            else:
                labels[index] = read
    parts: dict[str, Any] = {name: nodes.get(name) for name in given}
    return ReportInputs(
        logits=z,
        graph=None if graph is None else as_graph(graph, n),
        test_labels=test_labels,
        labels=labels,
        class_names=tuple(plain(str(name)) for name in names),
        **parts,
    )


Methods = Sequence[Any] | Mapping[str, Any]

BEFORE = "uncalibrated"


@dataclass(frozen=True)
class Outcome:
    """Probabilities [n, K] of one method, its settings in words, and its warnings while fitting.

    ``calibrator`` and ``temperatures`` [n] are None for methods without.
    """

    name: str
    probs: Any
    calibrator: Calibrator | None
    settings: str
    warnings: tuple[str, ...] = ()
    temperatures: Floats | None = None


def run_methods(
    inputs: ReportInputs, methods: Methods, *, used_for_selection: bool = True
) -> tuple[list[Outcome], list[str]]:
    """Probabilities before calibration and after each method, and what could not be run."""
    before = scaled_softmax(inputs.logits).numpy()
    outcomes = [Outcome(BEFORE, before, None, "softmax(logits)")]
    missing, taken = [], {BEFORE}
    for name, given in _named(methods):
        name = plain(str(name))
        shown = next(s for k in count(1) if (s := f"{name} ({k})" if k > 1 else name) not in taken)
        taken.add(shown)
        if not isinstance(given, Calibrator):
            outcomes.append(Outcome(shown, _checked(shown, given, inputs), None, "given"))
        elif lacks := _lacks(given, inputs):
            missing.append(f"{shown} was left out: {lacks}.")
        else:
            outcomes.append(_run(shown, given, inputs, used_for_selection))
    return outcomes, missing


def _named(methods: Methods) -> Iterable[tuple[str, Any]]:
    if isinstance(methods, str):
        raise TypeError(f"methods must be a list, got the string {methods!r}; write [{methods!r}]")
    if isinstance(methods, Mapping):
        pairs: Iterable[tuple[str, Any]] = methods.items()
    else:
        pairs = ((m if isinstance(m, str) else getattr(m, "name", ""), m) for m in methods)
    for name, given in pairs:
        if not name:
            raise TypeError(
                f"cannot use {type(given).__name__} as a method: pass a name "
                f"({', '.join(calibrators.names())}), a calibrator, or a mapping from names to "
                "probabilities"
            )
        if isinstance(given, str):
            if given == BEFORE:
                continue  # always there
            given = calibrators.get(given)()
        yield name, given


def _lacks(calibrator: Calibrator, inputs: ReportInputs) -> str:
    if "graph" in calibrator.required_inputs and inputs.graph is None:
        return "it needs a graph, and no edges were given"
    other = sorted(calibrator.required_inputs - {"graph"})
    if other:
        return f"it needs {' and '.join(other)}, which a report does not take"
    if not hasattr(calibrator, "num_classes_"):
        if inputs.calibration is None:
            return "no calibration nodes were named"
        if inputs.labels is None:
            return "no labels were given to calibrate with"
    return ""


def _run(
    name: str, calibrator: Calibrator, inputs: ReportInputs, used_for_selection: bool
) -> Outcome:
    complaints, note = [], "fitted before"
    given: Any = {"graph": inputs.graph, "train_mask": inputs.train}
    if not hasattr(calibrator, "num_classes_"):
        chosen = {"mask": inputs.calibration, "early_stopping_mask": inputs.train, **given}
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CalibrationWarning)
            calibrator.fit(
                inputs.logits, inputs.labels, used_for_selection=used_for_selection, **chosen
            )
        complaints = [
            str(warning.message).replace("train_mask", "train (--train)")  # as a report calls it
            for warning in caught
            if issubclass(warning.category, CalibrationWarning)
        ]
        note = f"fitted in {time.perf_counter() - start:.2f} s"
    probs, temperatures = calibrator.predict_proba(inputs.logits, **given).numpy(), None
    if isinstance(calibrator, calibrators.TemperatureCalibrator):
        found = calibrator.node_temperatures(inputs.logits, **given)
        temperatures = as_numpy(found).astype(np.float64)
    settings = f"{calibrator!r}, {note}"
    return Outcome(name, probs, calibrator, settings, tuple(complaints), temperatures)


def _checked(name: str, given: Any, inputs: ReportInputs) -> Any:
    probs, shape = as_numpy(given), [inputs.num_nodes, inputs.num_classes]
    try:
        if list(probs.shape) != shape:
            raise ValueError(f"they have shape {list(probs.shape)}, expected {shape}")
        return read_probabilities(probs)
    except (ValueError, TypeError) as error:
        raise ValueError(f"rows of {name!r} are not probabilities: {error}") from error
