"""Every snippet of docs/shell.md runs, and prints what the page shows."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from tests.pages import compare

PAGE = Path(__file__).parent.parent / "docs" / "shell.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)


def commands():
    """Commands of the page and what it shows below each."""
    for block in blocks("console"):
        lines = re.sub(r"\\\n\s*", "", block)  # a command may go on in the next line
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", lines, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here, place = os.getcwd(), tmp_path_factory.mktemp("shell")
    os.chdir(place)
    try:
        (code,) = blocks("python")
        exec(code, {})
        yield place
    finally:
        os.chdir(here)


def run(command):
    program, *arguments = shlex.split(command)
    if program == "head":
        return "".join(
            Path(arguments[2]).read_text().splitlines(keepends=True)[: int(arguments[1])]
        )
    assert program == "simi-mailbox"
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return result.stdout


def test_the_commands_print_what_the_page_shows(folder):
    ran = 0
    for command, shown in commands():
        compare(run(command), shown, command, atol=0.02)
        ran += 1
    assert ran >= 9


def test_the_line_for_completion_is_what_the_shell_wants():
    (line,) = blocks("bash")
    name, shell = re.search(r"(_\w+_COMPLETE)=(\w+)", line).groups()
    result = subprocess.run(
        [sys.executable, "-m", "simi_mailbox"], env={**os.environ, name: shell}, capture_output=True
    )
    assert b"_simi_mailbox_completion" in result.stdout
