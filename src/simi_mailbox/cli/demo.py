"""`simi-mailbox demo`: see it work on real data, with nothing but the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli.outputs import check_folder

if TYPE_CHECKING:
    from simi_mailbox.demo import Demonstration, Outcome


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the picture and the report.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the GNN's initialisation.")
def demo(out: Path, seed: int) -> None:
    """Train a GCN on handwritten digits joined to their nearest neighbours, then calibrate it.

    The graph comes with scikit-learn: 1,797 nodes, 10 classes. 20 nodes per class train the GCN,
    500 calibrate it, the other 1,097 judge it. Nothing is downloaded.
    """
    from rich.console import Console

    check_folder(out)
    console = Console()
    with console.status("training a GCN on the digits graph, then calibrating it"):
        from simi_mailbox.demo import run_demo

        result = run_demo(seed)
    console.print(outcome_table(result.outcomes))
    console.print(
        "[dim]ECE: how far confidence is from accuracy. Noise floor: the ECE that a perfectly "
        "calibrated model would show on this many nodes.[/dim]"
    )
    console.print(f"reliability picture: {_picture(result, out / 'reliability.png')}")
    console.print(f"report:              {_report(result, out / 'report.html')}")
    console.print("next: simi-mailbox report --help, for a model of your own")


def outcome_table(outcomes: list[Outcome]) -> Any:
    """The table as a rich renderable."""
    from rich.table import Table

    table = Table(title="Digits graph, two-layer GCN, test nodes", title_justify="left")
    table.add_column("method")
    for heading in ("accuracy", "ECE", "noise floor", "NLL", "Brier"):
        table.add_column(heading, justify="right")
    for row in outcomes:
        table.add_row(
            row.method,
            f"{row.accuracy:.2%}",
            f"{row.ece:.2%}",
            f"{row.noise_floor:.2%}",
            f"{row.nll:.4f}",
            f"{row.brier:.4f}",
        )
    return table


def _picture(result: Demonstration, path: Path) -> Path:
    from simi_mailbox._extras import require
    from simi_mailbox.metrics import ece, reliability
    from simi_mailbox.plots import reliability_diagram

    require("matplotlib", extra="plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(result.probabilities), 4.6), layout="constrained")
    axes = figure.subplots(1, len(result.probabilities), sharey=True)
    test, y = result.split.test, result.dataset.y
    for ax, (method, probs) in zip(axes, result.probabilities.items(), strict=True):
        reliability_diagram(reliability(probs[test], y[test]), ax=ax)
        ax.set_title(f"{method}, ECE {ece(probs[test], y[test]):.1%}")
    figure.savefig(path, dpi=150)
    return path


def _report(result: Demonstration, path: Path) -> Path:
    from simi_mailbox.demo import METHODS
    from simi_mailbox.report import write_report

    write_report(
        path,
        logits=result.logits,
        graph=result.dataset.graph,
        y=result.dataset.y,
        calibration=result.split.val,
        test=result.split.test,
        methods=[name for name in METHODS if name != "uncalibrated"],
        title="Handwritten digits, two-layer GCN",
        class_names=[str(digit) for digit in range(10)],
    )
    return path
