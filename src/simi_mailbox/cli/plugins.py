"""`--plugin module:Class`: a method of your own, for every command that takes methods."""

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def plugin_option(command: F) -> F:
    """Decorator: the option ``--plugin``, done before any other option is read."""
    return click.option(
        "--plugin",
        multiple=True,
        metavar="MODULE:CLASS",
        is_eager=True,
        expose_value=False,
        callback=_plug_in,
        help="A calibrator of your own, installed or in this folder; may be repeated.",
    )(command)


def _plug_in(_ctx: click.Context, _option: click.Parameter, targets: tuple[str, ...]) -> None:
    if not targets:
        return
    from simi_mailbox.calibrators import plug_in

    # As `python -m` would find it, but behind all that is installed.
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    for target in targets:
        try:
            plug_in(target)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
