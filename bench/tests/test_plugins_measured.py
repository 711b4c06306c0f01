"""Calibrators of other packages in tables and workers: measured, and measured anew."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.calibrators.test_plugins import folder
from tests.test_plugin_package import installed, run, source

from simi_mailbox import calibrators
from simi_mailbox.calibrators import registry
from simi_mailbox_bench import runner, tables
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.commands.bench import _guests
from simi_mailbox_bench.methods import Method

__all__ = ["folder", "installed", "source"]

DRIVER = Path(__file__).with_name("driver.py")
TINY = ["--datasets", "Digits", "--backbones", "gcn", "--runs", "2"]


# The driver is not run in workers, but this module is imported there before anything is trained.
BRIEFLY = """
from simi_mailbox_bench.backbones.settings import PUBLISHED, Settings

PUBLISHED["digits"] = Settings(epochs=12)
"""


@pytest.fixture
def briefly(source):
    """Backbones train for a moment, in workers too."""
    source.write_text(source.read_text("utf-8") + BRIEFLY, "utf-8")


def bench(environment, module, *arguments):
    """Rows in the store after the command."""
    store = module.parent / "rows.jsonl"
    run([str(DRIVER), *arguments, "--store", str(store)], environment, module.parent)
    return [json.loads(line) for line in store.read_text("utf-8").splitlines()]


def raise_version(module):
    text = module.read_text("utf-8")
    assert "version: ClassVar[int] = 1" in text
    module.write_text(text.replace("version: ClassVar[int] = 1", "version: ClassVar[int] = 2"))


@pytest.mark.usefixtures("briefly")
def test_it_is_measured_by_workers_and_anew_when_it_has_changed(installed, environment):
    asked = ["registry", *TINY, "--methods", "smoothing,temperature", "--jobs", "2"]
    rows = bench(environment, installed, *asked)
    assert sorted(row["method"] for row in rows) == ["smoothing"] * 2 + ["temperature"] * 2
    assert bench(environment, installed, *asked) == rows
    raise_version(installed)
    new = bench(environment, installed, *asked)[len(rows) :]
    assert [(row["method"], row["revision"]) for row in new] == [("smoothing", 2)] * 2


@pytest.mark.usefixtures("briefly")
def test_without_being_installed_it_is_plugged_in_by_its_address(source, environment):
    asked = ["digits", *TINY[2:], "--methods", "smoothing", "--jobs", "2"]
    rows = bench(environment, source, *asked, "--plugin", "smoothing_calibrator:Smoothing")
    assert [row["method"] for row in rows] == ["smoothing"] * 2


def test_a_worker_makes_guests_known(folder, tmp_path):
    unit = CalibrationUnit(RunKey("Digits", "gcn", "sparse"), (Method.of("mine"),))
    calibrators.plug_in("some_plugin:Mine")
    assert runner.guests_of(unit) == ("some_plugin:Mine",)
    assert runner.guests_of(replace(unit, items=(Method.of("temperature"),))) == ()

    registry.forget("mine")  # as in a new process
    store = str(tmp_path / "rows.jsonl")
    runner.work(0, replace(unit, items=()), store, ["some_plugin:Mine"])
    assert "mine" in calibrators.names()
    _, _, (failure,) = runner.work(0, unit, store, ["no_such_module:Mine"])
    assert "the plug-in no_such_module:Mine cannot be used" in failure.error


def test_tables_take_guests_when_named_and_the_open_one_takes_all(folder):
    calibrators.plug_in("some_plugin:Mine")
    for name, named in (("table1", False), ("registry", True)):
        table = tables.get(name)
        assert "mine" not in table.methods  # what is published depends on nobody's machine
        assert ("mine" in table.joined_by(_guests(table, None)).methods) is named
        assert "mine" in table.joined_by(_guests(table, ("Mine",))).methods
        assert table.joined_by(_guests(table, ("temperature",))).methods == table.methods
    digits = tables.get("registry").joined_by((), ["digits"])
    assert digits.datasets == (*tables.get("registry").datasets, "Digits")
