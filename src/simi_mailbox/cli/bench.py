"""`simi-mailbox bench`: the paper's tables, one command each, beside the printed numbers."""

from __future__ import annotations

import functools
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simi_mailbox.calibrators import registry
from simi_mailbox.cli.figure import figure
from simi_mailbox.cli.options import completions
from simi_mailbox.cli.outputs import check_file, check_folder
from simi_mailbox.cli.plugins import plugin_option
from simi_mailbox.cli.running import listed, open_store, run_planned, tell
from simi_mailbox.experiments import runner, tables
from simi_mailbox.experiments.durations import in_words
from simi_mailbox.experiments.tables.base import Selection, Table
from simi_mailbox.experiments.tables.result import TableResult, counted
from simi_mailbox.files import whole_file

Names = tuple[str, ...] | None
FORMATS = ("terminal", "markdown", "csv", "latex")


class TableGroup(click.Group):
    """A command for every table; tables are looked up late, so that the help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*_COMMANDS, *tables.names()]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in _COMMANDS:
            return _COMMANDS[name]
        try:
            return _table_command(tables.get(name))
        except ValueError as error:
            raise click.UsageError(str(error)) from None


@click.command(cls=TableGroup)
def bench() -> None:
    """Make a table of the paper: measured beside printed.

    Rows that are already stored are not made again; interrupted work continues.
    """


@click.command("list")
@click.option("--store", type=click.Path(path_type=Path), help="Result store to look into.")
def list_tables(store: Path | None) -> None:
    """List the tables: what each shows, how much of it is done, what it needs and costs."""
    from rich.console import Console
    from rich.table import Table as RichTable

    from simi_mailbox.experiments.logits import missing

    rows = open_store(store)
    shown = RichTable("table", "shows", "cells done", "not here", "still to run", "about", box=None)
    for name in tables.names():
        table = tables.get(name)
        absent = missing(list(table.needs()))
        planned = runner.plan(table.units(Selection()), rows)
        shown.add_row(
            name,
            table.shows,
            str(table.progress(rows, absent)),
            ", ".join(absent) or "–",
            f"{planned.rows} rows" if planned.rows else "nothing",
            in_words(planned.total_seconds) if planned.rows else "–",
        )
    Console(width=None if sys.stdout.isatty() else 150).print(shown)
    click.echo(
        "Cells: done with all their runs, of those whose graph is here. "
        "Times are for one core; `--jobs` divides them. `--runs N` makes N runs per cell."
    )


@click.command("write")
@click.option("--store", type=click.Path(path_type=Path), help="Result store to look into.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("results/tables"), show_default=True
)
def write_tables(store: Path | None, out: Path) -> None:
    """Write every table that has stored rows as Markdown and CSV; nothing is run."""
    from simi_mailbox.experiments import render

    rows = open_store(store)
    results = [tables.get(name).result(rows, Selection()).measured() for name in tables.names()]
    filled = [result for result in results if result.lines]
    if not filled:
        raise click.ClickException(
            f"no table has rows in {rows.path}; `simi-mailbox bench list` shows what can be made"
        )
    check_folder(out)
    for result in filled:
        name = result.name
        render.write(result, "markdown", out / f"{name}.md")
        render.write(result, "csv", out / f"{name}.csv")
        click.echo(f"wrote {out / name}.md and .csv: {counted(len(result.lines), 'cell')}")


@click.command("page")
@click.argument(
    "pages",
    nargs=-1,
    required=True,
    metavar="PAGE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--store", type=click.Path(path_type=Path), help="Result store to look into.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a block is stale.")
def fill_pages(pages: tuple[Path, ...], store: Path | None, check: bool) -> None:
    """Make the marked blocks of Markdown pages from stored rows; other text is left alone.

    FOLDER/METRIC in the place of a table is what `prior judge` left in that folder beside the
    store.
    """
    from simi_mailbox.experiments import page
    from simi_mailbox.experiments.prior import judged

    rows = open_store(store)

    @functools.cache
    def results(name: str, runs: int | None) -> TableResult:
        folder, _, metric = name.partition("/")
        if metric and runs is not None:
            raise ValueError(f"{name} shows all runs that were judged: leave out runs={runs}")
        if metric:
            return judged(rows.path.parent / folder, metric)
        return tables.get(name).result(rows, Selection(runs=runs))

    made = {}
    for path in pages:  # all of them before any is written: one error, and nothing has changed
        try:
            made[path] = page.fill(path.read_bytes().decode("utf-8"), results)
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from None
    word = "stale" if check else "made"
    for path, (text, stale) in made.items():
        for block in stale:
            click.echo(f"{path}:{block.line}: {word}: {block.asks}")
        if stale and not check:
            with whole_file(path) as unfinished:
                unfinished.write_bytes(text.encode("utf-8"))
    total = sum(len(page.find(text)) for text, _ in made.values())
    count = sum(len(stale) for _, stale in made.values())
    click.echo(f"{count} of {total} blocks {word}, {total - count} fresh")
    if check and count:
        raise SystemExit(1)


_COMMANDS = {"list": list_tables, "write": write_tables, "page": fill_pages, "figure": figure}


def _table_command(table: Table) -> click.Command:
    @click.command(table.name, help=f"Make the table: {table.shows}.")
    @click.option("--datasets", callback=listed, help="Graphs, separated by commas.")
    @click.option("--backbones", callback=listed, help="Backbones, separated by commas.")
    @click.option(
        "--methods",
        callback=listed,
        shell_complete=lambda _ctx, _option, text: completions(table.methods, text),
        help="Methods, separated by commas.",
    )
    @plugin_option
    @click.option("--runs", type=click.IntRange(1), help="Runs per cell, over splits first.")
    @click.option("--jobs", type=click.IntRange(1), default=1, show_default=True)
    @click.option("--scheduler", help="Address of a Dask scheduler to run on.")
    @click.option("--dry-run", is_flag=True, help="Tell what would run and for how long.")
    @click.option("--banked", is_flag=True, help="Only runs whose backbone is trained already.")
    @click.option("--show", is_flag=True, help="Show what is stored and run nothing.")
    @click.option("--format", "form", type=click.Choice(FORMATS), default="terminal")
    @click.option("--out", type=click.Path(path_type=Path), help="File to write the table to.")
    @click.option(
        "--store",
        type=click.Path(path_type=Path),
        help="Result store; default: results/rows.jsonl here, or in the user's cache folder.",
    )
    def command(
        datasets: Names, backbones: Names, methods: Names, runs: int | None, **how: Any
    ) -> None:
        try:
            joined = table.joined_by(_guests(table, methods), datasets or ())
            selection = joined.check(Selection(datasets, backbones, methods, runs))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        _make(joined, selection, **how)

    return command


def _guests(table: Table, methods: Names) -> list[str]:
    """Methods of other packages to show: those named, or all where the table is open to them.

    Those of probmetrics are in the registry's tables, and are shown elsewhere where named.
    """
    if methods is None and not table.open:
        return []
    named = {name.lower() for name in methods or ()}
    if methods is not None and named <= {name.lower() for name in table.methods}:
        return []
    from simi_mailbox.experiments.rivals import RIVALS

    outside = sorted(registry.from_outside())
    guests = [name for name in outside if methods is None or name.lower() in named]
    return [*guests, *(name for name in RIVALS if name in named)]


def _make(
    table: Table,
    selection: Selection,
    *,
    jobs: int,
    scheduler: str | None,
    dry_run: bool,
    banked: bool,
    show: bool,
    form: str,
    out: Path | None,
    store: Path | None,
) -> None:
    from simi_mailbox.experiments import render

    rows = open_store(store)
    if out is not None and not dry_run:
        check_file(out)
    failures = 0
    if not show:
        selection = _report_missing(table, selection)
        planned = runner.plan(table.units(selection), rows, only_ready=banked)
        if planned.left_out:
            click.echo(
                f"left out: {counted(planned.left_out, 'row')} whose backbone is not trained yet; "
                "without --banked it is trained",
                err=True,
            )
        if dry_run:
            tell(planned, jobs, rows)
            return
        failures = run_planned(planned, rows, jobs, scheduler)
    result = table.result(rows, selection)
    if show and not result.measured().lines:
        raise click.ClickException(
            f"no rows of this {'table' if selection == Selection() else 'part of the table'} in "
            f"{rows.path}; `simi-mailbox bench {table.name}` makes them"
        )
    if form == "terminal" and out is None and sys.stdout.isatty():
        text = render.terminal(result, shutil.get_terminal_size().columns)
    else:
        text = render.write(result, form, out)
    if out is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"wrote {out}")
    if failures:
        raise SystemExit(1)


def _report_missing(table: Table, selection: Selection) -> Selection:
    from simi_mailbox.experiments.logits import missing

    wanted = selection.datasets or table.datasets
    absent = missing([name for name in table.needs() if name in wanted])
    for advice in absent.values():
        click.echo(f"left out: {advice}", err=True)
    if not absent:
        return selection
    return replace(selection, datasets=tuple(name for name in wanted if name not in absent))
