"""The command as a person types it."""

import os
import re
import subprocess
import sys

import click
import pytest

import simi_mailbox
from simi_mailbox import __version__
from simi_mailbox.cli import BENCH_COMMANDS, COMMANDS
from simi_mailbox.cli.group import cli
from tests.cli.conftest import run


def test_help_lists_every_command_in_one_line_each():
    output = run("--help").output
    for name, line in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", output, re.MULTILINE)
        assert "Usage:" in run(f"{name} --help").output


HEAVY = {"torch", "sklearn", "scipy", "numpy", "matplotlib", "torch_geometric", "dask", "pyarrow"}


def heavy_after(code, *arguments, **environment):
    """Heavy libraries that a fresh process has imported after some code."""
    code = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\n"
        f"print('HEAVY', *sorted({HEAVY!r} & sys.modules.keys()))"
    )
    command, environment = [sys.executable, "-c", code, *arguments], {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split("HEAVY")[1].split()


def test_importing_the_package_imports_no_heavy_library():
    assert heavy_after("import simi_mailbox") == []
    assert "torch" in heavy_after("import simi_mailbox; simi_mailbox.SimiMailbox")
    assert "torch" not in heavy_after("import simi_mailbox.metrics")
    assert "torch_geometric" not in heavy_after("import simi_mailbox.pyg")


@pytest.mark.parametrize(
    "line",
    [
        *("--help", "--version", "repotr", "report --help", "calibrate --help"),
        *("calibrate nowhere.csv", "apply nowhere.safetensors nowhere.csv"),
        "fit nowhere.csv --method nothing",
    ],
)
def test_answers_without_work_import_no_heavy_library(line):
    assert heavy_after("from simi_mailbox.cli import main; main()", *line.split()) == []


@pytest.mark.parametrize("words", ["simi-mailbox re", "simi-mailbox fit --method t"])
def test_completion_imports_no_heavy_library(words):
    environment = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    environment["_SIMI_MAILBOX_COMPLETE"] = "bash_complete"
    assert heavy_after("from simi_mailbox.cli import main; main()", **environment) == []


def test_public_names_come_when_they_are_asked_for():
    for name in simi_mailbox.__all__:
        assert name in dir(simi_mailbox)
        assert getattr(simi_mailbox, name) is not None
    for room in simi_mailbox._PACKAGES:
        assert getattr(simi_mailbox, room).__name__ == f"simi_mailbox.{room}"
    assert simi_mailbox.Graph is simi_mailbox.graph.Graph
    with pytest.raises(AttributeError, match="has no attribute 'SimiMailbx'"):
        _ = simi_mailbox.SimiMailbx


def test_the_package_runs_as_a_module():
    result = subprocess.run(
        [sys.executable, "-m", "simi_mailbox", "--version"], capture_output=True, text=True
    )
    assert result.stdout == f"simi-mailbox, version {__version__}\n"


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (ValueError("two\nlines"), 1, "Error: two lines"),
        (FileNotFoundError(2, "No such file", "a.csv"), 1, "Error: a.csv: No such file"),
        (MemoryError("Unable to allocate 8 TiB"), 1, "Error: not enough memory: Unable to"),
        (ModuleNotFoundError("pip install 'simi-mailbox[x]'"), 1, "Error: pip install"),
        (
            KeyError("x"),
            70,
            "Error: internal error, please report it (KeyError: 'x'); simi-mailbox --debug",
        ),
        (ValueError("id \u202eevil\x1b[31m"), 1, "Error: id \ufffdevil\ufffd[31m\n"),
        (click.ClickException("id \x1b[31m"), 1, "Error: id \ufffd[31m\n"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_every_error_is_one_line_with_its_exit_code(monkeypatch, error, code, told):
    def fail(**_):
        raise error

    monkeypatch.setattr(cli.get_command(None, "methods"), "callback", fail)
    result = run("methods", code=code)
    assert result.stderr.startswith(told)
    assert len(result.stderr.splitlines()) == 1
    if code != 130:
        assert re.search("Traceback.*in fail", run("--debug methods", code=code).stderr, re.DOTALL)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--bogus", "Error: No such option '--bogus'. (see simi-mailbox --help)"),
        ("report", "Error: Missing argument 'LOGITS'. (see simi-mailbox report --help)"),
        ("report --seed x", "Error: Invalid value for '--seed': 'x' is not a"),
        ("repotr", "Error: unknown command 'repotr'; did you mean 'report'?"),
    ],
)
def test_a_command_written_wrongly_is_one_line_that_leads_to_help(line, told):
    result = run(line, code=2)
    assert result.stderr.startswith(told)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", BENCH_COMMANDS)
def test_commands_of_the_bench_name_the_package_to_install(monkeypatch, name):
    monkeypatch.setattr("simi_mailbox.cli.group._joined", dict)
    assert run(f"{name} list", code=1).stderr == (
        f"Error: simi-mailbox {name} comes with the package simi-mailbox-bench, which is not "
        "installed; from a clone of the repository: pip install ./bench\n"
    )
    assert f"{name} " not in run("--help").output
