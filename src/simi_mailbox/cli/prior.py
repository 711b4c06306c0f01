"""The command ``simi-mailbox prior``: learn a prior from past graphs, or look at one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from simi_mailbox.prior import Corpus, Prior, Setting

CONFIDENCES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
PERCENTILES = (0.1, 0.5, 0.9)


@click.group()
def prior() -> None:
    """Learn a prior from past graphs, or look at one."""


@prior.command()
@click.argument("runs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--banked", is_flag=True, help="Learn from the runs in the logit bank.")
@click.option("--graphs", default="", help="Banked graphs, by commas (default: all here).")
@click.option("--backbones", default="gcn,gat", show_default=True, help="Banked backbones.")
def fit(runs: tuple[Path, ...], out: Path, banked: bool, graphs: str, backbones: str) -> None:
    """Learn a prior from RUNS, npz files of past graphs, or from the logit bank.

    An npz file holds logits [n, K], y [n] (negative where unknown), edge_index [2, E] and
    calibration (the nodes that a calibrator would have had), and may hold train and the words
    graph, backbone and family.
    """
    from simi_mailbox.prior import Corpus, gather, read_run, write

    if bool(runs) == banked:
        raise click.UsageError("give either npz files of past runs, or --banked")
    try:
        if banked:
            settings = _banked(graphs, backbones)
        else:
            settings = list(gather(read_run(path) for path in runs))
        if not settings:
            raise click.ClickException("no run was found: nothing to learn from")
        write(Corpus(tuple(settings), _command()), out)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    total = sum(setting.runs for setting in settings)
    click.echo(f"{out}: learned from {len(settings)} settings, {total} runs")


@prior.command()
@click.argument("name", default="learned")
@click.option("--without", "dataset", help="Leave a dataset and its relatives out.")
def show(name: str, dataset: str | None) -> None:
    """Show a prior in plain numbers: 'learned' (the default) or the path of a prior file."""
    from simi_mailbox import prior as priors
    from simi_mailbox.data.catalogue import find

    try:
        corpus = priors.corpus() if name == "learned" else priors.read(name)
        if dataset is not None:
            corpus = corpus.without(find(dataset).family)
        learned = corpus.prior()
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo("\n".join([*_words(learned), "", *_sources(corpus)]))


def _banked(graphs: str, backbones: str) -> list[Setting]:
    from simi_mailbox.data import available
    from simi_mailbox.models.bank import LogitBank
    from simi_mailbox.prior.bank import banked_settings

    names = [part.strip() for part in graphs.split(",") if part.strip()] or available()
    made = []
    for setting in banked_settings(LogitBank(), names, backbones.split(",")):
        click.echo(f"{setting.graph} {setting.backbone}: {setting.runs} runs", err=True)
        made.append(setting)
    return made


def _command() -> str:
    return shlex.join(["simi-mailbox", *sys.argv[1:]])


def _words(learned: Prior) -> list[str]:
    import numpy as np

    c = np.array(CONFIDENCES)
    rows = [
        [f"{100 * value:+.1f}" for value in learned.shape(c, np.full(len(c), p))]
        for p in PERCENTILES
    ]
    lines = ["Expected accuracy minus confidence, in points, after temperature scaling:", ""]
    lines.append("mailbox percentile   confidence" + "".join(f"{v:>7g}" for v in CONFIDENCES))
    for p, row in zip(PERCENTILES, rows, strict=True):
        lines.append(f"{p:>18g}             " + "".join(f"{value:>7}" for value in row))
    level = learned.coefficients[-1]
    return [
        *lines,
        "",
        f"times a trust of {learned.weight:.2f} ± {learned.spread:.2f}, settled by evidence;",
        f"and {level:+.2f} standard errors of the calibration set's accuracy for all nodes.",
    ]


def _sources(corpus: Corpus) -> list[str]:
    lines = [f"learned by: {corpus.command or '?'}"]
    for s in corpus.settings:
        facts = ", ".join(f"{key} {value}" for key, value in s.facts.items())
        lines.append(f"  {s.graph} {s.backbone}: {s.runs} runs" + (f", {facts}" if facts else ""))
    return lines
