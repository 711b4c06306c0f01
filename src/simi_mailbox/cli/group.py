"""The top-level group: lists its subcommands without importing them, and words every error."""

import importlib
import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from simi_mailbox import __version__
from simi_mailbox.cli import BENCH_COMMANDS, COMMANDS, ENTRY_POINTS
from simi_mailbox.exceptions import SolverError
from simi_mailbox.plain_text import plain, unknown

EXIT_CODES = """\b
Exit codes:
  0    done
  1    what was given cannot be used; the message says what to change
  2    the command is written wrongly
  70   a defect of simi-mailbox
  130  stopped from the keyboard (143: by the system)
"""

_DEBUG = f"{__name__}.debug"


class OneLineError(click.ClickException):
    """An error told in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(plain(" ".join(message.split())))


class MiswrittenError(OneLineError):
    """The command is written wrongly."""

    exit_code = 2


class DefectError(OneLineError):
    """It is not the user's fault."""

    exit_code = 70


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
        command: click.Command
        if cmd_name in COMMANDS:
            command = getattr(importlib.import_module(COMMANDS[cmd_name][0]), cmd_name)
        elif cmd_name in _joined():
            command = _joined()[cmd_name].load()
        else:
            return None
        if all(parameter.name != "debug" for parameter in command.params):
            command.params.append(debug_option())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and args[0] not in _joined():
            if args[0] in BENCH_COMMANDS:
                raise click.ClickException(
                    f"simi-mailbox {args[0]} comes with the package simi-mailbox-bench, which is "
                    "not installed; from a clone of the repository: pip install ./bench"
                )
            ctx.fail(unknown("command", args[0], self.list_commands(ctx)))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            lines = {name: line for name, (_, line) in COMMANDS.items()}
            joined = {
                name: BENCH_COMMANDS.get(name, f"From {point.module.split('.')[0]}.")
                for name, point in _joined().items()
            }
            formatter.write_dl(list((lines | joined).items()))

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
            from simi_mailbox.cli.signals import exit_code

            click.echo("stopped", err=True)
            raise click.exceptions.Exit(exit_code(stop)) from stop
        except Exception as error:
            if ctx.meta.get(_DEBUG):
                traceback.print_exc()
            raise _in_one_line(error) from error


def _in_one_line(error: Exception) -> click.ClickException:
    """What went wrong, for the person who typed the command."""
    if isinstance(error, click.UsageError):
        path = "simi-mailbox" if error.ctx is None else error.ctx.command_path
        return MiswrittenError(f"{error.format_message()} (see {path} --help)")
    if isinstance(error, click.ClickException):
        return OneLineError(error.format_message())
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return OneLineError(f"{error.filename}: {error.strerror}")
    if isinstance(error, MemoryError):
        return OneLineError(f"not enough memory: {error}")
    extra = isinstance(error, ModuleNotFoundError) and "simi-mailbox[" in str(error)
    if extra or isinstance(error, ValueError | TypeError | OSError | SolverError):
        return OneLineError(str(error))
    return DefectError(
        f"this is a defect of simi-mailbox ({type(error).__name__}: {error}); "
        "the same command with --debug shows where"
    )


def debug_option() -> click.Option:
    """``--debug``, for every command: errors show where they came from."""

    def remember(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[_DEBUG] = True

    return click.Option(
        ["--debug"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        help="Show the traceback of an error.",
    )


@click.group(
    "simi-mailbox",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
    params=[debug_option()],
)
@click.version_option(__version__, prog_name="simi-mailbox")
def cli() -> None:
    """Calibrate the probabilities of graph neural networks.

    Folders that --out names are made; what cannot be written is told before the work begins.
    """
