"""`simi-mailbox calibrate`: from files to calibrated probabilities in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import own_files as own
from simi_mailbox.cli.fit import PARTS
from simi_mailbox.cli.outputs import check_file


@click.command(epilog=own.FILES_EPILOG)
@click.argument("logits", type=own.ExistingFile(folders=True))
@own.file_options(*PARTS)
@own.input_option()
@own.method_options
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("probs.csv"),
    show_default=True,
    help="File of probabilities: .csv, .tsv, .npy, .npz or .parquet.",
)
@click.option("--save", type=click.Path(path_type=Path), help="Save the calibrator, too.")
@click.option("--engine", default=None, help="Folders only: how the work is done.")
@click.option("--memory", default=None, metavar="SIZE", help="Folders only: such as 2GB.")
@click.option("--scheduler", default=None, metavar="ADDRESS", help="Folders only: of Dask.")
@own.json_option
def calibrate(
    logits: Path,
    method: str,
    settings: tuple[str, ...],
    kind: str,
    insist: bool,
    out: Path,
    save: Path | None,
    engine: str | None,
    memory: str | None,
    scheduler: str | None,
    as_json: bool,
    **files: Any,
) -> None:
    """Calibrate LOGITS (all nodes) with the labels of some, and write the probabilities.

    LOGITS may also be a folder of shards, for graphs beyond memory.
    """
    from simi_mailbox.node_files import check_ending, write_probabilities

    options = {"engine": engine, "memory": memory, "scheduler": scheduler}
    if logits.is_dir():
        _calibrate_folder(logits, out, options)
        return
    for name, value in options.items():
        if value is not None:
            raise click.UsageError(f"--{name} is for folders of shards, and {logits} is a file")
    check_ending(out)
    if save is not None and save.suffix.lower() != ".safetensors":
        raise click.ClickException(f"{save}: a calibrator is a .safetensors file; name it so")
    with own.complaints() as told:
        problem = own.read(logits, files, kind)
        calibrator = own.calibrator_of(method, settings)
        for target in (out, save):
            if target is not None:
                check_file(target)
        rows = own.fitted(calibrator, problem, kind=kind, method=method, insist=insist)
        facts = own.facts(problem, rows, calibrator)
        with own.working(f"calibrating {problem.nodes.count:,} nodes"):
            probs = calibrator.predict_proba(
                problem.values, **own.inputs(calibrator, problem, kind)
            )
        write_probabilities(out, probs, problem.nodes)
        if save is not None:
            calibrator.save(save)
    facts |= own.changes(problem, probs, calibrator, kind)
    if as_json:
        own.show_json({**facts, "out": out, "calibrator": save, "warnings": told})
        return
    own.show_facts(facts)
    click.echo(f"wrote {out}{f' and {save}' if save else ''}")


def _calibrate_folder(folder: Path, out: Path, options: dict[str, str | None]) -> None:
    """Where graphs beyond memory enter."""
    raise click.ClickException(
        f"{folder} is a folder; this version calibrates single files: join its shards"
    )
