"""`simi-mailbox update`: add late labels to a saved calibrator."""

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user


@click.command(epilog=options.FILES_EPILOG)
@click.argument("calibrator", type=options.ExistingFile())
@click.argument("logits", type=options.ExistingFile())
@options.file_options("known", "edges", "hidden", "ids", "classes")
@options.input_option(default=None)
@options.out_option("updated.safetensors", "File of the updated calibrator.")
@options.json_option
def update(calibrator: Path, logits: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Add the labels of --known to a CALIBRATOR: as evidence, and to correct its level.

    LOGITS (all nodes) and --edges are those of the graph as it is now. Nothing is refitted; the
    command says when a refit is better.
    """
    import numpy as np

    with console.complaints() as told:
        fitted, problem = user.loaded(calibrator, logits, given, "only a simi-mailbox is updated")
        if problem.known is None:
            raise ValueError("late labels are missing: give --known FILE")
        options.check_file(out, ".safetensors", "a calibrator")
        rows, labels = user.known_labels(fitted, problem)["known"]
        inputs = user.inputs(fitted, problem)
        ids = inputs["node_ids"]
        fitted.update(
            rows if ids is None else ids[rows],
            labels,
            logits=problem.values,
            all_ids=ids,
            **{name: inputs[name] for name in ("graph", "hidden", "input_type")},
        )
        fitted.save(out)
    found = getattr(fitted, "correction_", {"drifted": 0.0, "scale": 0.0, "labels": 0})
    facts = {
        "late_labels": int(rows.size),
        "labels_that_test_the_level": int(found["labels"]),
        "probability_of_drift": float(found["drifted"]),
        "temperature_times": float(np.exp(-found["scale"])),
    }
    console.finish(facts, out, as_json, told, {"temperature_times": "{:.3f}"})
