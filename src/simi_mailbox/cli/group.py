"""The top-level group: lists its subcommands without importing them, and words every error."""

import importlib
import signal
import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from simi_mailbox import __version__
from simi_mailbox.cli import BENCH_COMMANDS, COMMANDS, ENTRY_POINTS, MODULES
from simi_mailbox.exceptions import SolverError
from simi_mailbox.plain_text import plain, unknown

EXIT_CODES = """\b
Exit codes:
  0    done
  1    what was given cannot be used; the message says what to change
  2    usage error
  70   internal error, please report it
  130  stopped from the keyboard (143: by the system)
"""


@cache
def _joined() -> dict[str, EntryPoint]:
    """Commands of other packages; none takes the place of ours."""
    found = entry_points(group=ENTRY_POINTS)
    return {point.name: point for point in found if point.name not in COMMANDS}


class LazyGroup(click.Group):
    """A group whose subcommands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *_joined()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            home = MODULES.get(cmd_name, cmd_name)
            module = importlib.import_module(f"simi_mailbox.cli.{home}")
            return getattr(module, cmd_name)  # type: ignore[no-any-return]
        return _joined()[cmd_name].load() if cmd_name in _joined() else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known:
            if args[0] in BENCH_COMMANDS:
                raise click.ClickException(
                    f"simi-mailbox {args[0]} comes with the package simi-mailbox-bench, which is "
                    "not installed; from a clone of the repository: pip install ./bench"
                )
            ctx.fail(unknown("command", args[0], known))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        joined = {
            name: BENCH_COMMANDS.get(name, f"From {point.module.split('.')[0]}.")
            for name, point in _joined().items()
        }
        with formatter.section("Commands"):
            formatter.write_dl(list((COMMANDS | joined).items()))

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        except click.UsageError as error:
            raise _in_one_line(error) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as stop:
            click.echo("stopped", err=True)
            raise click.exceptions.Exit(128 + signal.SIGINT) from stop
        except Exception as error:
            if ctx.params["debug"]:
                traceback.print_exc()
            raise _in_one_line(error) from error


def _in_one_line(error: Exception) -> click.ClickException:
    """What went wrong, in one line for the person who typed the command, and its exit code."""
    code, told = 1, str(error)
    extra = isinstance(error, ModuleNotFoundError) and "simi-mailbox[" in told
    if isinstance(error, click.UsageError):
        path = "simi-mailbox" if error.ctx is None else error.ctx.command_path
        code, told = 2, f"{error.format_message()} (see {path} --help)"
    elif isinstance(error, click.ClickException):
        told = error.format_message()
    elif isinstance(error, OSError) and error.filename is not None and error.strerror:
        told = f"{error.filename}: {error.strerror}"
    elif isinstance(error, MemoryError):
        told = f"not enough memory: {error}"
    elif not extra and not isinstance(error, ValueError | TypeError | OSError | SolverError):
        code, told = 70, f"internal error, please report it ({type(error).__name__}: {error}); "
        told += "simi-mailbox --debug and the same command shows where"
    found = click.ClickException(plain(" ".join(told.split())))
    found.exit_code = code  # type: ignore[misc]
    return found


@click.group(
    "simi-mailbox",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog=EXIT_CODES,
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="simi-mailbox")
def cli(debug: bool) -> None:
    """Calibrate the probabilities of graph neural networks.

    Folders that --out names are made; what cannot be written is told before the work begins.
    """
