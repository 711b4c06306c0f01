"""`simi-mailbox apply`: a saved calibrator turns logits into probabilities."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, folders, options
from simi_mailbox.cli import user_files as user


@click.command(epilog=options.FILES_EPILOG)
@click.argument("calibrator", type=options.ExistingFile())
@click.argument("logits", type=options.ExistingFile(folders=True))
@options.file_options("edges", "features", "hidden", "known", "ids", "classes")
@options.input_option(default=None)
@options.plugin_option
@options.probabilities_out
@folders.folder_options
@options.json_option
def apply(calibrator: Path, logits: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Calibrate LOGITS with a CALIBRATOR that fit or calibrate has saved.

    The nodes and the graph need not be those it was fitted on. LOGITS may be a folder of shards.
    """
    from simi_mailbox.node_files import check_writable

    if logits.is_dir():
        from simi_mailbox import scale

        work = partial(scale.apply, calibrator, known=given.pop("known"))
        folders.run(work, logits, out, given, as_json)
        return
    folders.refuse_for_file(logits, given)
    check_writable(out)
    with console.complaints() as told:
        fitted, problem = user.loaded(calibrator, logits, given)
        options.check_file(out)
        facts = user.predicted(fitted, problem, out)
    console.finish(facts, out, as_json, told)
