"""`simi-mailbox bench figure`: the figures of the paper, from the run cache and the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from simi_mailbox.cli.outputs import check_file
from simi_mailbox_bench.commands.running import listed, open_store

if TYPE_CHECKING:
    from simi_mailbox_bench.figures import FigureColumn, Sensitivity
    from simi_mailbox_bench.tables import TableResult

# Name -> (rows of pictures, methods of the paper's figure); what each shows.
FIGURES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "observation": (("curve", "heat"), ("uncalibrated", "cagcn", "gats")),
    "qualitative": (("heat",), ("cagcn", "gats", "simi-mailbox-paper", "simi-mailbox")),
    "reliability": (("curve",), ("uncalibrated", "temperature", "gats", "simi-mailbox")),
    "sensitivity": ((), ("simi-mailbox-paper", "simi-mailbox-oracle")),
}
SHOWS = {
    "observation": "reliability diagram and heat map of the model and of earlier methods",
    "qualitative": "heat maps of calibrated predictions",
    "reliability": "reliability diagrams",
    "sensitivity": "ECE over the number of groups N and the weight λ, from stored results",
}
SUFFIXES = (".pdf", ".png", ".svg")
FEWEST = 5
"""Cells of fewer nodes, over all runs, stay blank."""


@click.command()
@click.argument("name", type=click.Choice(list(FIGURES)))
@click.option(
    "--datasets",
    callback=listed,
    default="Citeseer",
    show_default=True,
    help="Graphs, separated by commas (several: sensitivity only).",
)
@click.option("--backbone", type=click.Choice(["gcn", "gat"]), default="gcn", show_default=True)
@click.option(
    "--methods", callback=listed, help="Methods; those of the paper's figure if not given."
)
@click.option(
    "--runs",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Runs whose test nodes are pooled.",
)
@click.option(
    "--palette",
    type=click.Choice(["blue-orange", "red-green"]),
    default="blue-orange",
    show_default=True,
    help="red-green is the paper's (red: under-confident).",
)
@click.option(
    "--cell",
    type=click.Choice(["paper", "own"]),
    default="paper",
    show_default=True,
    help="Accuracy a cell is held against: of its whole confidence interval, or its own.",
)
@click.option("--cached-only", is_flag=True, help="Train nothing: only cached runs.")
@click.option("--store", type=click.Path(path_type=Path), help="Result store (sensitivity).")
@click.option("--out", type=click.Path(path_type=Path), help="File to write: .pdf, .png or .svg.")
def figure(
    name: str,
    datasets: tuple[str, ...],
    backbone: str,
    methods: tuple[str, ...] | None,
    runs: int,
    palette: Any,
    cell: Any,
    cached_only: bool,
    store: Path | None,
    out: Path | None,
) -> None:
    """Draw a figure of the paper; `simi-mailbox bench list` says what each shows."""
    target = out or Path(f"{name}-{'-'.join(datasets).lower()}-{backbone}.pdf")
    _check(name, datasets, target)
    rows, chosen = FIGURES[name][0], methods or FIGURES[name][1]
    if name == "sensitivity":
        made = _sensitivity(datasets, backbone, store)
    else:
        from simi_mailbox_bench.figures import observation_figure

        columns, pooled = _columns(datasets[0], backbone, chosen, runs, cell, cached_only)
        nodes = "test nodes" if pooled == 1 else f"test nodes of {pooled} runs together"
        title = f"{datasets[0]}, {backbone.upper()}, {nodes}"
        made = observation_figure(columns, title=title, palette=palette, fewest=FEWEST, rows=rows)
    made.savefig(target, dpi=130)
    click.echo(f"wrote {target}")


def _check(name: str, datasets: tuple[str, ...], target: Path) -> None:
    if target.suffix not in SUFFIXES:
        raise click.ClickException(f"{target} must end in {', '.join(SUFFIXES)}")
    check_file(target)
    if name != "sensitivity" and len(datasets) > 1:
        raise click.ClickException(f"{name} draws one graph: call it once for each")


def _columns(
    dataset: str, backbone: str, methods: Sequence[str], limit: int, cell: Any, cached_only: bool
) -> tuple[list[FigureColumn], int]:
    """One column for each method, over the test nodes of several runs; and how many runs."""
    from simi_mailbox import analysis
    from simi_mailbox_bench.backbones.cached_runs import RunCache, missing
    from simi_mailbox_bench.backbones.cached_runs import runs as runs_of
    from simi_mailbox_bench.datasets.catalogue import find
    from simi_mailbox_bench.figures import FigureColumn

    absent = missing([dataset])
    if absent:
        raise FileNotFoundError(f"{dataset} is missing: {absent[dataset]}")
    protocol = "folds" if find(dataset).folds else "official"
    runs = runs_of(dataset, backbone, protocol, limit)
    if cached_only:
        here = [run for run in runs if run in RunCache()]
        if not here:
            raise FileNotFoundError(
                f"no logits of {dataset} with {backbone} are cached; leave out --cached-only "
                f"to train {len(runs)} of them now"
            )
        if len(here) < len(runs):
            click.echo(f"{len(runs) - len(here)} of {len(runs)} runs are not cached: left out")
        runs = here
    columns = []
    for method in methods:
        probs, y, similarity = _pooled(method, runs)
        columns.append(
            FigureColumn(
                _title(method),
                analysis.reliability_curve(probs, y),
                analysis.similarity_confidence(probs, y, similarity, cell=cell, closed="above"),
            )
        )
    return columns, len(runs)


def _title(method: str) -> str:
    """Name of a method with what readers must know of it, such as that it reads test labels."""
    from simi_mailbox_bench.methods import NOTES

    return f"{method} ({NOTES[method]})" if method in NOTES else method


def _pooled(method: str, runs: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Probabilities, labels and similarity of the test nodes of all runs, one after the other."""
    from simi_mailbox.analysis import neighbour_agreement
    from simi_mailbox_bench.backbones.cached_runs import load_logits
    from simi_mailbox_bench.calibration import probabilities
    from simi_mailbox_bench.methods import Method

    parts = []
    for run in runs:
        source = load_logits(run)
        probs = probabilities(run, Method.of(method), source)
        similarity = neighbour_agreement(probs, source.dataset.graph)
        test = source.split.test
        parts.append((probs[test], source.dataset.y[test], similarity[test]))
    probs, y, similarity = (np.concatenate(part) for part in zip(*parts, strict=True))
    return probs, y, similarity


