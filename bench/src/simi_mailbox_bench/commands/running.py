"""The work behind a command: its store and options, told beforehand, shown, stopped in order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from simi_mailbox.files import cache_folder
from simi_mailbox_bench import runner
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables.base import counted


def listed(
    _ctx: click.Context, _option: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Names separated by commas, as an option gives them; a list of nothing is a mistake."""
    if value is None:
        return None
    names = tuple(part.strip() for part in value.split(",") if part.strip())
    if not names:
        raise click.BadParameter(f"{value!r} names nothing; leave the option out for all")
    return names


def default_store() -> Path:
    """``results/rows.jsonl`` where there is a folder ``results``, else one in the user's cache."""
    if Path("results").is_dir():
        return Path("results") / "rows.jsonl"
    return cache_folder("results") / "rows.jsonl"


def open_store(path: Path | None) -> ResultStore:
    """The store at ``path``, or the default one; what is unreadable in it is told here."""
    path = path or default_store()
    try:
        rows = ResultStore(path)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(
            f"cannot read the store {path}: {error.strerror or error}"
        ) from None
    for message in rows.repairs:
        click.echo(message, err=True)
    return rows


def tell(planned: runner.RunPlan, rows: ResultStore) -> None:
    """Say what would run."""
    click.echo(
        f"would run {counted(planned.rows, 'row')} in {counted(len(planned.units), 'unit')}; "
        f"{_stored(planned.already)} in {rows.path} already"
    )
    for unit in planned.units[:20]:
        click.echo(f"  {unit.label}: {counted(len(unit.items), 'row')}")
    if len(planned.units) > 20:
        click.echo(f"  … and {counted(len(planned.units) - 20, 'more unit')}")


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM inside the block is an interrupt, so that what it started is ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break the cleaning up
    raise KeyboardInterrupt(number)


def run_planned(planned: runner.RunPlan, rows: ResultStore, jobs: int = 1) -> int:
    """Do the planned work, with a bar that shows how far it is; the number of failures."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    told = len(rows.repairs)
    if planned.units:
        try:
            rows.prepare()
        except OSError as error:
            message = f"cannot write the store {rows.path}: {error.strerror or error}"
            raise click.ClickException(message) from None
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    try:
        with terminable(), Progress(*columns, console=console, disable=not planned.units) as shown:
            task = shown.add_task(counted(planned.rows, "row"), total=planned.rows)

            def advance(unit: runner.Unit) -> None:
                shown.update(task, advance=len(unit.items), description=unit.label)

            report = runner.run(planned, rows, jobs=jobs, advance=advance)
    except (runner.WorkerLostError, KeyboardInterrupt) as stop:
        made = planned.rows - runner.plan(planned.units, rows).rows
        where = f"{_stored(planned.already + made)} in {rows.path}; the same command continues"
        if isinstance(stop, runner.WorkerLostError):
            raise click.ClickException(f"{stop}; {where}") from None
        click.echo(f"stopped; {where}", err=True)
        raise SystemExit(128 + (stop.args[0] if stop.args else signal.SIGINT)) from None
    for message in rows.repairs[told:]:
        click.echo(message, err=True)
    for failure in report.failures:
        click.echo(f"failed: {failure.label}: {failure.error}", err=True)
    if report.failures:
        others = "; the others are stored" if report.written or planned.already else ""
        click.echo(f"{counted(len(report.failures), 'run')} failed{others}", err=True)
    return len(report.failures)


def _stored(rows: int) -> str:
    return f"{counted(rows, 'row')} {'is' if rows == 1 else 'are'}"
