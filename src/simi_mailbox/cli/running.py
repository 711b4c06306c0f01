"""The work behind a table: told beforehand, shown while it is done, stopped in order."""

from __future__ import annotations

import click

from simi_mailbox.cli.outputs import reason
from simi_mailbox.cli.stopping import exit_code, terminable
from simi_mailbox.experiments import runner
from simi_mailbox.experiments.durations import in_words
from simi_mailbox.experiments.store import ResultStore
from simi_mailbox.experiments.words import counted


def tell(planned: runner.Plan, jobs: int, rows: ResultStore) -> None:
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


def run_planned(planned: runner.Plan, rows: ResultStore, jobs: int, scheduler: str | None) -> int:
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
