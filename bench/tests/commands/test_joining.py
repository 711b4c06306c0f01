"""The commands of the bench join those of the library."""

import pytest
from click.testing import CliRunner

from simi_mailbox.cli import BENCH_COMMANDS
from simi_mailbox.cli.group import cli


@pytest.mark.parametrize("name", BENCH_COMMANDS)
def test_every_command_is_listed_and_explains_itself(name):
    assert f"{name} " in CliRunner().invoke(cli, ["--help"]).output
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_the_shell_completes_methods_of_a_table():
    words = "simi-mailbox bench table1 --methods gats,simi-mailbox-p"
    environment = {
        "_SIMI_MAILBOX_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    output = CliRunner().invoke(cli, env=environment).output
    found = {line.split(",", 1)[1] for line in output.splitlines()}
    forms = ("", " searched", " cross-fitted", " exact")
    assert found == {f"gats,simi-mailbox-paper{form}" for form in forms}
