"""`simi-mailbox calibrate`: from files to calibrated probabilities in one command."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console, folders, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.fit import PARTS
from simi_mailbox.cli.outputs import check_file


@click.command(epilog=options.FILES_EPILOG)
@click.argument("logits", type=options.ExistingFile(folders=True))
@options.file_options(*PARTS)
@options.input_option()
@options.method_options
@options.probabilities_out
@click.option("--save", type=click.Path(path_type=Path), help="Save the calibrator, too.")
@folders.folder_options
@options.json_option
def calibrate(
    logits: Path,
    method: str,
    settings: tuple[str, ...],
    kind: str,
    insist: bool,
    used_for_selection: bool,
    out: Path,
    save: Path | None,
    as_json: bool,
    **files: Any,
) -> None:
    """Calibrate LOGITS (all nodes) with the labels of some, and write the probabilities.

    LOGITS may also be a folder of shards, for graphs beyond memory: see docs/scale.md.
    """
    from simi_mailbox.node_files import check_writable, write_probabilities

    if logits.is_dir():
        from simi_mailbox import scale

        folders.refuse(save=save, allow_training_nodes=insist, **files)
        chosen = folders.method_of(method, settings)
        work = partial(scale.calibrate, calibrator=chosen, used_for_selection=used_for_selection)
        folders.run(work, logits, out, files, kind, as_json)
        return
    folders.only_for_folders(logits, files)
    check_writable(out)
    if save is not None and save.suffix.lower() != ".safetensors":
        raise click.ClickException(f"{save}: a calibrator is a .safetensors file; name it so")
    with console.complaints() as told:
        problem = user.read(logits, files, kind)
        calibrator = user.calibrator_of(method, settings)
        for target in (out, save):
            if target is not None:
                check_file(target)
        said = {"insist": insist, "used_for_selection": used_for_selection}
        rows = user.fitted(calibrator, problem, kind=kind, method=method, **said)
        facts = user.facts(problem, rows, calibrator)
        with console.working(f"calibrating {problem.nodes.count:,} nodes"):
            probs = calibrator.predict_proba(
                problem.values, **user.inputs(calibrator, problem, kind)
            )
        write_probabilities(out, probs, problem.nodes)
        if save is not None:
            calibrator.save(save)
    facts |= user.changes(problem, probs, calibrator, kind)
    wrote = f"wrote {out}{f' and {save}' if save else ''}"
    console.finish({**facts, "calibrator": save}, out, as_json, told, facts, wrote)
