"""`simi-mailbox report`: an HTML report of a model of your own, from files."""

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user


@options.file_command(
    "logits",
    parts=("edges", "labels", "calibration", "test", "train", "ids", "classes"),
    input_type="logits",
    calibration="Nodes to calibrate with: ids, or a mask. Without them only the model is shown.",
    test="Nodes to judge on: ids, or a mask. Without them no accuracy is shown.",
)
@options.positive_option
@options.plugin_option
@click.option(
    "--methods",
    type=options.MethodName(several=True),
    help="Calibrators to compare, separated by commas.  [default: temperature, simi-mailbox; "
    "with --positive platt, simi-mailbox-free]",
)
@options.selection_option
@click.option("--title", help="Title of the report; the file's name if not given.")
@options.path_option("--out", "File to write.", "report.html")
@click.option("--seed", default=0, help="Seed of the intervals.")
def report(
    logits: Path, out: Path, methods: list[str] | None, title: str | None, **given: Any
) -> None:
    """Write an HTML report: can this model be trusted, where not, and what calibration changes.

    LOGITS holds the logits of all nodes; as a bundle it may also hold edges, labels, calibration,
    test, train and classes. Options take precedence. Whatever is not given is left out of the
    report, which says so. Files with Python objects are refused.
    """
    from simi_mailbox.report import write_report
    from simi_mailbox.validation import read_logits

    options.check_file(out)
    of_class = given["positive"] is not None
    default = ["platt", "simi-mailbox-free"] if of_class else ["temperature", "simi-mailbox"]
    with console.complaints():
        problem = user.read(logits, given)
        written = write_report(
            out,
            logits=read_logits(problem.values, problem.input_type),
            graph=problem.graph,
            y=problem.labels,
            **_sets(problem),
            methods=methods or default,
            title=title or logits.stem,
            class_names=problem.nodes.classes,
            used_for_selection=given["used_for_selection"],
            seed=given["seed"],
            positive=user.positive_class(problem, given["positive"]),
            node_names=problem.nodes.shown(),
        )
    click.echo(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)")


def _sets(problem: Any) -> dict[str, Any]:
    """Nodes to calibrate with, to judge on and of training; mistakes are told by the users' ids."""
    sets = {name: problem.sets.get(name) for name in ("calibration", "test", "train")}
    why = "a model looks better than it is on nodes it was fitted to; take them out of one"
    for name in ("calibration", "train"):
        user.refuse_shared(problem, name, problem.sets.get(name, []), "test", why)
    if problem.labels is not None:
        for name in problem.sets:
            named = name == "calibration"
            sets[name] = user.calibration_nodes(problem) if named else problem.labelled(name)
    return sets
