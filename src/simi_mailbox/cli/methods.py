"""`simi-mailbox methods`: which calibrators there are, and what each needs."""

import inspect
import re
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli import user_files as user
from simi_mailbox.cli.options import plugin_option

_OPTIONS = {"graph": "--edges", "features": "--features", "forward": "the model (Python only)"}


@click.command()
@plugin_option
@options.json_option
def methods(as_json: bool) -> None:
    """List all calibrators: what each needs besides logits and labels, and what it keeps."""
    with console.working("loading the methods"):
        rows = [_row(name) for name in _names()]
    if as_json:
        console.show_json({"methods": rows})
        return
    from rich.table import Table

    table = Table()
    table.add_column("name", no_wrap=True)
    table.add_column("needs", no_wrap=True)
    table.add_column("keeps classes", no_wrap=True)
    table.add_column("what it is")
    for row in rows:
        needs = ", ".join(_OPTIONS[part] for part in row["needs"])
        table.add_row(row["name"], needs, "yes" if row["keep_classes"] else "no", row["summary"])
    console.show_table(table)
    click.echo("Formulas, papers and parameters: docs/methods.md; which is best on your nodes:")
    click.echo("simi-mailbox compare")


def _names() -> list[str]:
    from simi_mailbox import calibrators

    return calibrators.names()


def _row(name: str) -> dict[str, Any]:
    from simi_mailbox import calibrators

    cls = calibrators.get(name)
    summary = (inspect.getdoc(cls) or "").split("\n\n")[0]
    return {
        "name": name,
        "class": cls.__name__,
        "needs": sorted(cls.required_inputs),
        "keep_classes": cls.keep_classes,
        "from_files": cls.required_inputs <= set(user.FROM_FILES),
        "parameters": list(inspect.signature(cls).parameters),
        "summary": " ".join(re.sub(r"\*\*|`+", "", summary).split()),
    }
