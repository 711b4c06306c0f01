"""The commands of the bench join those of the library."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from simi_mailbox.cli import BENCH_COMMANDS
from simi_mailbox.cli.group import cli


@pytest.mark.parametrize("name", BENCH_COMMANDS)
def test_every_command_is_listed_and_explains_itself(name: str) -> None:
    assert f"{name} " in CliRunner().invoke(cli, ["--help"]).output
    result = CliRunner().invoke(cli, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output
