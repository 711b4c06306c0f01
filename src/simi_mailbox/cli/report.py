"""`simi-mailbox report`: an HTML report of a model of your own, from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.options import plugin_option
from simi_mailbox.cli.outputs import check_file

if TYPE_CHECKING:
    from simi_mailbox.node_files import Problem

_PARTS = ("edges", "labels", "calibration", "test", "train", "ids", "classes")


@click.command(epilog=options.FILES_EPILOG)
@click.argument("source", metavar="LOGITS", type=options.ExistingFile())
@options.file_options(
    *_PARTS,
    calibration="Nodes to calibrate with: ids, or a mask. Without them only the model is shown.",
    test="Nodes to judge on: ids, or a mask. Without them no accuracy is shown.",
)
@options.input_option()
@options.positive_option
@click.option("--miss-cost", type=float, help="With --positive: cost of a missed node of it.")
@click.option("--review-cost", type=float, help="With --positive: cost of an alert.")
@plugin_option
@click.option(
    "--methods",
    type=options.MethodName(several=True),
    help="Calibrators to compare, separated by commas.  [default: temperature, simi-mailbox; "
    "with --positive platt, simi-mailbox-free]",
)
@options.selection_option
@click.option("--title", default=None, help="Title of the report; the file's name if not given.")
@options.out_option("report.html", "File to write.")
@click.option("--seed", default=0, show_default=True, help="Seed of the intervals.")
def report(
    source: Path,
    kind: Any,
    methods: list[str] | None,
    miss_cost: float | None,
    review_cost: float | None,
    used_for_selection: bool,
    title: str | None,
    out: Path,
    seed: int,
    **files: Any,
) -> None:
    """Write an HTML report: can this model be trusted, where not, and what calibration changes.

    LOGITS holds the logits of all nodes; as a bundle it may also hold edges, labels, calibration,
    test, train and classes. Options take precedence. Whatever is not given is left out of the
    report, which says so. Files with Python objects are refused.
    """
    from simi_mailbox.exceptions import SolverError

    check_file(out)
    class_named = files["positive"] is not None
    if methods is None:
        methods = ["platt", "simi-mailbox-free"] if class_named else ["temperature", "simi-mailbox"]
    costs = None
    if (miss_cost, review_cost) != (None, None):
        if miss_cost is None or review_cost is None or not class_named:
            raise click.ClickException(
                "costs are two numbers of one class: --positive, --miss-cost and --review-cost"
            )
        costs = miss_cost, review_cost
    try:
        with console.complaints():
            problem = user.read(source, files, kind)
            sets = _sets(problem)
            from simi_mailbox.report import write_report
            from simi_mailbox.validation import read_logits

            written = write_report(
                out,
                logits=read_logits(problem.values, user.per_class(kind)),
                graph=problem.graph,
                y=problem.labels,
                **sets,
                methods=methods,
                title=source.stem if title is None else title,
                class_names=problem.nodes.classes,
                used_for_selection=used_for_selection,
                seed=seed,
                positive=user.positive_class(problem, files["positive"]),
                costs=costs,
                node_names=problem.nodes.shown(),
            )
    except (OSError, SolverError) as error:
        raise click.ClickException(console.in_options(str(error))) from error
    click.echo(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)")


def _sets(problem: Problem) -> dict[str, Any]:
    """Nodes to calibrate with, to judge on and of training; mistakes are told by the users' ids."""
    sets = {name: problem.sets.get(name) for name in ("calibration", "test", "train")}
    if problem.labels is not None:
        if sets["calibration"] is not None:
            sets["calibration"] = user.calibration_nodes(problem)
        for name in ("test", "train"):
            if sets[name] is not None:
                sets[name] = problem.labelled(name)
    why = "a model looks better than it is on nodes it was fitted to; take them out of one"
    for name, other in (("calibration", "test"), ("train", "test")):
        if sets[name] is not None and sets[other] is not None:
            user.refuse_shared(problem, {name: sets[name], other: sets[other]}, why)
    return sets
