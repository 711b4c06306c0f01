"""A package of somebody else, with one calibrator: listed, lawful, measured, measured anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).with_name("plugin_package")
DRIVER = Path(__file__).parent / "cli" / "driver.py"
TINY = ["--datasets", "Digits", "--backbones", "gcn", "--runs", "2"]


# The driver is not run in workers, but this module is imported there before anything is trained.
BRIEFLY = """
from simi_mailbox.models.settings import PUBLISHED, Settings

PUBLISHED["digits"] = Settings(epochs=12)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The module of the package, copied to a folder of its own; backbones train for a moment."""
    folder = tmp_path / "packages"
    folder.mkdir()
    module = folder / "smoothing_calibrator.py"
    module.write_text((PACKAGE / module.name).read_text("utf-8") + BRIEFLY, "utf-8")
    return module


@pytest.fixture
def installed(source: Path) -> Path:
    """The same, with what an installer leaves beside it; no network and no build."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    info = source.parent / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", ""]
    (info / "METADATA").write_text("\n".join(lines), "utf-8")
    points = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in listed.items())
        for group, listed in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n", "utf-8")
    return source


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    path = os.pathsep.join([str(folder), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command],
        env={**environment, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bench(environment: dict[str, str], module: Path, *arguments: str) -> list[dict[str, object]]:
    """Rows in the store after the command."""
    store = module.parent / "rows.jsonl"
    run([str(DRIVER), *arguments, "--store", str(store)], environment, module.parent)
    return [json.loads(line) for line in store.read_text("utf-8").splitlines()]


def raise_version(module: Path) -> None:
    text = module.read_text("utf-8")
    assert "version: ClassVar[int] = 1" in text
    module.write_text(text.replace("version: ClassVar[int] = 1", "version: ClassVar[int] = 2"))


def test_it_is_listed_and_keeps_the_law(installed: Path, environment: dict[str, str]) -> None:
    code = (
        "from simi_mailbox import calibrators, testing\n"
        "assert 'smoothing' in calibrators.names()\n"
        "testing.check_calibrator(calibrators.get('smoothing'), strength=0.5)\n"
        "print('lawful')\n"
    )
    assert run(["-c", code], environment, installed.parent) == "lawful\n"


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
