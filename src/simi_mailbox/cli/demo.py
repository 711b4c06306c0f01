"""`simi-mailbox demo`: see it work on real data, with nothing but the package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simi_mailbox.cli.outputs import check_folder

if TYPE_CHECKING:
    from simi_mailbox.demo import Demonstration, DemoResult


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the picture and the report.",
)
@click.option(
    "--example",
    type=click.Choice(["copies", "digits"]),
    default="copies",
    show_default=True,
    help="Synthetic pages, some copied from others; or real images of digits.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the pages, or of the GNN.")
def demo(out: Path, example: str, seed: int) -> None:
    """Train a small GNN on a graph that needs no download, then calibrate it.

    copies: 6,000 pages in three classes, made. Some quote independent sources; some are copies of
    each other, and a model that adds up neighbours takes twelve copies for twelve witnesses. It is
    overconfident on copies and underconfident on the rest, which no single temperature can mend.

    digits: 1,797 handwritten digits joined to their nearest neighbours, real. There one temperature
    is nearly all that is needed.
    """
    from rich.console import Console

    check_folder(out)
    console = Console()
    with console.status("training a GNN, then calibrating it"):
        from simi_mailbox.demo import run_demo

        result = run_demo(seed, example)
    console.print(outcome_table(result.title, result.outcomes))
    console.print(
        "[dim]ECE: how far confidence is from accuracy. Noise floor: the ECE that a perfectly "
        "calibrated model would show on this many nodes.[/dim]"
    )
    for what, make, path, extra in (
        ("reliability picture", _picture, out / "reliability.png", "plot"),
        ("report", _report, out / "report.html", "report"),
    ):
        try:
            console.print(f"{what + ':':<20} {make(result, path)}")
        except ModuleNotFoundError as error:  # what was computed is shown whatever is missing
            if error.name not in ("matplotlib", "jinja2"):
                raise
            console.print(
                f"{what + ':':<20} left out, it needs: pip install 'simi-mailbox[{extra}]'",
                markup=False,
            )
    other = "digits" if example == "copies" else "copies"
    console.print(
        f"next: simi-mailbox demo --example {other}; simi-mailbox report --help, for your own model"
    )


def outcome_table(title: str, outcomes: list[DemoResult]) -> Any:
    """The table as a rich renderable."""
    from rich.table import Table

    table = Table(title=f"{title}, test nodes", title_justify="left")
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
    from simi_mailbox.metrics import reliability
    from simi_mailbox.plots import reliability_diagram

    require("matplotlib", extra="plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * len(result.probabilities), 5.6), layout="constrained")
    axes = figure.subplots(1, len(result.probabilities), sharey=True)
    test, y = result.test, result.y
    for ax, (method, probs) in zip(axes, result.probabilities.items(), strict=True):
        reliability_diagram(reliability(probs[test], y[test]), label=method).plot(ax)
    figure.savefig(path, dpi=150)
    return path


def _report(result: Demonstration, path: Path) -> Path:
    from simi_mailbox.demo import METHODS
    from simi_mailbox.report import write_report

    write_report(
        path,
        logits=result.logits,
        graph=result.graph,
        y=result.y,
        calibration=result.val,
        test=result.test,
        methods=[name for name in METHODS if name != "uncalibrated"],
        title=result.title,
    )
    return path
