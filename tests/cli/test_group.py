"""The command as a person types it."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from simi_mailbox import __version__
from simi_mailbox.cli import COMMANDS
from simi_mailbox.cli.group import cli


def run(*arguments):
    return CliRunner().invoke(cli, arguments)


def test_help_lists_every_command_in_one_line_each():
    output = run("--help").output
    for name, (_, line) in COMMANDS.items():
        assert f"{name} " in output
        assert line in output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_version():
    assert __version__ in run("--version").output


def test_a_typo_is_answered_with_what_was_meant():
    result = run("repotr")
    assert result.exit_code == 2
    assert "no command 'repotr'. Did you mean 'report'?" in result.output


def test_help_and_version_import_no_heavy_library():
    code = (
        "import sys; from simi_mailbox.cli.group import cli\n"
        "try: cli(['--help'])\n"
        "except SystemExit: pass\n"
        "print('HEAVY', sorted({'matplotlib', 'torch_geometric', 'dask'} & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "HEAVY []" in output


def test_a_missing_extra_is_one_line_that_names_it():
    code = "import sys; sys.modules['click'] = None\nfrom simi_mailbox.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "simi-mailbox: the command needs 'click'; install it with: pip install 'simi-mailbox[cli]'"
    )
