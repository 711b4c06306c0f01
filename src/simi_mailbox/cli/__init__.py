"""The command `simi-mailbox`: one file per subcommand, imported when it is called."""

from __future__ import annotations

import sys

# Subcommand -> (module, one line for the overview).
COMMANDS = {
    "demo": ("simi_mailbox.cli.demo", "Train, calibrate and judge a GNN on a built-in graph."),
    "report": ("simi_mailbox.cli.report", "Write an HTML report from arrays of your own."),
    "bench": ("simi_mailbox.cli.bench", "Reproduce the tables and figures of the paper."),
    "data": ("simi_mailbox.cli.data", "See which graphs are here."),
    "prior": ("simi_mailbox.cli.prior", "Learn a prior from past graphs, or look at one."),
}


def main() -> None:
    """Run the command; a missing extra is said in one line instead of a traceback."""
    try:
        from simi_mailbox.cli.group import cli
    except ModuleNotFoundError as error:
        if error.name not in ("click", "rich"):
            raise
        sys.exit(
            f"simi-mailbox: the command needs {error.name!r}; "
            "install it with: pip install 'simi-mailbox[cli]'"
        )
    try:
        cli()
    except ModuleNotFoundError as error:
        if "simi-mailbox[" not in str(error):
            raise
        sys.exit(f"simi-mailbox: {error}")
