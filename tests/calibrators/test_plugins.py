"""Calibrators of other packages: found when asked for, told when broken, never in the way."""

import configparser
import sys
import textwrap
import warnings

import pytest

from simi_mailbox import calibrators
from simi_mailbox.calibrators import registry

MODULE = """
    from simi_mailbox.calibrators import TemperatureScaling

    class Mine(TemperatureScaling):
        name = "mine"

    class Taken(TemperatureScaling):
        name = "temperature"

    class Nameless(TemperatureScaling):
        name = ""
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder on the path, with a module of calibrators; the registry knows nothing of it yet."""
    monkeypatch.setattr(registry, "_FROM_OUTSIDE", {})
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "some_plugin.py").write_text(textwrap.dedent(MODULE), "utf-8")
    registry._offered.cache_clear()
    yield tmp_path
    sys.modules.pop("some_plugin", None)
    registry._offered.cache_clear()


def install(folder, name, groups):
    """What an installer leaves beside a package: its name, and its groups of entry points."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = configparser.ConfigParser()
    points.read_dict(groups)
    with (info / "entry_points.txt").open("w", encoding="utf-8") as file:
        points.write(file)


def offer(folder, **points):
    install(folder, "some_plugin", {registry.GROUP: points})


def test_an_installed_calibrator_has_its_place_in_the_registry(folder):
    offer(folder, mine="some_plugin:Mine")
    assert "mine" in calibrators.names()
    assert calibrators.get("mine").__name__ == "Mine"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:Mine", "No module named 'no_such_module'"),
        ("some_plugin:Nobody", "has no attribute 'Nobody'"),
        ("some_plugin:Taken", "its class has the name 'temperature', expected 'broken'"),
        ("warnings:warn", "it is no Calibrator"),
        ("raising:Mine", "RuntimeError: at home only"),
    ],
)
def test_a_broken_one_is_told_once_and_harms_no_other(folder, value, reason):
    (folder / "raising.py").write_text("raise RuntimeError('at home only')", "utf-8")
    offer(folder, broken=value, mine="some_plugin:Mine")
    with pytest.warns(RuntimeWarning) as told:
        listed = calibrators.names()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert calibrators.names() == listed
    (warning,) = told
    assert f"'broken' ({value}) cannot be used: " in str(warning.message)
    assert reason in str(warning.message)
    assert "mine" in listed
    assert "broken" not in listed
    with pytest.raises(ValueError, match=r"the plug-in 'broken' .* cannot be used"):
        calibrators.get("broken")


def test_no_package_can_put_its_method_in_place_of_ours(folder):
    offer(folder, temperature="some_plugin:Taken")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # entry points are not read for a method of ours
        assert calibrators.get("temperature") is calibrators.TemperatureScaling
    with pytest.warns(RuntimeWarning, match="two calibrators are called 'temperature'"):
        assert "temperature" in calibrators.names()
    assert calibrators.get("temperature") is calibrators.TemperatureScaling


def test_a_class_is_plugged_in_by_its_address(folder):
    cls = calibrators.plug_in("some_plugin:Mine")
    for again in ("some_plugin:Mine", cls):
        assert calibrators.plug_in(again) is cls is calibrators.get("mine")
    other = type("Other", (cls,), {})
    with pytest.raises(ValueError, match="two calibrators are called 'mine'"):
        calibrators.plug_in(other)
    registry.forget("mine")
    with pytest.raises(ValueError, match="unknown calibrator 'mine'"):
        calibrators.get("mine")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("some_plugin", "expected module:Class"),
        (":Mine", "expected module:Class"),
        ("no_such_module:Mine", "No module named"),
        ("some_plugin:Nobody", "no attribute 'Nobody'"),
        ("some_plugin:Taken", "two calibrators are called 'temperature'"),
        ("some_plugin:Nameless", "its class has the name ''"),
        ("some_plugin:TemperatureScaling", "two calibrators"),
        ("json:dumps", "it is no Calibrator"),
    ],
)
def test_an_address_that_does_not_serve_is_refused(folder, target, reason):
    before = calibrators.names()
    with pytest.raises(ValueError, match=reason):
        calibrators.plug_in(target)
    assert calibrators.names() == before
