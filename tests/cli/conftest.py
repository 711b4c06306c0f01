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


def write_problem(logits, y, graph, ids, classes, header="id"):
    """Logits, edges and labels (those of −1 are empty) by the names of nodes and classes."""
    named = [classes[k] if k >= 0 else "" for k in y]
    rows = ([name, *row] for name, row in zip(ids, logits.tolist(), strict=True))
    write("logits.csv", [header, *classes], *rows)
    ends = ([ids[i], ids[j]] for i, j in graph.edge_index().T.tolist() if i < j)
    write("edges.csv", ["source", "target"], *ends)
    write("labels.csv", [header, "label"], *reversed(list(zip(ids, named, strict=True))))


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))
