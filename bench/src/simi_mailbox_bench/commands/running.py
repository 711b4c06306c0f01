"""The work behind a command: its store and options, told beforehand, shown, stopped in order."""

from pathlib import Path

import click

from simi_mailbox.cli.outputs import reason
from simi_mailbox.cli.signals import exit_code, terminable
from simi_mailbox.files import cache_folder
from simi_mailbox_bench import runner
from simi_mailbox_bench.runner import in_words
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
        raise click.ClickException(f"cannot read the store {path}: {reason(error)}") from None
    for message in rows.repairs:
        click.echo(message, err=True)
    return rows


def tell(planned: runner.RunPlan, jobs: int, rows: ResultStore) -> None:
    """Say what would run, and for how long."""
    click.echo(
        f"would run {counted(planned.rows, 'row')} in {counted(len(planned.units), 'unit')}, "
        f"about {in_words(planned.total_seconds / jobs)} with {jobs} "
        f"process{'es' if jobs > 1 else ''}; {_stored(planned.already)} in {rows.path} already"
    )
    for unit, seconds in list(zip(planned.units, planned.seconds, strict=True))[:20]:
        click.echo(f"  {unit.label}: {counted(len(unit.keys()), 'row')}, {in_words(seconds)}")
    if len(planned.units) > 20:
        click.echo(f"  … and {counted(len(planned.units) - 20, 'more unit')}")


def run_planned(
    planned: runner.RunPlan, rows: ResultStore, jobs: int, scheduler: str | None
) -> int:
    """Do the planned work, with a bar that shows how far it is; the number of failures."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    told = len(rows.repairs)
    if planned.units:
        try:
            rows.prepare()
        except OSError as error:
            message = f"cannot write the store {rows.path}: {reason(error)}"
            raise click.ClickException(message) from None
        if scheduler is not None:
            try:
                runner.check_scheduler(scheduler)
            except runner.NoSchedulerError as error:
                raise click.ClickException(str(error)) from None
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    try:
        with terminable(), Progress(*columns, console=console, disable=not planned.units) as shown:
            total = max(planned.total_seconds, 1e-9)
            task = shown.add_task(counted(planned.rows, "row"), total=total)

            def advance(label: str, seconds: float) -> None:
                shown.update(task, advance=seconds, description=label)

            report = runner.run(planned, rows, jobs=jobs, scheduler=scheduler, advance=advance)
    except runner.WorkerLostError as lost:
        made = planned.rows - runner.plan(planned.units, rows).rows
        stored = _stored(planned.already + made)
        message = f"{lost}; {stored} in {rows.path}; the same command continues"
        raise click.ClickException(message) from None
    except KeyboardInterrupt as stop:
        made = planned.rows - runner.plan(planned.units, rows).rows
        stored = _stored(planned.already + made)
        click.echo(f"stopped; {stored} in {rows.path}; the same command continues", err=True)
        raise SystemExit(exit_code(stop)) from None
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
