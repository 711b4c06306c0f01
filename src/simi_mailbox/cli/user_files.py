"""From the files and options of a command to a problem, a calibrator, and what it did."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simi_mailbox.cli.console import working
from simi_mailbox.exceptions import CalibrationWarning

if TYPE_CHECKING:
    from simi_mailbox.calibrators import Calibrator
    from simi_mailbox.node_files import Problem

CLASS_NAMES = "class_names_"
"""Fitted value in which a calibrator remembers what the classes are called."""
FROM_FILES = ("graph", "features")
"""What a method may need that a file can hold."""
_PARTS = (
    *("edges", "labels", "calibration", "test", "train"),
    *("features", "hidden", "known", "ids", "classes"),
)


def read(source: Path, options: Mapping[str, Any], kind: str = "logits") -> Problem:
    """The problem that the files of a command describe."""
    from simi_mailbox.node_files import read_problem

    with working(f"reading {source}"):
        return read_problem(
            source,
            values="probabilities" if per_class(kind) == "probabilities" else "logits",
            files={part: options.get(part) for part in _PARTS},
            id_column=options.get("id_column"),
            encoding=options.get("encoding"),
            binary=kind.startswith("binary-"),
            positive=options.get("positive"),
            drop_unknown=options.get("unknown") == "drop",
        )


def per_class(kind: str) -> Any:
    """What the columns of a problem hold: one score per node was made two when it was read."""
    return kind.removeprefix("binary-")


def positive_class(problem: Problem, positive: str | None) -> int | None:
    """The number of the class that ``--positive`` names; None if nothing was named."""
    from simi_mailbox.validation import read_positive

    if positive is None:
        return None
    names = problem.nodes.classes
    if positive.isdecimal() and positive not in (names or ()):
        return read_positive(int(positive), problem.values.shape[1])
    return read_positive(positive, problem.values.shape[1], names)


def probabilities_of(problem: Problem, kind: Any) -> Any:
    """The probabilities of all nodes, whatever the first file holds."""
    from simi_mailbox.softmax import scaled_softmax
    from simi_mailbox.validation import read_logits

    if per_class(kind) == "probabilities":
        return problem.values
    return scaled_softmax(read_logits(problem.values, per_class(kind))).numpy()


def calibrator_of(method: str, settings: Sequence[str]) -> Calibrator:
    """An unfitted calibrator with its parameters set."""
    from simi_mailbox import calibrators

    calibrator = calibrators.get(method)()
    others = sorted(calibrator.required_inputs - set(FROM_FILES))
    if others:
        raise ValueError(
            f"{method} needs {' and '.join(others)}, a function of the trained model: "
            "no file holds it, so use it from Python"
        )
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise ValueError(f"--set {setting}: write it as NAME=VALUE, such as n_groups=10")
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = text
        calibrator.set_params(**{name.strip().replace("-", "_"): value})
    return calibrator


def missing_parts(needs: frozenset[str], problem: Problem) -> list[str]:
    """Options that a method needs and the problem lacks."""
    given = {"graph": problem.graph, "features": problem.features}
    options = {
        "graph": "--edges FILE",
        "features": "--features FILE",
        "forward": "the model itself (from Python)",
    }
    return [options[part] for part in sorted(needs) if given.get(part) is None]


def calibration_nodes(problem: Problem, *, insist: bool | None = None) -> Any:
    """Nodes to calibrate with: those named, or all with a label if that leaves others.

    ``insist`` is what the user says of training nodes; None where a command has no such option.
    """
    rows = _calibration_nodes(problem)
    if not insist:
        why = "a model looks better than it is on nodes it was trained on; calibrate with others"
        why += "" if insist is None else ", or insist with --allow-training-nodes"
        refuse_shared(problem, {"calibration": rows, "train": problem.sets.get("train", [])}, why)
    return rows


def refuse_shared(problem: Problem, sets: Mapping[str, Any], why: str) -> None:
    """Raise if two sets have a node in common, and call it what the user calls it."""
    import numpy as np

    first, second = sets
    both = np.intersect1d(sets[first], sets[second])
    if both.size:
        shown = problem.nodes.shown()[int(both[0])]
        raise ValueError(
            f"{both.size:,} nodes are both in --{first} and in --{second} (the first is {shown}): "
            f"{why}"
        )


def _calibration_nodes(problem: Problem) -> Any:
    if problem.labels is None:
        raise ValueError("labels are missing: give --labels FILE")
    if "calibration" in problem.sets:
        rows = problem.sets["calibration"]
        unknown = rows[problem.labels[rows] < 0]
        if unknown.size:
            raise ValueError(
                f"{unknown.size} of the {rows.size} calibration nodes have no label (the first is "
                f"{problem.nodes.shown()[unknown[0]]}): take them out of --calibration"
            )
        return rows
    rows = problem.labelled("labels")
    if rows.size == problem.nodes.count:
        raise ValueError(
            "every node has a label: say which to calibrate with, --calibration FILE (nodes that "
            "the model was not trained on)"
        )
    return rows


def fitted(
    calibrator: Calibrator,
    problem: Problem,
    *,
    kind: str,
    method: str,
    insist: bool,
    used_for_selection: bool,
) -> Any:
    """Fit on the calibration nodes, and return them."""
    rows = calibration_nodes(problem, insist=insist)
    missing = missing_parts(calibrator.required_inputs, problem)
    if missing:
        raise ValueError(f"{method} needs {' and '.join(missing)}")
    tell_if_unused(used_for_selection, [calibrator])
    given = inputs(calibrator, problem, kind)
    with working(f"fitting {method} on {rows.size:,} nodes"):
        calibrator.fit(
            problem.values,
            problem.labels,
            mask=rows,
            early_stopping_mask=holdout(calibrator, problem),
            allow_training_nodes=insist,
            used_for_selection=used_for_selection,
            **given,
        )
    calibrator.input_type_ = kind  # type: ignore[assignment]  # of the file, for apply
    return rows


def tell_if_unused(used_for_selection: bool, chosen: Sequence[Calibrator]) -> None:
    """Warn that ``--not-used-for-selection`` changes nothing, as no method corrects for it."""
    asked = any("used_for_selection" in calibrator.optional_inputs for calibrator in chosen)
    if not (used_for_selection or asked):
        names = ", ".join(calibrator.name for calibrator in chosen)
        text = (
            f"--not-used-for-selection changes nothing: selection bias is not corrected by {names}"
        )
        warnings.warn(text, CalibrationWarning, stacklevel=2)


def inputs(calibrator: Calibrator, problem: Problem, kind: str) -> dict[str, Any]:
    """What a method is given besides logits and labels, to fit and to predict."""
    return {
        "graph": problem.graph,
        "features": problem.features if "features" in calibrator.required_inputs else None,
        "hidden": problem.hidden if "hidden" in calibrator.optional_inputs else None,
        "train_mask": problem.sets.get("train"),
        "node_ids": problem.nodes.texts if "known" in calibrator.optional_inputs else None,
        "input_type": per_class(kind),
    }


def known_labels(calibrator: Calibrator, problem: Problem) -> dict[str, Any]:
    """Labels of ``--known`` as ``predict_proba`` takes them; nothing if there are none."""
    if problem.known is None:
        return {}
    if "known" not in calibrator.optional_inputs:
        raise ValueError(f"{calibrator.name} makes no use of known labels: leave out --known")
    rows = (problem.known >= 0).nonzero()[0]
    return {"known": (rows, problem.known[rows])}


def holdout(calibrator: Calibrator, problem: Problem) -> Any:
    """Training nodes with a label, for methods that stop early on them."""
    return _labelled_training(problem) if calibrator.holdout == "training" else None


def _labelled_training(problem: Problem) -> Any:
    rows = problem.sets.get("train")
    if rows is None or problem.labels is None:
        return None
    rows = rows[problem.labels[rows] >= 0]
    return rows if rows.size else None


def same_classes(calibrator: Calibrator, problem: Problem, path: Path) -> Problem:
    """The problem with its classes as the calibrator knows them, whatever order the file has."""
    import numpy as np

    known, given = getattr(calibrator, CLASS_NAMES, None), problem.nodes.classes
    if known is None or len(known) != problem.values.shape[1]:
        return problem
    if given is None or sorted(given) == sorted(known):
        order = range(len(known)) if given is None else [given.index(name) for name in known]
        nodes = replace(problem.nodes, classes=tuple(known))
        labels = problem.known
        if labels is not None:  # −1, an unknown label, stays what it is
            labels = np.append(np.argsort(list(order)), -1)[labels]
        columns = list(order)
        return replace(problem, values=problem.values[:, columns], nodes=nodes, known=labels)
    strange = next(name for name in given if name not in known)
    raise ValueError(f"{path} knows no class {strange!r}; it was fitted on: {', '.join(known)}")


def facts(problem: Problem, rows: Any, calibrator: Calibrator) -> dict[str, Any]:
    """What a calibrator was fitted on; from here on it also knows the names of the classes."""
    if problem.nodes.classes is not None:
        setattr(calibrator, CLASS_NAMES, list(problem.nodes.classes))
    return {
        "method": calibrator.name,
        "nodes": problem.nodes.count,
        "classes": problem.values.shape[1],
        "calibration_nodes": int(rows.size),
        "calibration_is": "as named" if "calibration" in problem.sets else "all labelled nodes",
    }


def changes(problem: Problem, probs: Any, calibrator: Calibrator, kind: Any) -> dict[str, Any]:
    """What calibration did to all nodes; no label is read."""
    from simi_mailbox.softmax import confidence
    from simi_mailbox.validation import read_logits

    before = confidence(read_logits(problem.values, per_class(kind)))
    return {
        "method": calibrator.name,
        "nodes": problem.nodes.count,
        "mean_confidence_before": float(before.mean()),
        "mean_confidence_after": float(probs.max(axis=1).mean()),
        "predictions_changed": int((probs.argmax(1) != problem.values.argmax(1)).sum()),
    }