def _sensitivity(datasets: Sequence[str], backbone: str, store: Path | None) -> Any:
    from simi_mailbox_bench.figures import sensitivity_figure
    from simi_mailbox_bench.tables import Selection
    from simi_mailbox_bench.tables.paper import GRIDS, SENSITIVITY

    selection = SENSITIVITY.check(Selection(tuple(datasets), (backbone,)))
    result = SENSITIVITY.result(open_store(store), selection)
    panels = {}
    for dataset in selection.datasets or ():
        found = [_grid(result, dataset, backbone, name) for name in GRIDS]
        if not (there := [grid for grid in found if grid is not None]):
            raise FileNotFoundError(
                f"no results over N and λ are stored for {dataset} with {backbone}; make them "
                f"with: simi-mailbox bench sensitivity --datasets {dataset} --backbones {backbone}"
            )
        panels[dataset] = there
    return sensitivity_figure(panels, title=f"Test ECE in % over N and λ, {backbone.upper()}")


def _grid(result: TableResult, dataset: str, backbone: str, name: str) -> Sensitivity | None:
    """Mean ECE over N and λ, as far as it is stored."""
    from simi_mailbox_bench.figures import Sensitivity
    from simi_mailbox_bench.tables.paper import GROUPS, WEIGHTS, grid_label

    found = {
        line.method: line.summary
        for line in result.lines
        if (line.dataset, line.backbone) == (dataset, backbone) and line.summary
    }
    cells = [[found.get(grid_label(name, n, weight)) for weight in WEIGHTS] for n in GROUPS]
    runs = [cell.runs for row in cells for cell in row if cell]
    if not runs:
        return None
    mean = np.array([[cell.mean if cell else np.nan for cell in row] for row in cells])
    base = found.get("temperature")
    title = _title(name.split()[0]).replace(name.split()[0], name)
    return Sensitivity(title, GROUPS, WEIGHTS, mean, min(runs), base.mean if base else np.nan)
