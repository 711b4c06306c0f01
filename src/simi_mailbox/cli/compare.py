"""`simi-mailbox compare`: several methods on the same labels, one table."""

from __future__ import annotations

import warnings
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.exceptions import CalibrationWarning

if TYPE_CHECKING:
    from simi_mailbox.node_files import Problem

_ALWAYS = ("uncalibrated", "temperature", "ensemble-temperature", "isotonic", "simi-mailbox")
_OF_TWO = ("platt", "beta", "vector", "simi-mailbox-free")
_SHOWN = {
    "accuracy": ("accuracy", "{:.2%}"),
    "ece": ("ECE", "{:.2%}"),
    "nll": ("NLL", "{:.4f}"),
    "brier": ("Brier", "{:.4f}"),
}
_MARKS = {"best": " *", "tied": " =", "": "  "}


@options.file_command("logits", parts=(*options.FIT_PARTS, "test"), input_type="logits")
@options.positive_option
@options.plugin_option
@click.option(
    "--methods",
    type=options.MethodName(several=True, all=True),
    help="Methods separated by commas, or 'all' that the files suffice for.  "
    f"[default: {', '.join(_ALWAYS)}; of two classes also {', '.join(_OF_TWO)}]",
)
@options.selection_option
@options.choice_option("--by", _SHOWN, "What the table is sorted by.", "nll")
@click.option("--folds", default=5, help="Folds of cross-fitting; without --test.")
@click.option("--seed", default=0, help="Seed of folds and intervals.")
@options.json_option
def compare(logits: Path, methods: list[str] | None, as_json: bool, **given: Any) -> None:
    """Compare methods on LOGITS (all nodes) with the same labels.

    With --test, every method is fitted on the calibration nodes and judged on the test nodes.
    Without it, by cross-fitting: each calibration node is judged by a fit that did not see it.
    """
    with console.complaints() as told:
        problem = user.read(logits, given)
        why = "what was fitted on them looks better than it is; take them out of one"
        rows = user.calibration_nodes(problem, judged=why)
        test = problem.labelled("test") if "test" in problem.sets else None
        positive = user.positive_class(problem, given["positive"])
        chosen, missing = _chosen(methods, problem)
        fitting = {"mask": rows, "used_for_selection": given["used_for_selection"]}
        folding = {name: given[name] for name in ("folds", "seed")}
        probs = _predicted(chosen, problem, test, fitting, folding)
    assert problem.labels is not None
    y = problem.labels[rows if test is None else test]
    facts: dict[str, Any] = {
        "judged_on": "calibration nodes, cross-fitted" if test is None else "test nodes",
        "nodes": len(y),
        "calibration_nodes": int(rows.size),
        "methods": _table(probs, y, given["by"], given["seed"]),
    }
    if positive is not None:
        facts |= {"positive": given["positive"], "of_class": _of_class(positive, probs, y)}
    facts |= {"left_out": missing, "warnings": told}
    if as_json:
        console.show_json(facts)
    else:
        _show(facts)


def _chosen(asked: list[str] | None, problem: Problem) -> tuple[list[str], list[str]]:
    """Methods that can be run, and why others cannot; a method asked for by name must run."""
    from simi_mailbox import calibrators

    names = asked or [*_ALWAYS, *(_OF_TWO if problem.values.shape[1] == 2 else ())]
    names = calibrators.names() if "all" in names else names
    chosen, missing = [], []
    for name in names:
        lacks = user.missing_parts(calibrators.get(name).required_inputs, problem)
        if not lacks:
            chosen.append(name)
        elif asked is None or "all" in asked:
            missing.append(f"{name} was left out: it needs {lacks}")
        else:
            raise ValueError(f"{name} needs {lacks}")
    return chosen, missing


def _predicted(
    chosen: list[str], problem: Problem, test: Any, fitting: dict[str, Any], folding: dict[str, int]
) -> dict[str, Any]:
    """Probabilities of the test nodes by one fit, or of the calibration nodes by cross-fitting."""
    from simi_mailbox.crossfit import cross_fitted

    steps, total = count(1), len(chosen) * (1 if test is not None else folding["folds"])
    values, y, probs = problem.values, problem.labels, {}
    with console.progress() as show:
        for name in chosen:
            calibrator = user.calibrator_of(name)
            inputs = user.inputs(calibrator, problem)
            given = fitting | {"early_stopping_mask": user.early_stopping(calibrator, problem)}
            with console.captured_warnings() as warned:
                if test is None:
                    given |= {**folding, "advance": lambda: show("fitting", next(steps), total)}
                    probs[name] = cross_fitted(calibrator, values, y, **given, **inputs)
                else:
                    calibrator.fit(values, y, **given, **inputs)
                    show("fitting", next(steps), total)
                    probs[name] = calibrator.predict_proba(values, **inputs)[test]
            if warned:  # once for all folds
                more = f" (and {len(warned) - 1} more like it)" if len(warned) > 1 else ""
                warnings.warn(f"{name}: {warned[0]}{more}", CalibrationWarning, stacklevel=1)
    return probs


def _table(probs: dict[str, Any], y: Any, by: str, seed: int) -> list[dict[str, Any]]:
    """Metrics of the methods, best first, and which are tied with the best."""
    from simi_mailbox.crossfit import standings
    from simi_mailbox.metrics import noise_floor

    rows = []
    for row in standings(probs, y, seed=seed):
        floor = noise_floor(probs[row.name], seed=seed).mean
        rows.append({"name": row.name, **row.values, "noise_floor": floor, "marks": row.mark})
    return sorted(rows, key=lambda row: row[by], reverse=by == "accuracy")


def _of_class(positive: int, probs: dict[str, Any], y: Any) -> dict[str, Any]:
    """ECE, average precision and counts of P(class) by method."""
    from simi_mailbox import metrics

    is_class = y == positive
    return {
        name: {
            "class_ece": metrics.class_ece(p[:, positive], is_class),
            "average_precision": metrics.average_precision(p[:, positive], is_class),
            "expected": float(p[:, positive].sum()),
            "observed": int(is_class.sum()),
        }
        for name, p in probs.items()
    }


def _show(facts: dict[str, Any]) -> None:
    click.echo(f"{facts['nodes']:,} {facts['judged_on']}")
    headings = ["method", *(heading for heading, _ in _SHOWN.values()), "noise floor of ECE"]
    of_class, lines = facts.get("of_class"), []
    for row in facts["methods"]:
        marks = row["marks"]
        cells = [form.format(row[m]) + _MARKS[marks[m]] for m, (_, form) in _SHOWN.items()]
        lines.append([row["name"], *cells, f"{row['noise_floor']:.2%}"])
        if of_class:
            form = "{class_ece:.2%}|{average_precision:.2%}|{expected:.0f} of {observed}"
            lines[-1] += form.format(**of_class[row["name"]]).split("|")
    headings += ["ECE of P", "AUPRC", "expected"] if of_class else []
    console.show_rows(headings, lines)
    click.echo("* best   = tied with the best (95 % interval of the paired difference holds zero)")
    for line in facts["left_out"]:
        click.echo(line)
