"""A package of somebody else, with one calibrator: it is listed and passes the checks."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.calibrators.test_plugins import install

PACKAGE = Path(__file__).with_name("plugin_package")


@pytest.fixture
def source(tmp_path):
    """The module of the package, copied to a folder of its own."""
    folder = tmp_path / "packages"
    folder.mkdir()
    module = folder / "smoothing_calibrator.py"
    module.write_text((PACKAGE / module.name).read_text("utf-8"), "utf-8")
    return module


@pytest.fixture
def installed(source):
    """The same, with what an installer leaves beside it; no network and no build."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    install(source.parent, project["name"].replace("-", "_"), project["entry-points"])
    return source


def run(command, environment, folder):
    path = os.pathsep.join([str(folder), environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *command],
        env={**environment, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_it_is_listed_and_passes_the_checks(installed):
    code = (
        "from simi_mailbox import calibrators, testing\n"
        "assert 'smoothing' in calibrators.names()\n"
        "testing.check_calibrator(calibrators.get('smoothing'), strength=0.5)\n"
    )
    run(["-c", code], dict(os.environ), installed.parent)
