"""What commands say: tables, JSON, warnings and errors in one line, and that work goes on."""

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from simi_mailbox.exceptions import CalibrationWarning
from simi_mailbox.plain_text import plain


def working(what: str) -> AbstractContextManager[Any]:
    """Show on a terminal that something is going on; nothing in a pipe."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Warnings of calibrators, each told in one line; they and errors name options."""
    told: list[str] = []
    with captured_warnings() as caught:
        try:
            yield told
        except (ValueError, TypeError) as error:
            raise click.ClickException(in_options(str(error))) from error
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
    ours = (one for one in caught if issubclass(one.category, CalibrationWarning))
    told += [in_options(str(one.message)) for one in ours]


def in_options(text: str) -> str:
    """One line in which the arguments of Python are called as the options are."""
    text = re.sub(r'\binput_type="([\w-]+)"', r"--input-type \1", text)
    return " ".join(text.replace("train_mask", "--train").split())


@contextmanager
def progress() -> Iterator[Callable[[str, int, int], None]]:
    """To be called with a step, what is done, of how much: a bar each on a terminal, else none."""
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as bars:
        known: dict[str, TaskID] = {}

        def show(step: str, done: int, total: int) -> None:
            if step not in known:
                known[step] = bars.add_task(step, total=total)
            bars.update(known[step], completed=done, total=total)

        yield show


def finish(
    facts: Mapping[str, Any],
    out: Path,
    as_json: bool,
    told: list[str],
    forms: Mapping[str, str] | None = None,
    save: Path | None = None,
    more: str = "",
) -> None:
    """Say what a command has done and written; on standard error if it wrote to standard output."""
    if as_json:
        show_json({**facts, "out": out, "warnings": told})
        return
    aside = str(out) == "-"
    show_facts(facts, forms, aside=aside)
    if not aside:
        click.echo(f"wrote {out}{f' and {save}' if save else ''}{more}")


def show_facts(
    facts: Mapping[str, Any], forms: Mapping[str, str] | None = None, *, aside: bool = False
) -> None:
    """A table of two columns; ``forms`` by name ("": other fractions; an empty one: left out)."""
    forms, shown = forms or {}, {}
    for name, value in facts.items():
        form = forms.get(name, "{:,}" if isinstance(value, int) else forms.get("", "{:.2%}"))
        if form and name != "calibration_is":
            note = f" ({facts['calibration_is']})" if name == "calibration_nodes" else ""
            shown[name.replace("_", " ")] = _in_form(value, form) + note
    show_rows(("", ""), shown.items(), aside=aside, show_header=False)


def _in_form(value: Any, form: str) -> str:
    if isinstance(value, Mapping):
        ends = f" ({form} – {form})".format(value["low"], value["high"]) if "low" in value else ""
        return form.format(value["value"]) + ends
    if value is None or isinstance(value, list):
        return form.format(*value) if value else "–"
    return form.format(value) if isinstance(value, int | float) else str(value)


def show_rows(
    headings: Iterable[str], rows: Iterable[Iterable[str]], *, aside: bool = False, **options: Any
) -> None:
    """A table of names and numbers."""
    from rich.table import Table

    table = Table(**options)
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left", no_wrap=not k)
    for row in rows:
        table.add_row(*row)
    show_table(table, aside=aside)


def show_table(table: Any, width: int = 120, *, aside: bool = False) -> None:
    """A rich table; ``width`` counts where there is no terminal to ask for its own."""
    from rich.console import Console

    console = Console(stderr=aside)
    console = console if console.is_terminal else Console(width=width, stderr=aside)
    console.print(table)


def show_json(content: Mapping[str, Any]) -> None:
    """One JSON object; what is not a number becomes null."""
    click.echo(json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


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
