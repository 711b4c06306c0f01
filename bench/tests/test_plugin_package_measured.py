"""A package of somebody else, with one calibrator: measured, and measured anew."""

import json
from pathlib import Path

import pytest
from tests.test_plugin_package import installed, run, source

__all__ = ["installed", "source"]

DRIVER = Path(__file__).with_name("driver.py")
TINY = ["--datasets", "Digits", "--backbones", "gcn", "--runs", "2"]


# The driver is not run in workers, but this module is imported there before anything is trained.
BRIEFLY = """
from simi_mailbox_bench.backbones.settings import PUBLISHED, Settings

PUBLISHED["digits"] = Settings(epochs=12)
"""


@pytest.fixture(autouse=True)
def briefly(source: Path) -> None:
    """Backbones train for a moment, in workers too."""
    source.write_text(source.read_text("utf-8") + BRIEFLY, "utf-8")


def bench(environment: dict[str, str], module: Path, *arguments: str) -> list[dict[str, object]]:
    """Rows in the store after the command."""
    store = module.parent / "rows.jsonl"
    run([str(DRIVER), *arguments, "--store", str(store)], environment, module.parent)
    return [json.loads(line) for line in store.read_text("utf-8").splitlines()]


def raise_version(module: Path) -> None:
    text = module.read_text("utf-8")
    assert "version: ClassVar[int] = 1" in text
    module.write_text(text.replace("version: ClassVar[int] = 1", "version: ClassVar[int] = 2"))


def test_it_is_measured_by_workers_and_anew_when_it_has_changed(
    installed: Path, environment: dict[str, str]
) -> None:
    command = ["registry", *TINY, "--methods", "smoothing,temperature", "--jobs", "2"]
    rows = bench(environment, installed, *command)
    assert sorted(row["method"] for row in rows) == ["smoothing"] * 2 + ["temperature"] * 2
    assert bench(environment, installed, *command) == rows
    raise_version(installed)
    new = bench(environment, installed, *command)[len(rows) :]
    assert [(row["method"], row["revision"]) for row in new] == [("smoothing", 2)] * 2


def test_without_being_installed_it_is_plugged_in_by_its_address(
    source: Path, environment: dict[str, str]
) -> None:
    command = ["digits", *TINY[2:], "--methods", "smoothing", "--jobs", "2"]
    rows = bench(environment, source, *command, "--plugin", "smoothing_calibrator:Smoothing")
    assert [row["method"] for row in rows] == ["smoothing"] * 2
