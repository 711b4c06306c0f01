"""Running the methods that a report compares."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simi_mailbox import calibrators
from simi_mailbox._arrays import Floats
from simi_mailbox.calibrators.base import Calibrator
from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.plain_text import plain
from simi_mailbox.report.inputs import ReportInputs
from simi_mailbox.softmax import scaled_softmax
from simi_mailbox.validation import as_numpy, read_probabilities

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
