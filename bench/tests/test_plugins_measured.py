"""Calibrators of other packages in tables and workers."""

from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner
from tests.calibrators.test_plugins import folder

from simi_mailbox import calibrators
from simi_mailbox.calibrators import registry
from simi_mailbox_bench import runner, tables
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.commands.bench import _guests, bench
from simi_mailbox_bench.methods import Method

__all__ = ["folder"]


def test_a_worker_makes_guests_known_in_the_version_that_was_planned(folder: Path) -> None:
    unit = CalibrationUnit(RunKey("Digits", "gcn", "sparse"), (Method.of("mine"),))
    calibrators.plug_in("some_plugin:Mine")
    guests = runner.guests_of(unit)
    assert guests == (("some_plugin:Mine", calibrators.get("mine").version),)
    assert runner.guests_of(replace(unit, items=(Method.of("temperature"),))) == ()

    registry.forget("mine")  # as in a new process
    runner.work(0, replace(unit, items=()), None, guests)
    assert "mine" in calibrators.names()
    _, (failure,) = runner.work(0, unit, None, (("some_plugin:Mine", 7),))
    assert "is of version 1 in the worker and of version 7" in failure.error
    _, (failure,) = runner.work(0, unit, None, (("no_such_module:Mine", 1),))
    assert "the plug-in no_such_module:Mine cannot be used" in failure.error


def test_tables_take_guests_when_named_and_the_open_one_takes_all(folder: Path) -> None:
    calibrators.plug_in("some_plugin:Mine")
    for name, named in (("table1", False), ("registry", True)):
        table = tables.get(name)
        assert "mine" not in table.methods  # what is published depends on nobody's machine
        assert ("mine" in table.joined_by(_guests(table, None)).methods) is named
        assert "mine" in table.joined_by(_guests(table, ("Mine",))).methods
        assert table.joined_by(_guests(table, ("temperature",))).methods == table.methods
    digits = tables.get("registry").joined_by((), ["digits"])
    assert digits.datasets == (*tables.get("registry").datasets, "Digits")


def test_a_plugin_that_cannot_be_used_is_a_usage_error(folder: Path) -> None:
    command = ["table1", "--plugin", "no_such_module:Mine", "--dry-run"]
    result = CliRunner().invoke(bench, command)
    assert result.exit_code == 2
    assert "the plug-in no_such_module:Mine cannot be used: No module named" in result.output
