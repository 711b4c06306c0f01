"""The demonstration: what a newcomer sees first."""

import re

import numpy as np
import pytest
from click.testing import CliRunner

from simi_mailbox.cli.group import cli
from simi_mailbox.demo import METHODS, run_demo


@pytest.fixture(scope="module")
def demo():
    return run_demo()


def test_calibration_keeps_accuracy_and_cuts_the_error(demo):
    before, *after = demo.outcomes
    assert [row.method for row in demo.outcomes] == list(METHODS)
    assert before.accuracy > 0.9
    for row in after:
        assert row.accuracy == before.accuracy
        assert row.ece < before.ece / 4
        assert row.nll < before.nll


def test_the_split_is_twenty_per_class_and_five_hundred(demo):
    assert (np.bincount(demo.dataset.y[demo.split.train]) == 20).all()
    assert len(demo.split.val) == 500
    assert len(demo.split.test) == 1797 - 700


def test_same_seed_same_bits(demo):
    np.testing.assert_array_equal(run_demo().logits, demo.logits)


def test_the_command_prints_the_table_and_writes_what_it_says(tmp_path, demo):
    result = CliRunner().invoke(cli, ["demo", "--out", str(tmp_path / "new" / "folder")])
    assert result.exit_code == 0, result.output
    for row in demo.outcomes:
        assert re.search(rf"{row.method}.*{row.accuracy:.2%}.*{row.ece:.2%}", result.output)
    written = sorted(p.name for p in (tmp_path / "new" / "folder").iterdir())
    assert written == ["reliability.png", "report.html"]
    assert (tmp_path / "new" / "folder" / "reliability.png").read_bytes()[1:4] == b"PNG"


def test_a_bad_folder_is_told_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr("simi_mailbox.demo.run_demo", lambda seed: pytest.fail("work was begun"))
    (tmp_path / "file").touch()
    for out in ("/proc/demo", tmp_path / "file" / "demo"):
        result = CliRunner().invoke(cli, ["demo", "--out", str(out)])
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: cannot write into {out}: ")
        assert len(result.stderr.splitlines()) == 1
