"""`simi-mailbox bench figure`: the figures of the paper, from the run cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from simi_mailbox.cli.options import check_file
from simi_mailbox_bench.commands.running import listed

# Name -> (rows of pictures, methods of the paper's figure); what each shows.
FIGURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "observation": (("curve", "heat"), ("uncalibrated", "cagcn", "gats")),
    "qualitative": (("heat",), ("cagcn", "gats", "simi-mailbox-paper", "simi-mailbox")),
    "reliability": (("curve",), ("uncalibrated", "temperature", "gats", "simi-mailbox")),
}
SHOWS = {
    "observation": "reliability diagram and heat map of the model and of earlier methods",
    "qualitative": "heat maps of calibrated predictions",
    "reliability": "reliability diagrams",
}
SUFFIXES = (".pdf", ".png", ".svg")
FEWEST = 5
"""Cells of fewer nodes, over all runs, stay blank."""


Column = tuple[str, Any, Any]
"""One method of a figure: its name, `Reliability` and `SimilarityConfidence`."""


@click.command()
@click.argument("name", type=click.Choice(list(FIGURES)))
@click.option("--dataset", default="Citeseer", show_default=True)
@click.option("--backbone", type=click.Choice(["gcn", "gat"]), default="gcn", show_default=True)
@click.option("--methods", callback=listed, help="Methods; those of the paper's figure by default.")
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Runs whose test nodes are pooled.",
)
@click.option("--cached-only", is_flag=True, help="Train nothing: only cached runs.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write: .pdf, .png or .svg.")
def figure(
    name: str,
    dataset: str,
    backbone: str,
    methods: tuple[str, ...] | None,
    runs: int,
    cached_only: bool,
    out: Path | None,
) -> None:
    """Draw a figure of the paper; `simi-mailbox bench list` says what each shows."""
    target = out or Path(f"{name}-{dataset.lower()}-{backbone}.pdf")
    if target.suffix not in SUFFIXES:
        raise click.ClickException(f"{target} must end in {', '.join(SUFFIXES)}")
    check_file(target)
    rows, usual = FIGURES[name]
    chosen = _runs(dataset, backbone, runs, cached_only)
    columns = [_column(method, chosen) for method in methods or usual]
    nodes = "test nodes" if len(chosen) == 1 else f"test nodes of {len(chosen)} runs together"
    made = draw(columns, rows, f"{dataset}, {backbone.upper()}, {nodes}")
    made.savefig(target, dpi=130)
    click.echo(f"wrote {target}")


def _runs(dataset: str, backbone: str, limit: int, cached_only: bool) -> list[Any]:
    from simi_mailbox_bench.backbones import cached_runs
    from simi_mailbox_bench.datasets.catalogue import find

    absent = cached_runs.missing([dataset])
    if absent:
        raise FileNotFoundError(f"{dataset} is missing: {absent[dataset]}")
    protocol = "folds" if find(dataset).folds else "official"
    runs = cached_runs.runs(dataset, backbone, protocol, limit)
    if not cached_only:
        return runs
    here = [run for run in runs if run in cached_runs.RunCache()]
    if not here:
        raise FileNotFoundError(
            f"no logits of {dataset} with {backbone} are cached; leave out --cached-only "
            f"to train {len(runs)} of them now"
        )
    if len(here) < len(runs):
        click.echo(f"{len(runs) - len(here)} of {len(runs)} runs are not cached: left out")
    return here


def _column(name: str, runs: Sequence[Any]) -> Column:
    """What a method predicts for the test nodes of all runs, one after the other."""
    from simi_mailbox import analysis
    from simi_mailbox_bench.backbones.cached_runs import load_logits
    from simi_mailbox_bench.calibration import probabilities
    from simi_mailbox_bench.methods import NOTES, Method

    parts = []
    for run in runs:
        source = load_logits(run)
        probs = probabilities(run, Method.of(name), source)
        similarity = analysis.neighbour_agreement(probs, source.dataset.graph)
        test = source.split.test
        parts.append((probs[test], source.dataset.y[test], similarity[test]))
    probs, y, similarity = (np.concatenate(part) for part in zip(*parts, strict=True))
    heat = analysis.similarity_confidence(probs, y, similarity, cell="paper", closed="above")
    title = f"{name} ({NOTES[name]})" if name in NOTES else name
    return title, analysis.reliability_curve(probs, y), heat


def draw(columns: Sequence[Column], rows: Sequence[str], title: str) -> Any:
    """Reliability diagrams and heat maps of several methods, one column each, as one figure."""
    from simi_mailbox import plots
    from simi_mailbox._extras import require
    from simi_mailbox.plots.draw import COLORS

    size = (3.2 * len(columns) + 0.6, 3.6 * len(rows) + 1.2)
    figures = require("matplotlib.figure", extra="plot")
    made = figures.Figure(figsize=size, layout="constrained")
    grid = made.subplots(len(rows), len(columns), squeeze=False)
    handles: dict[str, Any] = {}
    for across, (name, curve, heat) in enumerate(columns):
        pictures = {
            "curve": plots.reliability_diagram(curve),
            "heat": plots.heat_map(heat, fewest=FEWEST),
        }
        for down, row in enumerate(rows):
            ax = pictures[row].plot(grid[down, across], legend=False)
            handles |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
            if across:
                ax.set_ylabel("")
        error = f"\nECE {100 * curve.ece:.2f} %" if rows[0] == "curve" else ""
        grid[0, across].set_title(f"{name}{error}", fontsize=11, color=COLORS["ink"])
    shown = {name: handle for name, handle in handles.items() if not name.startswith("ECE")}
    style = {"frameon": False, "fontsize": 9, "labelcolor": COLORS["ink"]}
    place = {"loc": "outside lower center", "ncols": max(2, min(len(columns), 4))}
    made.legend(shown.values(), shown.keys(), **place, **style)
    made.suptitle(title, fontsize=12, color=COLORS["ink"])
    return made
