"""`simi-mailbox fit`: learn a calibrator from files and save it."""

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.outputs import check_file

PARTS = ("edges", "labels", "calibration", "train", "features", "hidden", "ids", "classes")

APPLIED = ("edges", "features", "hidden", "ids", "classes")


@click.command(epilog=options.FILES_EPILOG)
@click.argument("logits", type=options.ExistingFile())
@options.file_options(*PARTS)
@options.input_option()
@options.positive_option
@options.method_options
@options.out_option("calibrator.safetensors", "File of the fitted calibrator.")
@options.json_option
def fit(
    logits: Path,
    method: str,
    settings: tuple[str, ...],
    kind: str,
    insist: bool,
    used_for_selection: bool,
    out: Path,
    as_json: bool,
    **files: Any,
) -> None:
    """Learn a calibrator from LOGITS (all nodes) and the labels of some, and save it.

    simi-mailbox apply then calibrates these nodes, or a later snapshot, with the file.
    """
    if out.suffix.lower() != ".safetensors":
        raise click.ClickException(f"{out}: a calibrator is a .safetensors file; name it so")
    with console.complaints() as told:
        problem = user.read(logits, files, kind)
        calibrator = user.calibrator_of(method, settings)
        check_file(out)
        said = {"insist": insist, "used_for_selection": used_for_selection}
        rows = user.fitted(calibrator, problem, kind=kind, method=method, **said)
        facts = user.facts(problem, rows, calibrator)
        calibrator.save(out)
    # The same command on the same files works as it stands; other nodes have other files.
    given = [f"--{part} {files[part]}" for part in APPLIED if files.get(part) is not None]
    next_one = " ".join(["simi-mailbox apply", str(out), str(logits), *given, "--out probs.csv"])
    console.finish(facts, out, as_json, told, wrote=f"wrote {out}; next: {next_one}")
