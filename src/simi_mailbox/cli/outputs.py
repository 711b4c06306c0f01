"""Where a command will write: checked before the work, not after it.

One rule for every command: folders that are missing are made.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from simi_mailbox.cli.options import ExistingFile


def check_file(path: Path) -> None:
    """Refuse a path that no file can be written to; makes the folder it lies in."""
    if str(path) == "-":
        if click.get_current_context().params.get("as_json"):
            raise click.UsageError("--out - and --json both take standard output: leave out one")
        return
    for option, given in _inputs():
        if path.exists() and given.exists() and path.samefile(given):
            raise click.ClickException(
                f"cannot write {path}: it is what {option} reads; name another file"
            )
    if path.is_dir():
        raise click.ClickException(f"cannot write {path}: it is a folder; name a file in it")
    if not path.exists():
        check_folder(path.parent)
    elif path.is_file():  # neither a pipe nor a device, which opening may disturb
        try:
            path.open("ab").close()
        except OSError as error:
            raise click.ClickException(f"cannot write {path}: {reason(error)}") from None


def _inputs() -> Iterator[tuple[str, Path]]:
    """Files that the command reads, and what names them."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return
    for given in ctx.command.params:
        path = ctx.params.get(given.name or "")
        if isinstance(given.type, ExistingFile) and path is not None:
            yield (
                given.make_metavar(ctx) if isinstance(given, click.Argument) else given.opts[0],
                path,
            )


def check_folder(path: Path) -> None:
    """Make a folder, if need be, and refuse one that no file can be written into."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise click.ClickException(f"cannot write into {path}: {reason(error)}") from None


def reason(error: OSError) -> str:
    """What the system says, without numbers and paths."""
    return error.strerror or str(error)
