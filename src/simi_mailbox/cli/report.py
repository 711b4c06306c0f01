"""`simi-mailbox report`: an HTML report of a model of your own, from NumPy files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from simi_mailbox.cli.outputs import check_file

_FILE = click.Path(path_type=Path)


FILES = {
    "edges": "Edge index [2, E].",
    "labels": "Labels [n]; only those of named nodes are read.",
    "calibration": "Nodes to calibrate with: mask [n] or indices.",
    "test": "Nodes to judge on: mask [n] or indices.",
    "train": "Nodes the model was trained on: mask [n] or indices.",
    "classes": "Names of the classes: .npy, or text, one per line.",
}


@click.command(params=[click.Option([f"--{part}"], type=_FILE, help=FILES[part]) for part in FILES])
@click.argument("source", metavar="LOGITS.npy|BUNDLE.npz", type=_FILE)
@click.option(
    "--methods",
    default="temperature,simi-mailbox",
    show_default=True,
    help="Calibrators to compare, separated by commas.",
)
@click.option("--title", default=None, help="Title of the report; the file's name if not given.")
@click.option(
    "--out", type=_FILE, default=Path("report.html"), show_default=True, help="File to write."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the intervals.")
def report(
    source: Path, methods: str, title: str | None, out: Path, seed: int, **given: Path | None
) -> None:
    """Write an HTML report: can this model be trusted, where not, and what calibration changes.

    The first argument holds the logits of all nodes [n, K]; as a bundle (.npz) it may also hold
    edges, labels, calibration, test, train and classes. Options take precedence. Whatever is not
    given is left out of the report, which says so. Files with Python objects are refused.
    """
    from simi_mailbox.exceptions import SolverError
    from simi_mailbox.report import write_report

    check_file(out)
    try:
        parts = _read(source, given)
        written = write_report(
            out,
            logits=parts["logits"],
            graph=parts.get("edges"),
            y=parts.get("labels"),
            calibration=parts.get("calibration"),
            test=parts.get("test"),
            train=parts.get("train"),
            methods=[name.strip() for name in methods.split(",") if name.strip()],
            title=source.stem if title is None else title,
            class_names=parts.get("classes"),
            seed=seed,
        )
    except (ValueError, TypeError, OSError, SolverError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)")


def _read(source: Path, given: dict[str, Path | None]) -> dict[str, Any]:
    from simi_mailbox.bundles import read_bundle, read_part

    parts: dict[str, Any] = dict(read_bundle(source, may=tuple(FILES)))
    for part, path in given.items():
        if path is None:
            continue
        if part == "classes" and path.suffix not in (".npy", ".npz"):
            text = path.read_text("utf-8")
            parts[part] = [line.strip() for line in text.splitlines() if line.strip()]
        else:
            parts[part] = read_part(path, part)
    if "classes" in parts:
        parts["classes"] = [str(name) for name in parts["classes"]]
    return parts
