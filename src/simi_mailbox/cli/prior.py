"""The command ``simi-mailbox prior``: learn a prior from past graphs, or look at one."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simi_mailbox.cli.outputs import check_file, check_folder
from simi_mailbox.cli.running import open_store, run_planned
from simi_mailbox.experiments import runner
from simi_mailbox.experiments.tables.base import counted

if TYPE_CHECKING:
    from simi_mailbox.prior import Corpus, Prior, Setting

ERRORS = (0.05, 0.1, 0.2, 0.4)
DEGREES = (0, 1, 2, 10, 50)
USUAL = 4
LABELS = (150, 500, 1500)

_EMPTY = (
    "the bank holds no runs of these graphs and backbones (three are the least); "
    "`simi-mailbox bench table1` trains and keeps them"
)


@click.group()
def prior() -> None:
    """Learn a prior from past graphs, or look at one."""


@prior.command()
@click.argument("runs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--banked", is_flag=True, help="Learn from the runs in the logit bank.")
@click.option("--graphs", default="", help="Banked graphs, by commas (default: all here).")
@click.option("--backbones", default="", help="Banked backbones (default: gcn,gat).")
def fit(runs: tuple[Path, ...], out: Path, banked: bool, graphs: str, backbones: str) -> None:
    """Learn a prior from RUNS, npz files of past graphs, or from the logit bank.

    An npz file holds logits [n, K], y [n] (negative where unknown), edge_index [2, E] and
    calibration (the nodes that a calibrator would have had), and may hold train and the words
    graph, backbone and family.
    """
    from simi_mailbox.experiments.prior import gather, read_run
    from simi_mailbox.prior import Corpus, write

    if bool(runs) == banked:
        raise click.UsageError("give either npz files of past runs, or --banked")
    check_file(out)
    try:
        if banked:
            settings = _banked(graphs, backbones)
        else:
            settings = list(gather(read_run(path) for path in runs))
        if not settings:
            raise click.ClickException(_EMPTY)
        write(Corpus(tuple(settings), _command()), out)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    total = sum(setting.runs for setting in settings)
    click.echo(f"{out}: learned from {counted(len(settings), 'setting')}, {counted(total, 'run')}")


@prior.command()
@click.argument("name", default="learned")
@click.option("--without", "dataset", help="Leave a dataset and its relatives out.")
def show(name: str, dataset: str | None) -> None:
    """Show a prior in plain numbers: 'learned' (the default) or the path of a prior file."""
    from simi_mailbox import prior as priors
    from simi_mailbox.prior.families import family_of

    try:
        corpus = priors.corpus() if name == "learned" else priors.read(name)
        if dataset is not None:
            shipped = family_of if name == "learned" else None
            corpus = corpus.without(_family(corpus, dataset, shipped))
        learned = corpus.prior()
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join([*_words(learned), "", *_sources(corpus)]))


@prior.command()
@click.argument("runs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--prior", "name", default="learned", show_default=True, help="A prior, for RUNS.")
@click.option("--methods", default="", help="Further methods that need no features, by commas.")
@click.option("--graphs", default="", help="Banked graphs, by commas (default: all here).")
@click.option("--backbones", default="", help="Banked backbones (default: gcn,gat).")
def judge(
    runs: tuple[Path, ...], out: Path, name: str, methods: str, graphs: str, backbones: str
) -> None:
    """Judge a prior on RUNS, npz files of past graphs, or on the logit bank.

    Would it have helped on your past graphs? RUNS are files as `prior fit` reads them; their
    labels beside those trained and calibrated on are read by the metrics only. A file may hold
    the number of its split: runs of one split share their test nodes.

    Without RUNS, the shipped prior is judged on banked runs, each graph by the prior learned
    without its family.

    Writes rows.jsonl and table.md into the folder OUT; rows that are there are not made again.
    """
    from simi_mailbox.experiments.prior.judging import JudgedUnit, banked_units, file_units, table
    from simi_mailbox.models.bank import LogitBank

    if runs and (graphs or backbones):
        raise click.UsageError("--graphs, --backbones choose banked runs; leave them or RUNS out")
    if not runs and name != "learned":
        raise click.UsageError("--prior is for RUNS; banked runs are judged by the shipped prior")
    also = _parts(methods)
    check_folder(out)
    rows = open_store(out / "rows.jsonl")
    try:
        if runs:
            units = list(file_units(runs, name, also))
        else:
            units = list(banked_units(LogitBank(), _names(graphs), _backbones(backbones), also))
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    if not units:
        raise click.ClickException(_EMPTY)
    failures = run_planned(runner.plan(units, rows), rows, jobs=1, scheduler=None)
    keys = [key for keys in map(JudgedUnit.keys, units) for key in keys if key in rows]
    if keys:
        text = f"# The prior on graphs it was not learned on\n\nMade by `{_command(runs)}`.\n\n"
        shown = table(rows, keys, ()) if runs else table(rows, keys)
        (out / "table.md").write_text(text + shown, encoding="utf-8")
    click.echo(f"{out}: {len(keys)} rows")
    if failures:
        raise SystemExit(1)


@prior.command()
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--graphs", default="", help="Banked graphs, by commas (default: all here).")
@click.option("--backbones", default="", help="Banked backbones (default: gcn,gat).")
def draw(out: Path, graphs: str, backbones: str) -> None:
    """Draw the residuals of banked runs, before and after the baseline."""
    from simi_mailbox.experiments.prior.learning import banked_pictures
    from simi_mailbox.experiments.prior.picture import draw as figure
    from simi_mailbox.models.bank import LogitBank

    check_file(out)
    try:
        chosen = _names(graphs), _backbones(backbones)
        settings = list(banked_pictures(LogitBank(), *chosen))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if not settings:
        raise click.ClickException(_EMPTY)
    figure(settings).savefig(out, dpi=110)
    click.echo(f"{out}: {len(settings)} settings")


def _names(graphs: str) -> list[str]:
    from simi_mailbox.data import available
    from simi_mailbox.data.catalogue import find

    return [find(name).name for name in _parts(graphs)] or available()


def _backbones(words: str) -> list[str]:
    return _parts(words) or ["gcn", "gat"]


def _family(corpus: Corpus, name: str, shipped: Callable[[str], str] | None) -> str:
    """Family of a graph of the corpus, or of a relative that only the catalogue knows."""
    family = corpus.family_of(name)
    if family is None and shipped is not None:
        return shipped(name)
    if family is None:
        graphs = sorted({setting.graph for setting in corpus.settings})
        raise ValueError(f"{name!r} is not in this corpus; it holds {', '.join(graphs)}")
    return family


def _parts(words: str) -> list[str]:
    return [part.strip() for part in words.split(",") if part.strip()]


def _banked(graphs: str, backbones: str) -> list[Setting]:
    from simi_mailbox.experiments.prior.learning import banked_settings
    from simi_mailbox.models.bank import LogitBank

    made = []
    for setting in banked_settings(LogitBank(), _names(graphs), _backbones(backbones)):
        click.echo(f"{setting.graph} {setting.backbone}: {setting.runs} runs", err=True)
        made.append(setting)
    return made


def _command(runs: tuple[Path, ...] = ()) -> str:
    """As typed, with one word in place of many files."""
    files = {str(path) for path in runs}
    words = [word for word in sys.argv[1:] if word not in files]
    return shlex.join(["simi-mailbox", *words[:2], *["RUNS"][: len(files)], *words[2:]])


def _words(learned: Prior) -> list[str]:
    import numpy as np

    times = " to ".join(f"{np.exp(k * learned.blind_spread):.2g}" for k in (-1, 1))
    shares = ", ".join(
        f"{100 * e**2 * np.exp(learned.blind):.1f} % at {100 * e:g} %" for e in ERRORS
    )
    hotter = ", ".join(f"× {_hotter(learned, d):.2f} with {d}" for d in DEGREES)
    sure = np.ones(1)
    level = ", ".join(f"{100 * learned.level(sure, 0.2, n)[0]:+.2f} with {n}" for n in LABELS)
    return [
        "Before a graph's own labels are seen, other graphs say:",
        "",
        f"blind guesses, by the error rate:  {shares} (times {times})",
        f"temperature, by the neighbours:    {hotter} (relative to {USUAL})",
        f"luck of the calibration nodes:     {level} labels, at 20 %, in points",
        f"a group's own labels count against {learned.pseudo_labels:.0f} pseudo-labels",
    ]


def _hotter(learned: Prior, degree: int) -> float:
    """Temperature of a node relative to one with the usual number of neighbours."""
    import math

    rise = learned.log_degree * math.log((1 + degree) / (1 + USUAL))
    return math.exp(-rise - learned.inverse_degree * (1 / (1 + degree) - 1 / (1 + USUAL)))


def _sources(corpus: Corpus) -> list[str]:
    lines = [f"learned by: {corpus.command or '?'}"]
    for s in corpus.settings:
        facts = ", ".join(f"{key} {value}" for key, value in s.facts.items())
        lines.append(
            f"  {s.graph} {s.backbone}: {s.runs} runs, {s.labels} labels"
            + (f", {facts}" if facts else "")
        )
    return lines
