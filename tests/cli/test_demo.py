"""The demonstration: what a newcomer sees first."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from simi_mailbox.demo import METHODS, run_demo


@pytest.fixture(scope="module")
def demo():
    return run_demo(example="digits")


@pytest.fixture(scope="module")
def copies():
    return run_demo()


def test_where_errors_point_both_ways_groups_help_and_one_temperature_does_not(copies):
    before, temperature, ours = copies.outcomes
    assert before.accuracy == temperature.accuracy == ours.accuracy
    assert temperature.ece > 0.8 * before.ece > 5 * before.noise_floor
    assert ours.ece < temperature.ece / 2
    assert ours.nll < temperature.nll - 0.05


def test_calibration_keeps_accuracy_and_cuts_the_error(demo):
    before, *after = demo.outcomes
    assert [row.method for row in demo.outcomes] == list(METHODS)
    assert before.accuracy > 0.9
    for row in after:
        assert row.accuracy == before.accuracy
        assert row.ece < before.ece / 4
        assert row.nll < before.nll


def test_five_hundred_digits_calibrate_and_others_judge(demo):
    assert (demo.val.size, demo.test.size) == (500, 1797 - 700)
    assert not np.intersect1d(demo.val, demo.test).size


def test_same_seed_same_bits(demo):
    np.testing.assert_array_equal(run_demo(example="digits").logits, demo.logits)


def test_the_command_prints_the_table_and_writes_what_it_says(tmp_path, copies):
    result = CliRunner().invoke(cli, ["demo", "--out", str(tmp_path / "new" / "folder")])
    assert result.exit_code == 0, result.output
    for row in copies.outcomes:
        assert re.search(rf"{row.method}.*{row.accuracy:.2%}.*{row.ece:.2%}", result.output)
    written = sorted(p.name for p in (tmp_path / "new" / "folder").iterdir())
    assert written == ["reliability.png", "report.html"]
    assert (tmp_path / "new" / "folder" / "reliability.png").read_bytes()[1:4] == b"PNG"


def test_a_bad_folder_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("simi_mailbox.demo.run_demo", lambda *given: pytest.fail("work was begun"))
    (tmp_path / "file").touch()
    for out in ("/proc/demo", tmp_path / "file" / "demo"):
        result = CliRunner().invoke(cli, ["demo", "--out", str(out)])
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: cannot write into {out}: ")
        assert len(result.stderr.splitlines()) == 1


def test_what_is_not_installed_is_left_out_and_the_rest_is_there(tmp_path, monkeypatch, copies):
    def missing(module, *, extra):
        raise ModuleNotFoundError(f"this needs {module}", name=module)

    monkeypatch.setattr("simi_mailbox.demo.run_demo", lambda *given: copies)
    monkeypatch.setattr("simi_mailbox._extras.require", missing)
    result = CliRunner().invoke(cli, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "simi-mailbox[plot]" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
