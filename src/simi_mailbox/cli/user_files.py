"""From the files and options of a command to a problem, a calibrator, and what it did."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simi_mailbox.cli.console import working
from simi_mailbox.cli.options import FILES, check_file

if TYPE_CHECKING:
    from simi_mailbox.calibrators import Calibrator
    from simi_mailbox.node_files import Problem

FROM_FILES = {"graph": "--edges", "features": "--features"}  # what a method may need of files


def read(source: Path, options: Mapping[str, Any]) -> Problem:
    """The problem that the files of a command describe."""
    from simi_mailbox.node_files import read_problem

    with working(f"reading {source}"):
        return read_problem(
            source,
            input_type=options["input_type"],
            files={part: options.get(part) for part in FILES},
            id_column=options["id_column"],
            encoding=options["encoding"],
            positive=options.get("positive"),
            drop_unknown=options["unknown"] == "drop",
        )


def positive_class(problem: Problem, positive: str | None) -> int | None:
    """The number of the class that ``--positive`` names; None if nothing was named."""
    from simi_mailbox.validation import read_positive

    if positive is None:
        return None
    names = problem.nodes.classes
    number = positive.isdecimal() and positive not in (names or ())
    return read_positive(int(positive) if number else positive, problem.values.shape[1], names)


def probabilities_of(problem: Problem) -> Any:
    """The probabilities of all nodes, whatever the first file holds."""
    from simi_mailbox.softmax import scaled_softmax
    from simi_mailbox.validation import read_logits

    if problem.input_type == "probabilities":
        return problem.values
    return scaled_softmax(read_logits(problem.values, problem.input_type)).numpy()


def missing_parts(needs: Iterable[str], problem: Problem) -> str:
    """Options that a method needs and the problem lacks."""
    lacking = [part for part in sorted(needs) if getattr(problem, part, None) is None]
    model = "the model itself (from Python)"
    named = [f"{FROM_FILES[part]} FILE" if part in FROM_FILES else model for part in lacking]
    return " and ".join(named)


def refuse_missing(what: str, needs: Iterable[str], problem: Problem) -> None:
    """Raise if a problem lacks what a method needs."""
    if missing := missing_parts(needs, problem):
        raise ValueError(f"{what} {missing}")


def calibration_nodes(
    problem: Problem, *, insist: bool | None = None, judged: str | None = None
) -> Any:
    """Nodes to calibrate with: those named, or all with a label if that leaves others.

    ``insist`` is ``--allow-training-nodes``, if there is such an option; ``judged`` says why no
    node of ``--test`` may be among them.
    """
    import numpy as np

    labelled = problem.labelled("calibration")
    rows = problem.sets.get("calibration", labelled)
    if "calibration" not in problem.sets and rows.size == problem.nodes.count:
        raise ValueError(
            "every node has a label: say which to calibrate with, --calibration FILE (nodes that "
            "the model was not trained on)"
        )
    unknown = rows[~np.isin(rows, labelled)]
    if unknown.size:
        raise ValueError(
            f"{unknown.size} of the {rows.size} calibration nodes have no label (the first is "
            f"{problem.nodes.shown()[unknown[0]]}): take them out of --calibration"
        )
    if not insist:
        why = "a model looks better than it is on nodes it was trained on; calibrate with others"
        why += "" if insist is None else ", or insist with --allow-training-nodes"
        refuse_shared(problem, "calibration", rows, "train", why)
    if judged:
        refuse_shared(problem, "calibration", rows, "test", judged)
    return rows


def refuse_shared(problem: Problem, first: str, rows: Any, second: str, why: str) -> None:
    """Raise if a named set has a node among others, and call it what the user calls it."""
    import numpy as np

    both = np.intersect1d(rows, problem.sets.get(second, []))
    if both.size:
        shown = problem.nodes.shown()[int(both[0])]
        raise ValueError(
            f"{both.size:,} nodes are both in --{first} and in --{second} (the first is {shown}): "
            f"{why}"
        )


def calibrator_of(method: str, settings: Sequence[str] = ()) -> Calibrator:
    """An unfitted calibrator with its parameters set."""
    from simi_mailbox import calibrators

    calibrator = calibrators.get(method)()
    others = sorted(calibrator.required_inputs - FROM_FILES.keys())
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


def fitted(
    source: Path, options: Mapping[str, Any], out: Path | None, save: Path | None
) -> tuple[Calibrator, Problem, dict[str, Any]]:
    """The fitted calibrator of ``--method``, what it was fitted on, and what to say of it."""
    problem = read(source, options)
    calibrator = calibrator_of(options["method"], options["settings"])
    if out is not None:
        check_file(out)
    if save is not None:
        check_file(save, ".safetensors", "a calibrator")
    insist = options["allow_training_nodes"]
    rows = calibration_nodes(problem, insist=insist)
    refuse_missing(f"{calibrator.name} needs", calibrator.required_inputs, problem)
    with working(f"fitting {calibrator.name} on {rows.size:,} nodes"):
        calibrator.fit(
            problem.values,
            problem.labels,
            mask=rows,
            early_stopping_mask=early_stopping(calibrator, problem),
            allow_training_nodes=insist,
            used_for_selection=options["used_for_selection"],
            **inputs(calibrator, problem),
        )
    calibrator.input_type_ = options["input_type"]  # of the file, for apply
    if problem.nodes.classes is not None:
        calibrator.class_names_ = list(problem.nodes.classes)
    return calibrator, problem, {"method": calibrator.name, **counts(problem, rows)}


def counts(problem: Problem, rows: Any) -> dict[str, Any]:
    """How many nodes, classes and calibration nodes there are."""
    return {
        "nodes": problem.nodes.count,
        "classes": problem.values.shape[1],
        "calibration_nodes": int(rows.size),
        "calibration_is": "as named" if "calibration" in problem.sets else "all labelled nodes",
    }


def loaded(
    path: Path, source: Path, options: Mapping[str, Any], why: str = ""
) -> tuple[Any, Problem]:
    """A saved calibrator (``why`` it must be a simi-mailbox), and nodes with classes as it has."""
    from simi_mailbox.calibrators import SimiMailbox, load

    calibrator = load(path)
    if why and not isinstance(calibrator, SimiMailbox):
        raise ValueError(f"{path} is a {calibrator.name}: {why}")
    kind = options["input_type"] or calibrator.input_type_
    problem = read(source, {**options, "input_type": kind})
    what = f"{path} is a {calibrator.name}, which needs"
    refuse_missing(what, calibrator.required_inputs, problem)
    return calibrator, _same_classes(problem, getattr(calibrator, "class_names_", None), path)


def _same_classes(problem: Problem, known: Sequence[str] | None, path: Path) -> Problem:
    """The problem with its classes as a calibrator knows them, whatever order the file has."""
    import numpy as np

    if known is None or len(known) != problem.values.shape[1]:
        return problem
    given = problem.nodes.classes or known
    if strange := [name for name in given if name not in known]:
        names = ", ".join(known)
        raise ValueError(f"{path} knows no class {strange[0]!r}; it was fitted on: {names}")
    order = [given.index(name) for name in known]
    labels = problem.known
    if labels is not None:  # −1, an unknown label, stays what it is
        labels = np.append(np.argsort(order), -1)[labels]
    nodes = replace(problem.nodes, classes=tuple(known))
    return replace(problem, values=problem.values[:, order], nodes=nodes, known=labels)


def inputs(calibrator: Calibrator, problem: Problem) -> dict[str, Any]:
    """What a method is given besides logits and labels, to fit and to predict."""
    optional = calibrator.optional_inputs
    return {
        "graph": problem.graph,
        "features": problem.features if "features" in calibrator.required_inputs else None,
        "hidden": problem.hidden if "hidden" in optional else None,
        "train_mask": problem.sets.get("train"),
        "node_ids": problem.nodes.texts if "known" in optional else None,
        "input_type": problem.input_type,
    }


def known_labels(calibrator: Calibrator, problem: Problem) -> dict[str, Any]:
    """Labels of ``--known`` as ``predict_proba`` takes them; nothing if there are none."""
    if problem.known is None:
        return {}
    if "known" not in calibrator.optional_inputs:
        raise ValueError(f"{calibrator.name} makes no use of known labels: leave out --known")
    rows = (problem.known >= 0).nonzero()[0]
    return {"known": (rows, problem.known[rows])}


def early_stopping(calibrator: Calibrator, problem: Problem) -> Any:
    """Training nodes with a label, for methods that stop early on them."""
    rows = problem.sets.get("train")
    if calibrator.holdout != "training" or rows is None or problem.labels is None:
        return None
    rows = rows[problem.labels[rows] >= 0]
    return rows if rows.size else None


def predicted(calibrator: Calibrator, problem: Problem, out: Path) -> dict[str, Any]:
    """Write the calibrated probabilities of all nodes; what that did to them, no label read."""
    from simi_mailbox.node_files import write_probabilities

    with working(f"calibrating {problem.nodes.count:,} nodes"):
        given = inputs(calibrator, problem) | known_labels(calibrator, problem)
        probs = calibrator.predict_proba(problem.values, **given)
    write_probabilities(out, probs, problem.nodes)
    return {
        "method": calibrator.name,
        "nodes": problem.nodes.count,
        "mean_confidence_before": float(probabilities_of(problem).max(axis=1).mean()),
        "mean_confidence_after": float(probs.max(axis=1).mean()),
        "predictions_changed": int((probs.argmax(1) != problem.values.argmax(1)).sum()),
    }
