"""A package of somebody else, with one calibrator: it is listed and passes the checks."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).with_name("plugin_package")


@pytest.fixture
def installed(tmp_path):
    """A folder with the module, and what an installer leaves beside it: no network, no build."""
    (tmp_path / "smoothing_calibrator.py").symlink_to(PACKAGE / "smoothing_calibrator.py")
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    info = tmp_path / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", ""]
    (info / "METADATA").write_text("\n".join(lines), "utf-8")
    points = [
        f"[{group}]\n" + "\n".join(f"{key} = {value}" for key, value in listed.items())
        for group, listed in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n", "utf-8")
    return tmp_path


def test_it_is_listed_and_passes_the_checks(installed):
    code = (
        "from simi_mailbox import calibrators, testing\n"
        "assert 'smoothing' in calibrators.names()\n"
        "testing.check_calibrator(calibrators.get('smoothing'), strength=0.5)\n"
    )
    path = os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")])
    command, environment = [sys.executable, "-c", code], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, cwd=installed, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
