"""The command ``simi-mailbox prior``: learn a prior from past graphs, or look at one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli.options import check_file, check_folder
from simi_mailbox.files import whole_file
from simi_mailbox_bench import runner
from simi_mailbox_bench.commands.running import listed, open_store, run_planned
from simi_mailbox_bench.tables.base import counted

if TYPE_CHECKING:
    from simi_mailbox.calibrators.simi_mailbox.prior import Prior

TERMS = {
    "log_degree": "temperature: log(1 + degree)",
    "inverse_degree": "temperature: 1 / (1 + degree)",
    "neighbours": "classes: predictions of the neighbours",
    "neighbours_2_steps": "classes: predictions two steps away",
    "labels": "classes: label residuals of the neighbours",
    "labels_2_steps": "classes: label residuals two steps away",
    "hidden": "classes: closeness in the hidden layer",
    "uniform": "log-odds of the uniform mixture, relative to the squared error rate",
}
LABELS = (150, 500, 1500)
UNIT = 0.15
"""Of a GNN with 20 % errors and 80 % confidence among many classes."""
Names = tuple[str, ...] | None

_RUNS = click.argument(
    "runs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
_GRAPHS = click.option(
    "--graphs", callback=listed, help="Graphs of cached runs, by commas (default: all here)."
)
_BACKBONES = click.option("--backbones", callback=listed, help="Theirs (default: gcn,gat).")


@click.group()
def prior() -> None:
    """Learn a prior from past graphs, or look at one."""


@prior.command()
@_RUNS
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--cached-only", is_flag=True, help="Learn from the cached runs; none is trained.")
@click.option("--runs", "most", type=click.IntRange(3), help="At most so many cached runs each.")
@_GRAPHS
@_BACKBONES
def fit(
    runs: tuple[Path, ...],
    out: Path,
    cached_only: bool,
    most: int | None,
    graphs: Names,
    backbones: Names,
) -> None:
    """Learn a prior from RUNS, npz files of past graphs, or from cached runs.

    An npz file holds logits [n, K], y [n] (negative where unknown), edge_index [2, E] and
    calibration (the nodes that a calibrator would have had), and may hold train, hidden
    (what enters the last layer) and the words graph, backbone and family.

    What was looked at in a cached run is kept: interrupted work continues.
    """
    from simi_mailbox.calibrators.simi_mailbox.prior import write
    from simi_mailbox_bench.prior.learning import cached_settings, gather
    from simi_mailbox_bench.prior.past_runs import read_run

    if bool(runs) == cached_only:
        raise click.UsageError("give either npz files of past runs, or --cached-only")
    check_file(out)

    def tell(line: str) -> None:
        click.echo(line, err=True)

    if cached_only:
        settings = _some(cached_settings(*_chosen(graphs, backbones), most, tell))
    else:
        settings = gather((read_run(path) for path in runs), tell)
    write(settings, out)
    total = sum(setting.runs for setting in settings)
    click.echo(f"{out}: learned from {counted(len(settings), 'setting')}, {counted(total, 'run')}")


@prior.command()
@click.argument("name", default="learned")
def show(name: str) -> None:
    """Show a prior in plain numbers: 'learned' (the default) or the path of a prior file."""
    from simi_mailbox.calibrators.simi_mailbox import prior as priors

    settings = priors.shipped() if name == priors.LEARNED else priors.read(name)
    sources = [
        f"  {s.graph} {s.backbone}: {counted(s.runs, 'run')}, {s.labels} labels" for s in settings
    ]
    click.echo("\n".join([*_words(priors.prior_of(settings)), "", *sources]))


@prior.command()
@_RUNS
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--prior", "name", default="learned", show_default=True, help="A prior, for RUNS.")
@click.option("--methods", callback=listed, help="Further methods that need no features.")
@_GRAPHS
@_BACKBONES
def judge(
    runs: tuple[Path, ...], out: Path, name: str, methods: Names, graphs: Names, backbones: Names
) -> None:
    """Judge a prior on RUNS, npz files of past graphs, or on cached runs.

    Would it have helped on your past graphs? RUNS are files as `prior fit` reads them; their
    labels beside those trained and calibrated on are read by the metrics only. A file may hold
    the number of its split: runs of one split share their test nodes.

    Without RUNS, the shipped prior is judged on cached runs, each graph by the prior learned
    without its family.

    Writes rows.jsonl and table.md into the folder OUT; rows that are there are not made again.
    """
    from simi_mailbox_bench.prior import judging

    if runs and (graphs or backbones):
        raise click.UsageError("--graphs, --backbones choose cached runs; leave them or RUNS out")
    if not runs and name != "learned":
        raise click.UsageError("--prior is for RUNS; cached runs are judged by the shipped prior")
    check_folder(out)
    rows = open_store(out / "rows.jsonl")
    if runs:
        units = list(judging.file_units(runs, name, methods or ()))
    else:
        units = _some(list(judging.cached_units(*_chosen(graphs, backbones), methods or ())))
    failures = run_planned(runner.plan(units, rows), rows)
    keys = [key for unit in units for key in unit.keys() if key in rows]  # noqa: SIM118
    if keys:
        with whole_file(out / "table.md") as unfinished:
            unfinished.write_text(judging.table(rows, keys), encoding="utf-8")
    click.echo(f"{out}: {len(keys)} rows")
    if failures:
        raise SystemExit(1)


def _chosen(graphs: Names, backbones: Names) -> tuple[Any, list[str], list[str]]:
    """The cached runs, and what is taken of them."""
    from simi_mailbox_bench.backbones.cached_runs import RunCache
    from simi_mailbox_bench.datasets import available
    from simi_mailbox_bench.datasets.catalogue import find

    names = [find(name).name for name in graphs] if graphs else available()
    return RunCache(), names, list(backbones or ("gcn", "gat"))


def _some(found: list[Any]) -> list[Any]:
    if not found:
        raise click.ClickException(
            "there are no cached runs of these graphs and backbones (three are the least); "
            "`simi-mailbox bench table1` trains and keeps them"
        )
    return found


def _words(learned: Prior) -> list[str]:
    lines = []
    for title, belief in (("without", learned.plain), ("with", learned.hidden)):
        lines += [f"Coefficients {title} a hidden layer, before labels are seen:", ""]
        lines += [
            f"  {name:16} {belief.location[name]:+.3f} ± {belief.spread[name]:.3f}   {TERMS[name]}"
            for name in belief.location
        ]
        lines.append("")
    for keep, mode in ((True, "predictions preserved"), (False, "predictions may change")):
        for selected, whose in ((True, "used for selection"), (False, "not used for selection")):
            given = {"keep_classes": keep, "selected": selected}
            told = ", ".join(f"{100 * learned.drop(UNIT, n, **given):.2f} with {n}" for n in LABELS)
            lines.append(f"selection bias, {mode}, nodes {whose}: {told} labels, in points")
    return [
        *lines,
        f"calibration nodes that as good as could not be wrong: {learned.error_free_labels:.0f}",
    ]
