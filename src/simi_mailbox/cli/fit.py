"""`simi-mailbox fit`: learn a calibrator from files and save it."""

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user


@click.command(epilog=options.FILES_EPILOG)
@click.argument("logits", type=options.ExistingFile())
@options.file_options(*options.FIT_PARTS)
@options.input_option()
@options.positive_option
@options.method_options
@options.out_option("calibrator.safetensors", "File of the fitted calibrator.")
@options.json_option
def fit(logits: Path, out: Path, as_json: bool, **given: Any) -> None:
    """Learn a calibrator from LOGITS (all nodes) and the labels of some, and save it.

    simi-mailbox apply then calibrates these nodes, or a later snapshot, with the file.
    """
    with console.complaints() as told:
        calibrator, _, facts = user.fitted(logits, given, (out, ".safetensors"))
        calibrator.save(out)
    # The same command on the same files works as it stands; other nodes have other files.
    applied = ("edges", "features", "hidden", "ids", "classes")
    files = "".join(f" --{part} {given[part]}" for part in applied if given[part] is not None)
    more = f"; next: simi-mailbox apply {out} {logits}{files} --out probs.csv"
    console.finish(facts, out, as_json, told, more=more)
