"""The demonstration: what a newcomer sees first."""

import re

import numpy as np
import pytest

from simi_mailbox.demo import METHODS, run_demo
from tests.cli.conftest import run


@pytest.fixture(scope="module")
def copies():
    return run_demo()


def test_where_errors_point_both_ways_groups_help_and_one_temperature_does_not(copies):
    before, temperature, ours = copies.outcomes.values()
    assert before["accuracy"] == temperature["accuracy"] == ours["accuracy"]
    assert temperature["ece"] > 0.8 * before["ece"] > 5 * before["noise_floor"]
    assert ours["ece"] < temperature["ece"] / 2
    assert ours["nll"] < temperature["nll"] - 0.05


def test_calibration_keeps_accuracy_and_cuts_the_error_of_other_digits():
    demo, again = (run_demo(example="digits") for _ in range(2))
    np.testing.assert_array_equal(again.logits, demo.logits)
    assert (demo.val.size, demo.test.size) == (500, 1797 - 700)
    assert not np.intersect1d(demo.val, demo.test).size
    before, *after = demo.outcomes.values()
    assert list(demo.outcomes) == list(METHODS)
    assert before["accuracy"] > 0.9
    for row in after:
        assert row["accuracy"] == before["accuracy"]
        assert row["ece"] < before["ece"] / 4
        assert row["nll"] < before["nll"]


def test_the_command_prints_the_table_and_writes_what_it_says(tmp_path, copies):
    out = tmp_path / "new" / "folder"
    told = run("demo --out", out).output
    for method, row in copies.outcomes.items():
        assert re.search(rf"{method}.*{row['accuracy']:.2%}.*{row['ece']:.2%}", told)
    assert [path.name for path in out.iterdir()] == ["report.html"]


def test_a_bad_folder_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("simi_mailbox.demo.run_demo", lambda *given: pytest.fail("work was begun"))
    (tmp_path / "file").touch()
    for out in ("/proc/demo", tmp_path / "file" / "demo"):
        result = run("demo --out", out, code=1)
        assert result.stderr.startswith(f"Error: cannot write into {out}: ")
        assert len(result.stderr.splitlines()) == 1


def test_what_is_not_installed_is_named_after_the_table(tmp_path, monkeypatch, copies):
    def missing(module, *, extra):
        raise ModuleNotFoundError(f"pip install 'simi-mailbox[{extra}]'", name=module)

    monkeypatch.setattr("simi_mailbox.demo.run_demo", lambda *given: copies)
    monkeypatch.setattr("simi_mailbox.report.render.require", missing)
    result = run("demo --out", tmp_path, code=1)
    assert "simi-mailbox[report]" in result.stderr
    assert f"{copies.outcomes['uncalibrated']['ece']:.2%}" in result.stdout
