"""`simi-mailbox methods`: which calibrators there are, and what each needs."""

import inspect
import re
from typing import Any

import click

from simi_mailbox.cli import console, options
from simi_mailbox.cli.user_files import FROM_FILES


@click.command()
@options.plugin_option
@options.json_option
def methods(as_json: bool) -> None:
    """List all calibrators: what each needs besides logits and labels, and what it keeps."""
    from rich.table import Table

    from simi_mailbox import calibrators

    with console.working("loading the methods"):
        rows = [_row(name, calibrators.get(name)) for name in calibrators.names()]
    if as_json:
        console.show_json({"methods": rows})
        return
    table = Table()
    for heading in ("name", "needs", "keeps classes", "what it is"):
        table.add_column(heading, no_wrap=heading != "what it is")
    for row in rows:
        needs = ", ".join(FROM_FILES.get(part, "the model (Python only)") for part in row["needs"])
        table.add_row(row["name"], needs, "yes" if row["keep_classes"] else "no", row["summary"])
    console.show_table(table)
    click.echo("Formulas, papers and parameters: docs/methods.md; which is best on your nodes:")
    click.echo("simi-mailbox compare")


def _row(name: str, cls: Any) -> dict[str, Any]:
    summary = (inspect.getdoc(cls) or "").split("\n\n")[0]
    return {
        "name": name,
        "class": cls.__name__,
        "needs": sorted(cls.required_inputs),
        "keep_classes": cls.keep_classes,
        "from_files": cls.required_inputs <= FROM_FILES.keys(),
        "parameters": list(inspect.signature(cls).parameters),
        "summary": " ".join(re.sub(r"\*\*|`+", "", summary).split()),
    }
