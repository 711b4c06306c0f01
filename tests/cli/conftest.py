"""What the tests of commands share: running them, writing tables, and fixtures of the report."""

import csv
import json

from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from tests.report.conftest import model

__all__ = ["model"]


def run(command, *more, code=0, **given):
    """The result of a command, written as a line and perhaps more arguments."""
    result = CliRunner().invoke(cli, [*command.split(), *map(str, more)], **given)
    assert result.exit_code == code, result.output
    return result


def facts(command, *more):
    """What a command says for machines."""
    return json.loads(run(command, *more, "--json").stdout)


def write(path, *rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
