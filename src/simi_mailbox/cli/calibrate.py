"""`simi-mailbox calibrate`: from files to calibrated probabilities in one command."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, folders, options
from simi_mailbox.cli import user_files as user


@click.command(epilog=options.FILES_EPILOG)
@click.argument("logits", type=options.ExistingFile(folders=True))
@options.file_options(*options.FIT_PARTS)
@options.input_option()
@options.method_options
@options.probabilities_out
@options.save_option("Save the calibrator, too.")
@folders.folder_options
@options.json_option
def calibrate(logits: Path, out: Path, save: Path | None, as_json: bool, **given: Any) -> None:
    """Calibrate LOGITS (all nodes) with the labels of some, and write the probabilities.

    LOGITS may also be a folder of shards, for graphs beyond memory: see docs/scale.md.
    """
    from simi_mailbox.node_files import check_writable

    if logits.is_dir():
        from simi_mailbox import scale

        chosen = folders.method_of(given.pop("method"), given.pop("settings"))
        said = {"calibrator": chosen, "used_for_selection": given.pop("used_for_selection")}
        given["save"] = save
        folders.run(partial(scale.calibrate, **said), logits, out, given, as_json)
        return
    folders.refuse_for_file(logits, given)
    check_writable(out)
    with console.complaints() as told:
        outputs = [(out, ""), *([(save, ".safetensors")] if save else [])]
        calibrator, problem, facts = user.fitted(logits, given, *outputs)
        facts |= user.predicted(calibrator, problem, out)
        if save:
            calibrator.save(save)
    facts["calibrator"] = save
    console.finish(facts, out, as_json, told, {"calibrator": ""}, save)
