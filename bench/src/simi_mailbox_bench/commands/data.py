"""The command ``simi-mailbox data``: which datasets are here, and are their files intact."""

import click
from rich.table import Table

from simi_mailbox.cli import console
from simi_mailbox_bench.datasets import catalogue, downloads, loading
from simi_mailbox_bench.datasets.catalogue import Entry


@click.group()
def data() -> None:
    """Show and check the datasets on this machine."""


@data.command("list")
def list_datasets() -> None:
    """List all datasets: which are here, and their sizes."""
    table = Table(title="Datasets", title_justify="left")
    for column in ("name", "here", "source"):
        table.add_column(column, no_wrap=True)
    for column in ("nodes", "edges", "classes", "features", "homophily", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("splits")
    missing = 0
    for entry in catalogue.ENTRIES.values():
        present = loading.is_here(entry)
        missing += not present
        table.add_row(*_row(entry, present))
    console.show_table(table, width=140)
    for folder in loading.folders():
        click.echo(f"folder: {folder}{'' if folder.is_dir() else ' (does not exist)'}")
    if missing:
        click.echo(
            f"{missing} missing: put their files into the first folder, or load them once with a "
            "network connection (docs/data.md)."
        )


def _row(entry: Entry, present: bool) -> tuple[str, ...]:
    found = loading.locate(entry)
    origin = {"pyg": "PyG", "ogb": "OGB"}.get(entry.origin, entry.origin)
    size = f"{found.path.stat().st_size / 1e6:.2f}" if found is not None else "-"
    splits = [name for name in ("folds" * entry.folds, entry.splits) if name]
    return (
        entry.name,
        "yes" if present else "missing",
        found.source if found is not None else origin,
        f"{entry.nodes:,}",
        f"{entry.edges:,}",
        str(entry.classes),
        f"{entry.features:,}",
        "-" if entry.homophily is None else f"{entry.homophily:.3f}",
        size,
        ", ".join(splits) or "-",
    )


@data.command("check")
@click.argument("names", nargs=-1)
def check(names: tuple[str, ...]) -> None:
    """Verify the checksum and the content of dataset files (all that are here, or NAMES)."""
    try:
        entries = [catalogue.find(name) for name in names]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    wrong = 0
    for entry in entries or [e for e in catalogue.ENTRIES.values() if loading.is_here(e)]:
        good, verdict = _verdict(entry)
        wrong += not good
        click.echo(f"{entry.name:<16}{verdict}", err=not good)
    if wrong:
        raise click.ClickException(f"{wrong} dataset(s) failed the check")


def _verdict(entry: Entry) -> tuple[bool, str]:
    """Whether a dataset is good, and what to say about it."""
    try:
        found = loading.locate(entry)
        if found is None and entry.origin == "ogb":
            raw = downloads.find_arxiv(loading.folders())
            if raw is not None:
                return True, f"ok: {raw}, not converted yet, no checksum is known"
        dataset = loading.load(entry.name, download=False)
    except (ValueError, OSError) as error:
        return False, f"WRONG: {error}"
    if found is None:
        return True, f"ok: embedded, {dataset.num_nodes:,} nodes"
    known = "checksum matches" if found.sha256 else "no checksum is known, content fits"
    return True, f"ok: {known}, {dataset.num_nodes:,} nodes"
