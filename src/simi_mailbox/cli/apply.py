"""`simi-mailbox apply`: a saved calibrator turns logits into probabilities."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, folders, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.options import plugin_option
from simi_mailbox.cli.outputs import check_file


@click.command(epilog=options.FILES_EPILOG)
@click.argument("calibrator", type=options.ExistingFile())
@click.argument("logits", type=options.ExistingFile(folders=True))
@options.file_options("edges", "features", "hidden", "known", "ids", "classes")
@options.input_option(default=None)
@plugin_option
@options.probabilities_out
@folders.folder_options
@options.json_option
def apply(
    calibrator: Path, logits: Path, kind: str | None, out: Path, as_json: bool, **files: Any
) -> None:
    """Calibrate LOGITS with a CALIBRATOR that fit or calibrate has saved.

    The nodes and the graph need not be those it was fitted on. LOGITS may be a folder of shards.
    """
    from simi_mailbox.calibrators import load
    from simi_mailbox.node_files import check_writable, write_probabilities

    if logits.is_dir():
        from simi_mailbox import scale

        work = partial(scale.apply, calibrator, known=files.pop("known"))
        folders.refuse(**files)
        folders.run(work, logits, out, files, kind, as_json)
        return
    folders.only_for_folders(logits, files)
    check_writable(out)
    with console.complaints() as told:
        fitted = load(calibrator)
        kind = fitted.input_type_ if kind is None else kind
        problem = user.read(logits, files, kind)
        missing = user.missing_parts(fitted.required_inputs, problem)
        if missing:
            raise ValueError(f"{calibrator} is a {fitted.name}, which needs {', '.join(missing)}")
        problem = user.same_classes(fitted, problem, calibrator)
        check_file(out)
        with console.working(f"calibrating {problem.nodes.count:,} nodes"):
            given = user.inputs(fitted, problem, kind) | user.known_labels(fitted, problem)
            probs = fitted.predict_proba(problem.values, **given)
        write_probabilities(out, probs, problem.nodes)
    console.finish(user.changes(problem, probs, fitted, kind), out, as_json, told)
