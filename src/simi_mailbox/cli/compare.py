"""`simi-mailbox compare`: several methods on the same labels, one table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.fit import PARTS
from simi_mailbox.cli.options import plugin_option
from simi_mailbox.exceptions import CalibrationWarning

if TYPE_CHECKING:
    from simi_mailbox.node_files import Problem

_ALWAYS = ("uncalibrated", "temperature", "ensemble-temperature", "isotonic", "simi-mailbox")
_OF_TWO = ("platt", "beta", "vector", "simi-mailbox-free")
_HEADINGS = {"accuracy": "accuracy", "ece": "ECE", "nll": "NLL", "brier": "Brier"}
_MARKS = {"best": " *", "tied": " =", "": "  "}


@click.command(epilog=options.FILES_EPILOG)
@click.argument("logits", type=options.ExistingFile())
@options.file_options(*PARTS, "test")
@options.input_option()
@options.positive_option
@plugin_option
@click.option(
    "--methods",
    type=options.MethodName(several=True, all=True),
    help="Methods separated by commas, or 'all' that the files suffice for.  "
    f"[default: {', '.join(_ALWAYS)}; of two classes also {', '.join(_OF_TWO)}]",
)
@options.selection_option
@click.option(
    "--by",
    type=click.Choice(list(_HEADINGS)),
    default="nll",
    show_default=True,
    help="What the table is sorted by.",
)
@click.option(
    "--folds", default=5, show_default=True, help="Folds of cross-fitting; without --test."
)
@click.option("--seed", default=0, show_default=True, help="Seed of folds and intervals.")
@options.json_option
def compare(
    logits: Path,
    methods: list[str] | None,
    kind: str,
    used_for_selection: bool,
    by: str,
    folds: int,
    seed: int,
    as_json: bool,
    **files: Any,
) -> None:
    """Compare methods on LOGITS (all nodes) with the same labels.

    With --test, every method is fitted on the calibration nodes and judged on the test nodes.
    Without it, by cross-fitting: each calibration node is judged by a fit that did not see it.
    """
    with console.complaints() as told:
        problem = user.read(logits, files, kind)
        rows = user.calibration_nodes(problem)
        test = problem.labelled("test") if "test" in problem.sets else None
        if test is not None:
            why = "what was fitted on them looks better than it is; take them out of one"
            user.refuse_shared(problem, {"calibration": rows, "test": test}, why)
        chosen, missing = _chosen(methods, problem)
        user.tell_if_unused(used_for_selection, [user.calibrator_of(name, ()) for name in chosen])
        steps, total = count(1), len(chosen) * (1 if test is not None else folds)
        options = {"folds": folds, "seed": seed, "used_for_selection": used_for_selection}
        probs = {}
        with console.progress(transient=True) as show:
            advance = partial(_advance, show, steps, total)
            for name in chosen:
                with console.captured_warnings() as warned:
                    probs[name] = _judged(name, problem, rows, test, kind, options, advance)
                if warned:  # once for all folds
                    more = f" (and {len(warned) - 1} more like it)" if len(warned) > 1 else ""
                    warnings.warn(f"{name}: {warned[0]}{more}", CalibrationWarning, stacklevel=1)
    from simi_mailbox.crossfit import standings
    from simi_mailbox.metrics import noise_floor

    assert problem.labels is not None
    judged = rows if test is None else test
    table = sorted(
        standings(probs, problem.labels[judged], seed=seed),
        key=lambda row: -row.values[by] if by == "accuracy" else row.values[by],
    )
    facts = {
        "judged_on": "calibration nodes, cross-fitted" if test is None else "test nodes",
        "nodes": int(judged.size),
        "calibration_nodes": int(rows.size),
        "methods": [
            {
                "name": row.name,
                **row.values,
                "noise_floor": noise_floor(probs[row.name], seed=seed).mean,
                "marks": row.mark,
            }
            for row in table
        ],
        **_of_class(problem, probs, judged, files["positive"]),
        "left_out": missing,
        "warnings": told,
    }
    if as_json:
        console.show_json(facts)
    else:
        _show(facts)


def _of_class(problem: Problem, probs: dict[str, Any], rows: Any, named: Any) -> dict[str, Any]:
    """ECE and average precision of P(class) by method, and whether Platt scaling does as well."""
    from simi_mailbox import metrics

    positive = user.positive_class(problem, named)
    if positive is None:
        return {}
    assert problem.labels is not None
    is_class = problem.labels[rows] == positive
    return {
        "positive": named,
        "of_class": {
            name: {
                "class_ece": metrics.class_ece(p[:, positive], is_class),
                "average_precision": metrics.average_precision(p[:, positive], is_class),
                "expected": float(p[:, positive].sum()),
                "observed": int(is_class.sum()),
            }
            for name, p in probs.items()
        },
    }


def _advance(show: Callable[[str, int, int], None], steps: Iterator[int], total: int) -> None:
    show("fitting", next(steps), total)


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
            missing.append(f"{name} was left out: it needs {' and '.join(lacks)}")
        else:
            raise ValueError(f"{name} needs {' and '.join(lacks)}")
    return chosen, missing


def _judged(
    name: str,
    problem: Problem,
    rows: Any,
    test: Any,
    kind: str,
    options: dict[str, Any],
    advance: Callable[[], None],
) -> Any:
    from simi_mailbox.crossfit import cross_fitted

    calibrator = user.calibrator_of(name, ())
    given = user.inputs(calibrator, problem, kind)
    holdout = user.holdout(calibrator, problem)
    if test is None:
        return cross_fitted(
            calibrator,
            problem.values,
            problem.labels,
            mask=rows,
            early_stopping_mask=holdout,
            advance=advance,
            **options,
            **given,
        )
    fitting = {
        "mask": rows,
        "early_stopping_mask": holdout,
        "used_for_selection": options["used_for_selection"],
    }
    calibrator.fit(problem.values, problem.labels, **fitting, **given)
    probs = calibrator.predict_proba(problem.values, **given)[test]
    advance()
    return probs


def _show(facts: dict[str, Any]) -> None:
    from rich.table import Table

    click.echo(f"{facts['nodes']:,} {facts['judged_on']}")
    table = Table()
    table.add_column("method")
    for heading in (*_HEADINGS.values(), "noise floor of ECE"):
        table.add_column(heading, justify="right")
    of_class = facts.get("of_class", {})
    for heading in ("ECE of P", "AUPRC", "expected") if of_class else ():
        table.add_column(heading, justify="right")
    for row in facts["methods"]:
        cells = [
            (f"{row[m]:.2%}" if m in ("accuracy", "ece") else f"{row[m]:.4f}")
            + _MARKS[row["marks"][m]]
            for m in _HEADINGS
        ]
        cells.append(f"{row['noise_floor']:.2%}")
        if of_class:
            mine = of_class[row["name"]]
            cells += [f"{mine['class_ece']:.2%}", f"{mine['average_precision']:.2%}"]
            cells.append(f"{mine['expected']:.0f} of {mine['observed']}")
        table.add_row(row["name"], *cells)
    console.show_table(table)
    click.echo("* best   = tied with the best (95 % interval of the paired difference holds zero)")
    marks = {row["name"]: row["marks"]["nll"] for row in facts["methods"]}
    ours = [marks[name] for name in ("simi-mailbox", "simi-mailbox-free") if name in marks]
    if marks.get("platt") and ours:
        tied = "as good here as simi-mailbox" if any(ours) else "better here than simi-mailbox"
        click.echo(f"platt is {tied} by log-loss, and needs no graph")
    for line in facts["left_out"]:
        click.echo(line)
