"""What the commands do with folders of shards: options, progress, and what is refused."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli import console
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.options import choice_option, together

_OPTIONS = ("engine", "memory", "scheduler", "work")
_ENGINES = "Folders only: compute in memory, from disk, or on Dask.  [default: auto]"
folder_options = together(
    choice_option("--engine", ("auto", "memory", "disk", "dask"), _ENGINES),
    click.option(
        "--memory", metavar="SIZE", help="Folders only: memory of one process, such as 2GB."
    ),
    click.option(
        "--scheduler", metavar="ADDRESS", help="Folders only: Dask scheduler, tcp://host:port."
    ),
    click.option(
        "--work",
        metavar="DIR",
        help="Folders only: folder for intermediate files; kept, to go on after a stop.",
    ),
)


def refuse_for_file(source: Path, given: Mapping[str, Any]) -> None:
    """Refuse the options of folders beside a file."""
    for name in _OPTIONS:
        if given[name] is not None:
            raise click.UsageError(f"--{name} is for folders of shards, and {source} is a file")


def refuse_options(given: Mapping[str, Any], taken: Sequence[str], why: str) -> None:
    """Refuse options of files that were typed beside a folder."""
    ctx = click.get_current_context()
    for name in given.keys() - set(taken):
        if ctx.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"--{name.replace('_', '-')} is for files: {why}")


def method_of(name: str, settings: tuple[str, ...]) -> Any:
    """The calibrator that a folder is to be calibrated by, as it is set."""
    from simi_mailbox.calibrators import SimiMailbox

    with console.complaints():
        chosen = user.calibrator_of(name, settings)
    if not isinstance(chosen, SimiMailbox):
        raise click.UsageError(
            f"--method {name} is for files: folders are calibrated by simi-mailbox or "
            "simi-mailbox-free"
        )
    return chosen


def run(
    work: Callable[..., Any], folder: Path, out: Path, given: Mapping[str, Any], as_json: bool
) -> None:
    """Calibrate a folder, show how far it is, and say what was done."""
    taken = (*_OPTIONS, "input_type")
    why = "a folder holds logits/, edges/, labels.*, calibration.* and perhaps train.*, hidden/ and"
    refuse_options(given, taken, f"{why} known.*")
    source = click.get_current_context().get_parameter_source("out")
    if source is click.core.ParameterSource.DEFAULT:
        out = Path("calibrated")
    if str(out) == "-":
        raise click.UsageError("--out - is for files: the results of a folder are a folder")
    said = {name: given[name] for name in taken if given[name] is not None}
    with console.complaints() as told, console.progress() as progress:
        try:
            done = work(folder, out, progress=progress, **said)
        except MemoryError:
            raise click.ClickException(
                "there is not enough memory: say less than the process may have, --memory 1.5GB; "
                "what is finished is kept"
            ) from None
    facts = {**done.facts, "calibration_is": "as named"}
    console.finish(facts, out, as_json, told, {"": "{:,.1f}"})
