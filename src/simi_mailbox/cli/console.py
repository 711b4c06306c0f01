"""What commands say: tables, JSON, warnings and errors in one line, and that work goes on."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.plain_text import plain


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is going on; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Warnings of calibrators, each told in one line; they and errors name options."""
    told: list[str] = []
    with captured_warnings() as caught:
        try:
            yield told
        except (ValueError, TypeError) as error:
            raise click.ClickException(" ".join(in_options(str(error)).split())) from error
    for message in dict.fromkeys(caught):
        told.append(message)
        click.echo(f"Warning: {plain(message)}", err=True)


@contextmanager
def captured_warnings() -> Iterator[list[str]]:
    """What calibrators warn of, in the words of the command line."""
    told: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrationWarning)
        yield told
    told += [
        " ".join(in_options(str(warning.message)).split())
        for warning in caught
        if issubclass(warning.category, CalibrationWarning)
    ]


@contextmanager
def progress(*, transient: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """To be called with what is done, how far, of how much: a bar for each on a terminal, with the
    time that it still takes; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda step, done, total: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=transient) as bars:
        known: dict[str, progress.TaskID] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in known:
                known[step] = bars.add_task(step, total=total)
            bars.update(known[step], completed=done, total=total)

        yield show


def in_options(text: str) -> str:
    """What Python calls its arguments, as the options are called."""
    text = re.sub(r'\binput_type="([\w-]+)"', r"--input-type \1", text)
    return text.replace("train_mask", "--train")


def finish(
    facts: Mapping[str, Any],
    out: Path,
    as_json: bool,
    told: list[str],
    shown: Mapping[str, Any] | None = None,
    wrote: str | None = None,
) -> None:
    """Say what a command has done; on standard error if its result went to standard output."""
    if as_json:
        show_json({**facts, "out": out, "warnings": told})
        return
    aside = str(out) == "-"
    show_facts(facts if shown is None else shown, aside=aside)
    if not aside:
        click.echo(wrote or f"wrote {out}")


def show_facts(facts: Mapping[str, Any], *, aside: bool = False) -> None:
    """A table of two columns."""
    from rich.table import Table

    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    for name, value in facts.items():
        if name == "calibration_is":
            continue
        shown = f"{value:.2%}" if isinstance(value, float) else value
        shown = f"{value:,}" if isinstance(value, int) else shown
        if name == "calibration_nodes":
            shown = f"{shown} ({facts['calibration_is']})"
        table.add_row(name.replace("_", " "), str(shown))
    show_table(table, aside=aside)


def show_json(content: Mapping[str, Any]) -> None:
    """One JSON object; what is not a number becomes null."""
    click.echo(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def show_table(table: Any, width: int = 120, *, aside: bool = False) -> None:
    """A rich table; ``width`` counts where there is no terminal to ask for its own."""
    from rich.console import Console

    console = Console(stderr=aside)
    console = console if console.is_terminal else Console(width=width, stderr=aside)
    console.print(table)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and value != value else value
