"""The command ``simi-mailbox prior``: learn a prior from past graphs, or look at one."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli.outputs import check_file, check_folder
from simi_mailbox.files import whole_file
from simi_mailbox_bench import runner
from simi_mailbox_bench.commands.running import listed, open_store, run_planned
from simi_mailbox_bench.tables.base import counted

if TYPE_CHECKING:
    from simi_mailbox.prior import Corpus, Prior

ERRORS = (0.05, 0.1, 0.2, 0.4)
TERMS = {
    "log_degree": "exponent, by log(1 + degree)",
    "inverse_degree": "exponent, by 1 / (1 + degree)",
    "sure": "exponent, by log(−log confidence)",
    "hidden": "classes: nearness in the hidden layer",
    "near": "classes: surprise of labels next to it",
    "far": "classes: surprise of labels two steps away",
    "trained_near": "classes: training labels next to it",
    "trained_far": "classes: training labels two steps away",
    "shift": "classes: how often labels name them",
    "around": "classes: what neighbours are predicted to be",
}
LABELS = (150, 500, 1500)
Names = tuple[str, ...] | None

_RUNS = click.argument(
    "runs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
_FILE = click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))


def _banked_options(command: Callable[..., None]) -> Callable[..., None]:
    graphs = click.option(
        "--graphs", callback=listed, help="Banked graphs, by commas (default: all here)."
    )
    backbones = click.option(
        "--backbones", callback=listed, help="Banked backbones (default: gcn,gat)."
    )
    return graphs(backbones(command))


@click.group()
def prior() -> None:
    """Learn a prior from past graphs, or look at one."""


@prior.command()
@_RUNS
@_FILE
@click.option("--banked", is_flag=True, help="Learn from the runs in the logit bank.")
@_banked_options
def fit(runs: tuple[Path, ...], out: Path, banked: bool, graphs: Names, backbones: Names) -> None:
    """Learn a prior from RUNS, npz files of past graphs, or from the logit bank.

    An npz file holds logits [n, K], y [n] (negative where unknown), edge_index [2, E] and
    calibration (the nodes that a calibrator would have had), and may hold train, hidden
    (what enters the last layer) and the words graph, backbone and family.
    """
    from simi_mailbox.prior import Corpus, write
    from simi_mailbox_bench.prior.learning import banked_settings, gather
    from simi_mailbox_bench.prior.past_runs import read_run

    if bool(runs) == banked:
        raise click.UsageError("give either npz files of past runs, or --banked")
    check_file(out)
    if banked:
        settings = banked_settings(
            *_chosen(graphs, backbones), lambda line: click.echo(line, err=True)
        )
    else:
        settings = gather(read_run(path) for path in runs)
    write(Corpus(tuple(_some(settings)), _command()), out)
    total = sum(setting.runs for setting in settings)
    click.echo(f"{out}: learned from {counted(len(settings), 'setting')}, {counted(total, 'run')}")


@prior.command()
@click.argument("name", default="learned")
@click.option("--without", "dataset", help="Leave a dataset and its relatives out.")
def show(name: str, dataset: str | None) -> None:
    """Show a prior in plain numbers: 'learned' (the default) or the path of a prior file."""
    from simi_mailbox import prior as priors

    corpus = priors.corpus() if name == "learned" else priors.read(name)
    if dataset is not None:
        corpus = corpus.without(_family(corpus, dataset, shipped=name == "learned"))
    click.echo("\n".join([*_words(corpus.prior()), "", *_sources(corpus)]))


@prior.command()
@_RUNS
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--prior", "name", default="learned", show_default=True, help="A prior, for RUNS.")
@click.option("--methods", callback=listed, help="Further methods that need no features.")
@_banked_options
def judge(
    runs: tuple[Path, ...], out: Path, name: str, methods: Names, graphs: Names, backbones: Names
) -> None:
    """Judge a prior on RUNS, npz files of past graphs, or on the logit bank.

    Would it have helped on your past graphs? RUNS are files as `prior fit` reads them; their
    labels beside those trained and calibrated on are read by the metrics only. A file may hold
    the number of its split: runs of one split share their test nodes.

    Without RUNS, the shipped prior is judged on banked runs, each graph by the prior learned
    without its family.

    Writes rows.jsonl and table.md into the folder OUT; rows that are there are not made again.
    """
    from simi_mailbox_bench.prior import judged_table, judging

    if runs and (graphs or backbones):
        raise click.UsageError("--graphs, --backbones choose banked runs; leave them or RUNS out")
    if not runs and name != "learned":
        raise click.UsageError("--prior is for RUNS; banked runs are judged by the shipped prior")
    check_folder(out)
    rows = open_store(out / "rows.jsonl")
    if runs:
        units = list(judging.file_units(runs, name, methods or ()))
    else:
        units = _some(list(judging.banked_units(*_chosen(graphs, backbones), methods or ())))
    failures = run_planned(runner.plan(units, rows), rows, jobs=1, scheduler=None)
    keys = [key for unit in units for key in unit.keys() if key in rows]  # noqa: SIM118
    if keys:
        text = f"# The prior on graphs it was not learned on\n\nMade by `{_command(runs)}`.\n\n"
        shown = judged_table.table(rows, keys, () if runs else judged_table.MAIN)
        with whole_file(out / "table.md") as unfinished:
            unfinished.write_text(text + shown, encoding="utf-8")
    click.echo(f"{out}: {len(keys)} rows")
    if failures:
        raise SystemExit(1)


@prior.command()
@_FILE
@_banked_options
def draw(out: Path, graphs: Names, backbones: Names) -> None:
    """Draw the residuals of banked runs, before and after the baseline."""
    from simi_mailbox_bench.prior import picture

    check_file(out)
    settings = _some(list(picture.banked_sums(*_chosen(graphs, backbones))))
    picture.draw(settings).savefig(out, dpi=110)
    click.echo(f"{out}: {len(settings)} settings")


def _chosen(graphs: Names, backbones: Names) -> tuple[Any, list[str], list[str]]:
    """The bank, and what is taken from it."""
    from simi_mailbox_bench.backbones.cached_runs import RunCache
    from simi_mailbox_bench.datasets import available
    from simi_mailbox_bench.datasets.catalogue import find

    names = [find(name).name for name in graphs] if graphs else available()
    return RunCache(), names, list(backbones or ("gcn", "gat"))


def _some(found: list[Any]) -> list[Any]:
    if not found:
        raise click.ClickException(
            "the bank holds no runs of these graphs and backbones (three are the least); "
            "`simi-mailbox bench table1` trains and keeps them"
        )
    return found


def _family(corpus: Corpus, name: str, *, shipped: bool) -> str:
    """Family of a graph of the corpus, or of a relative that only the table of families knows."""
    from simi_mailbox.prior.families import family_of

    family = corpus.family_of(name) or (family_of(name) if shipped else None)
    if family is None:
        graphs = sorted({setting.graph for setting in corpus.settings})
        raise ValueError(f"{name!r} is not in this corpus; it holds {', '.join(graphs)}")
    return family


def _command(runs: tuple[Path, ...] = ()) -> str:
    """As typed, with one word in place of many files."""
    files = {str(path) for path in runs}
    words = [word for word in sys.argv[1:] if word not in files]
    return shlex.join(["simi-mailbox", *words[:2], *["RUNS"][: len(files)], *words[2:]])


def _words(learned: Prior) -> list[str]:
    belief = learned.belief(hidden=True, trained=True)
    times = " to ".join(f"{math.exp(k * belief.spread['blind']):.2g}" for k in (-1, 1))
    blind = 100 * math.exp(belief.middle["blind"])
    shares = ", ".join(f"{blind * e**2:.1f} % at {100 * e:g} %" for e in ERRORS)
    lines = [
        "Before a graph's own labels are seen, other graphs say, of a node's",
        "",
        *(
            f"  {name:16} {belief.middle[name]:+.3f} ± {belief.spread[name]:.3f}   {TERMS[name]}"
            for name in belief.terms
        ),
        "",
        f"blind guesses, by the error rate:  {shares} (times {times})",
    ]
    for level, mode in ((learned.kept, "classes kept"), (learned.free, "classes free")):
        for fresh, whose in ((False, "lucky"), (True, "fresh")):
            drops = [-100 * level.drop(1.0, 0.2, n, fresh=fresh) for n in LABELS]
            told = ", ".join(f"{drop:+.2f} with {n}" for drop, n in zip(drops, LABELS, strict=True))
            lines.append(f"level, {mode}, {whose} labels: {told} labels, at 20 %, in points")
        lines.append(f"groups, {mode}: own labels count against {level.pseudo_labels:.0f} others")
    return lines


def _sources(corpus: Corpus) -> list[str]:
    lines = [f"learned by: {corpus.command or '?'}"]
    for s in corpus.settings:
        facts = [f"{s.runs} runs", f"{s.labels} labels", *(f"{k} {v}" for k, v in s.facts.items())]
        lines.append(f"  {s.graph} {s.backbone}: {', '.join(facts)}")
    return lines
