"""What the commands do with folders of shards: options, progress, and what is refused."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from simi_mailbox.cli import console
from simi_mailbox.cli import user_files as user

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = ("engine", "memory", "scheduler", "work")
OUT = Path("calibrated")
"""Where results go if nothing is said."""


def folder_options(function: F) -> F:
    """Who does the work on a folder, and with what."""
    for option in (
        click.option(
            "--work",
            metavar="DIR",
            help="Folders only: folder for intermediate files; kept, to go on after a stop.",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Folders only: Dask scheduler, tcp://host:port."
        ),
        click.option(
            "--memory", metavar="SIZE", help="Folders only: memory of one process, such as 2GB."
        ),
        click.option(
            "--engine",
            type=click.Choice(("auto", "memory", "disk", "dask")),
            help="Folders only: compute in memory, from disk, or on Dask.  [default: auto]",
        ),
    ):
        function = option(function)
    return function


def only_for_folders(source: Path, options: dict[str, Any]) -> None:
    """Take the options of folders away, and refuse them beside a file."""
    for name in OPTIONS:
        if options.pop(name, None) is not None:
            raise click.UsageError(f"--{name} is for folders of shards, and {source} is a file")


def refuse(**options: Any) -> None:
    """Refuse what has no meaning for a folder, which holds its parts under fixed names."""
    for name, value in options.items():
        if name in OPTIONS or not value:
            continue
        option = f"--{name.replace('_', '-')}"
        raise click.UsageError(
            f"{option} is for files: a folder holds logits/, edges/, labels.*, calibration.* and "
            "perhaps train.*, hidden/ and known.*"
        )


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
    work: Callable[..., Any],
    folder: Path,
    out: Path,
    options: Mapping[str, Any],
    kind: str | None,
    as_json: bool,
) -> None:
    """Calibrate a folder, show how far it is, and say what was done."""
    source = click.get_current_context().get_parameter_source("out")
    if source is click.core.ParameterSource.DEFAULT:
        out = OUT
    if str(out) == "-":
        raise click.UsageError("--out - is for files: the results of a folder are a folder")
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    if kind is not None:
        given["input_type"] = kind
    with console.complaints() as told, console.progress() as progress:
        try:
            done = work(folder, out, progress=progress, **given)
        except OSError as error:
            raise click.ClickException(_words(error)) from error
        except MemoryError:
            raise click.ClickException(
                "there is not enough memory: say less than the process may have, --memory 1.5GB; "
                "what is finished is kept"
            ) from None
    facts = {**done.facts, "calibration_is": "as named"}
    shown = {n: f"{v:,.1f}" if isinstance(v, float) else v for n, v in facts.items()}
    console.finish(facts, out, as_json, told, shown)


def judge(
    folder: Path, files: Mapping[str, Any], kind: Any, bins: int, seed: int, spread: Sequence[str]
) -> dict[str, Any]:
    """Metrics of a folder, with intervals of those that ``spread`` names."""
    from simi_mailbox import scale

    nodes = {name: files[name] for name in ("labels", "test", "calibration", "train")}
    for name in ("ids", "classes", "id_column", "encoding"):
        if files.get(name):
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"{option} is for files: rows of a folder are nodes 0, 1, 2, …")
    with console.progress() as progress:
        found = scale.evaluate(folder, **nodes, input_type=kind, bins=bins, progress=progress)
    tally = found.metrics
    rows: dict[str, Any] = {name: {"value": value} for name, value in tally.evaluate().items()}
    for name in spread:
        interval = tally.interval(name, seed=seed)
        rows[name] |= {"low": interval.low, "high": interval.high}
    floor = tally.noise_floor(seed=seed)
    return {
        "nodes": tally.num_nodes,
        "left_out": found.left_out,
        "metrics": rows,
        "confidence": tally.confidence,
        "noise_floor": {"mean": floor.mean, "std": floor.std},
    }


def _words(error: OSError) -> str:
    if error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}; what is finished is kept: start again"
    return str(error)
