"""What the tests of commands share: running them, writing tables, and fixtures of the report."""

import csv
import json

import numpy as np
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from tests.report.conftest import model

__all__ = ["model"]


def run(command, *more, code=0, **given):
    """The result of a command, written as a line and perhaps more arguments."""
    result = CliRunner().invoke(cli, [*command.split(), *map(str, more)], **given)
    assert result.exit_code == code, result.output
    return result


def refused(line, told, folder, code=(1, 2)):
    """A mistake is told in one line that holds some words, and leaves no file changed."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code in np.atleast_1d(code), result.output
    assert not result.stdout
    (message,) = result.stderr.splitlines()
    assert message.startswith("Error: ")
    assert told in message
    assert "\x1b" not in message
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def facts(command, *more):
    """What a command says for machines."""
    return json.loads(run(command, *more, "--json").stdout)


def write(path, *rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
