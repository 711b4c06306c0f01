"""`simi-mailbox update`: add late labels to a saved calibrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.outputs import check_file


@click.command(epilog=options.FILES_EPILOG)
@click.argument("calibrator", type=options.ExistingFile())
@click.argument("logits", type=options.ExistingFile())
@options.file_options("known", "edges", "hidden", "ids", "classes")
@options.input_option(default=None)
@options.out_option("updated.safetensors", "File of the updated calibrator.")
@options.json_option
def update(
    calibrator: Path, logits: Path, kind: str | None, out: Path, as_json: bool, **files: Any
) -> None:
    """Add the labels of --known to a CALIBRATOR: as evidence, and to correct its level.

    LOGITS (all nodes) and --edges are those of the graph as it is now. Nothing is refitted; the
    command says when a refit is better.
    """
    from simi_mailbox.calibrators import SimiMailbox, load

    with console.complaints() as told:
        fitted = load(calibrator)
        if not isinstance(fitted, SimiMailbox):
            raise ValueError(f"{calibrator} is a {fitted.name}: only a simi-mailbox is updated")
        kind = fitted.input_type_ if kind is None else kind
        problem = user.same_classes(fitted, user.read(logits, files, kind), calibrator)
        if problem.known is None:
            raise ValueError("late labels are missing: give --known FILE")
        if missing := user.missing_parts(fitted.required_inputs, problem):
            raise ValueError(f"{calibrator} is a {fitted.name}, which needs {', '.join(missing)}")
        check_file(out)
        rows = np.flatnonzero(problem.known >= 0)
        given = user.inputs(fitted, problem, kind)
        ids = given["node_ids"]
        fitted.update(
            rows if ids is None else ids[rows],
            problem.known[rows],
            logits=problem.values,
            all_ids=ids,
            **{name: given[name] for name in ("graph", "hidden", "input_type")},
        )
        fitted.save(out)
    found = getattr(fitted, "correction_", {"drifted": 0.0, "scale": 0.0, "labels": 0})
    facts = {
        "late_labels": int(rows.size),
        "labels_that_test_the_level": int(found["labels"]),
        "probability_of_drift": float(found["drifted"]),
        "temperature_times": float(np.exp(-found["scale"])),
    }
    shown = facts | {"temperature_times": f"{facts['temperature_times']:.3f}"}
    console.finish(facts, out, as_json, told, shown)
