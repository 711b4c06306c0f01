"""`simi-mailbox bench`: the paper's tables, one command each, beside the printed numbers."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from simi_mailbox.calibrators import registry
from simi_mailbox.cli.options import check_file, check_folder, completions, plugin_option
from simi_mailbox.files import whole_file
from simi_mailbox_bench import runner, tables
from simi_mailbox_bench.commands.figure import SHOWS, figure
from simi_mailbox_bench.commands.running import listed, open_store, run_planned, tell
from simi_mailbox_bench.prior.judging import judged_tables
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables.base import Selection, Table, TableResult, counted

Names = tuple[str, ...] | None
FORMATS = ("terminal", "markdown", "csv")
TABLES = Path("results/tables")


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
    """List tables and figures: what each shows; of tables, how much is done and needed."""
    from rich.console import Console
    from rich.table import Table as RichTable

    from simi_mailbox_bench.backbones.cached_runs import missing

    rows = open_store(store)
    shown = RichTable("table", "shows", "cells done", "not here", "still to run", box=None)
    for name in tables.names():
        table = tables.get(name)
        absent = missing(list(table.needs()))
        planned = runner.plan(table.units(Selection()), rows)
        shown.add_row(
            name,
            table.shows,
            table.progress(rows, absent),
            ", ".join(absent) or "–",
            f"{planned.rows} rows" if planned.rows else "nothing",
        )
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(shown)
    drawn = RichTable("figure", "shows", box=None)
    for name, what in SHOWS.items():
        drawn.add_row(name, f"{what}: simi-mailbox bench figure {name}")
    console.print(drawn)
    click.echo(
        "Cells: done with all their runs, of those whose graph is here. "
        "`--runs N` makes N runs per cell."
    )


@click.command("write")
@click.option("--store", type=click.Path(path_type=Path), help="Result store to look into.")
@click.option("--out", type=click.Path(path_type=Path), default=TABLES, show_default=True)
def write_tables(store: Path | None, out: Path) -> None:
    """Write every table as CSV, and those with stored rows as Markdown; nothing is run."""
    from simi_mailbox_bench import render

    rows = open_store(store)
    made = {name: _results(tables.get(name), rows) for name in tables.names()}
    made |= judged_tables(rows.path.parent)
    if not any(result.measured().lines for results in made.values() for result in results):
        raise click.ClickException(
            f"no table has rows in {rows.path}; `simi-mailbox bench list` shows what can be made"
        )
    check_folder(out)
    for name, results in made.items():
        (out / f"{name}.csv").write_text(render.csv_text(*results), "utf-8")
        filled = [part for result in results if (part := result.measured()).lines]
        if filled:
            text = "\n".join(render.markdown(result) for result in filled)
            (out / f"{name}.md").write_text(text, "utf-8")
    index = render.index_text(result for results in made.values() for result in results)
    (out / render.INDEX).write_text(index, "utf-8")
    click.echo(f"wrote {counted(len(made), 'table')} into {out}")


def _results(table: Table, rows: ResultStore) -> list[TableResult]:
    """A table, in each of its metrics."""
    shown = [table.with_metric(metric) for metric in table.metrics] or [table]
    return [one.result(rows, Selection()) for one in shown]


@click.command("page")
@click.argument(
    "pages",
    nargs=-1,
    required=True,
    metavar="PAGE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--tables",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=TABLES,
    show_default=True,
    help="Folder that `bench write` wrote.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a block is stale.")
def fill_pages(pages: tuple[Path, ...], folder: Path, check: bool) -> None:
    """Make the marked blocks and charts of Markdown pages from written tables."""
    from simi_mailbox_bench import charts
    from simi_mailbox_bench.pages import fill

    made = {}
    for path in pages:  # all of them before any is written: one error, and nothing has changed
        try:
            made[path] = fill(path.read_text("utf-8"), folder)
        except ValueError as error:
            raise click.UsageError(f"{path}: {error}") from None
    word = "stale" if check else "made"
    count = total = 0
    for path, (text, stale, blocks) in made.items():
        undrawn = [block for block in blocks if not block.is_drawn(path)]
        found = sorted({*stale, *((block.line, block.asks) for block in undrawn)})
        for line, asks in found:
            click.echo(f"{path}:{line}: {word}: {asks}")
        count, total = count + len(found), total + len(blocks)
        if check:
            continue
        for block in undrawn:
            assert block.chart is not None
            target = path.parent / block.chart
            target.parent.mkdir(parents=True, exist_ok=True)
            drawing = charts.svg(block.kind, block.parts, block.options["title"])
            target.write_text(drawing, "utf-8")
        if stale:
            with whole_file(path) as unfinished:
                unfinished.write_text(text, "utf-8")
    click.echo(f"{count} of {total} blocks {word}, {total - count} up to date")
    if check and count:
        raise SystemExit(1)


_COMMANDS = {"list": list_tables, "write": write_tables, "page": fill_pages, "figure": figure}


def _table_command(table: Table) -> click.Command:
    @click.command(table.name, help=f"Make the table: {table.shows}.")
    @click.option("--datasets", "--graph", callback=listed, help="Graphs, separated by commas.")
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
    @click.option("--dry-run", is_flag=True, help="Tell what would run.")
    @click.option("--cached-only", is_flag=True, help="Only runs whose backbone is trained.")
    @click.option("--show", is_flag=True, help="Show what is stored and run nothing.")
    @click.option("--format", "form", type=click.Choice(FORMATS), default="terminal")
    @click.option("--out", type=click.Path(path_type=Path), help="File to write the table to.")
    @click.option(
        "--store",
        type=click.Path(path_type=Path),
        help="Result store; default: results/rows.jsonl here, or in the user's cache folder.",
    )
    def command(
        datasets: Names,
        backbones: Names,
        methods: Names,
        runs: int | None,
        metric: str | None = None,
        **how: Any,
    ) -> None:
        try:
            shown = table if metric is None else table.with_metric(metric)
            joined = shown.joined_by(_guests(shown, methods), datasets or ())
            selection = joined.check(Selection(datasets, backbones, methods, runs))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        _make(joined, selection, **how)

    if table.metrics:
        choice = click.Choice(table.metrics)
        command.params.append(click.Option(["--metric"], type=choice, help="What is shown."))
    return command


def _guests(table: Table, methods: Names) -> list[str]:
    """Methods of other packages to show: those named, or all where the table is open to them."""
    if methods is None and not table.open:
        return []
    named = {name.lower() for name in methods or ()}
    if methods is not None and named <= {name.lower() for name in table.methods}:
        return []
    from simi_mailbox_bench.rivals import RIVALS

    outside = sorted(registry.from_outside())
    guests = [name for name in outside if methods is None or name.lower() in named]
    return [*guests, *(name for name in RIVALS if name in named)]


def _make(
    table: Table,
    selection: Selection,
    *,
    jobs: int,
    dry_run: bool,
    cached_only: bool,
    show: bool,
    form: str,
    out: Path | None,
    store: Path | None,
) -> None:
    from simi_mailbox_bench import render

    rows = open_store(store)
    if out is not None and not dry_run:
        check_file(out)
    failures = 0
    if not show:
        selection = _report_missing(table, selection)
        planned = runner.plan(table.units(selection), rows, only_ready=cached_only)
        if planned.left_out:
            click.echo(
                f"left out: {counted(planned.left_out, 'row')} whose backbone is not trained yet; "
                "without --cached-only it is trained",
                err=True,
            )
        if dry_run:
            tell(planned, rows)
            return
        failures = run_planned(planned, rows, jobs)
    result = table.result(rows, selection)
    if show and not result.measured().lines:
        raise click.ClickException(
            f"no rows of this {'table' if selection == Selection() else 'part of the table'} in "
            f"{rows.path}; `simi-mailbox bench {table.name}` makes them"
        )
    if form == "terminal" and out is None and sys.stdout.isatty():
        text = render.terminal(result, shutil.get_terminal_size().columns)
    else:
        text = render.FORMATS[form](result)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text, "utf-8")
        click.echo(f"wrote {out}")
    if failures:
        raise SystemExit(1)


def _report_missing(table: Table, selection: Selection) -> Selection:
    from simi_mailbox_bench.backbones.cached_runs import missing

    wanted = selection.datasets or table.datasets
    absent = missing([name for name in table.needs() if name in wanted])
    for advice in absent.values():
        click.echo(f"left out: {advice}", err=True)
    if not absent:
        return selection
    return replace(selection, datasets=tuple(name for name in wanted if name not in absent))
