"""`simi-mailbox demo`: see it work on real data, with nothing but the package."""

from pathlib import Path

import click

from simi_mailbox.cli import console
from simi_mailbox.cli.options import check_folder, choice_option

_EXAMPLES = "Synthetic pages, some copied from others; or real images of digits."
_COLUMNS = {
    "accuracy": "{accuracy:.2%}",
    "ECE": "{ece:.2%}",
    "noise floor": "{noise_floor:.2%}",
    "NLL": "{nll:.4f}",
    "Brier": "{brier:.4f}",
}


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    help="Folder for the report.",
)
@choice_option("--example", ("copies", "digits"), _EXAMPLES, "copies")
@click.option("--seed", default=0, help="Seed of the pages, or of the GNN.")
def demo(out: Path, example: str, seed: int) -> None:
    """Train a small GNN on a graph that needs no download, then calibrate it.

    copies: 6,000 pages in three classes, made. Some quote independent sources; some are copies of
    each other, and a model that adds up neighbours takes twelve copies for twelve witnesses. It is
    overconfident on copies and underconfident on the rest, which no single temperature can mend.

    digits: 1,797 handwritten digits joined to their nearest neighbours, real. There one temperature
    is nearly all that is needed.
    """
    check_folder(out)
    with console.working("training a GNN, then calibrating it"):
        from simi_mailbox.demo import run_demo
        from simi_mailbox.report import write_report

        result = run_demo(seed, example)
    rows = (
        [method, *(form.format(**row) for form in _COLUMNS.values())]
        for method, row in result.outcomes.items()
    )
    title = f"{result.title}, test nodes"
    console.show_rows(("method", *_COLUMNS), rows, title=title, title_justify="left")
    click.echo("ECE: how far confidence is from accuracy. Noise floor: the ECE that a perfectly")
    click.echo("calibrated model would show on this many nodes.")
    written = write_report(
        out / "report.html",
        logits=result.logits,
        graph=result.graph,
        y=result.y,
        calibration=result.val,
        test=result.test,
        methods=[name for name in result.probabilities if name != "uncalibrated"],
        title=result.title,
    )
    click.echo(f"report: {written}")
    other = "digits" if example == "copies" else "copies"
    own = "simi-mailbox report --help, for your own model"
    click.echo(f"next: simi-mailbox demo --example {other}; {own}")
