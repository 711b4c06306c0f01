"""The command, end to end, on the built-in graph."""

import csv
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from simi_mailbox.calibrators import TemperatureScaling
from simi_mailbox_bench import calibration
from simi_mailbox_bench.commands.bench import bench
from simi_mailbox_bench.commands.running import default_store
from simi_mailbox_bench.store import ResultStore

DRIVER = Path(__file__).parents[1] / "driver.py"
SMALL = ["digits", "--backbones", "gcn", "--runs", "3"]


def call(*arguments, store=None):
    where = ["--store", str(store)] if store else []
    return CliRunner().invoke(bench, [*map(str, arguments), *where])


def table_of(store):
    """The small table as CSV; what is missing is measured."""
    return call(*SMALL, "--format", "csv", store=store)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "rows.jsonl"


def start(store, environment):
    command = [sys.executable, str(DRIVER), *SMALL, "--store", str(store), "--format", "csv"]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def whole(cache, tmp_path_factory):
    """Store and CSV of an uninterrupted run."""
    store = tmp_path_factory.mktemp("whole") / "rows.jsonl"
    result = table_of(store)
    assert result.exit_code == 0, result.output
    return store, result.stdout


def test_an_uninterrupted_run_has_every_cell(whole):
    rows = list(csv.DictReader(io.StringIO(whole[1])))
    assert not whole[1].endswith("\n\n")
    assert [row["method"] for row in rows] == [
        "uncalibrated", "temperature", "simi-mailbox", "simi-mailbox-paper", "simi-mailbox-oracle",
    ]  # fmt: skip
    assert {row["runs"] for row in rows} == {"3"}
    assert all(0 < float(row["mean"]) < 100 for row in rows)
    assert rows[-1]["note"] == "reads test labels"
    stored = ResultStore(whole[0]).rows()
    assert len(stored) == 15
    assert all(row["nodes"] == {"calibration": 500, "evaluated": 1000} for row in stored)
    assert {"accuracy", "ece", "kde_ece", "nll", "brier"} <= set(stored[0]["metrics"])
    assert {"torch", "simi-mailbox"} <= set(stored[0]["versions"])
    assert stored[0]["seconds"]["backbone"] > 0


def killed(process, store):
    """Kill a runner as soon as it has stored a row."""
    while not store.exists() or store.stat().st_size == 0:
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()


def test_two_runners_and_a_kill_make_the_same_table(whole, environment, store):
    """One of two runners on one store is killed half-way; a third then finishes."""
    victim, other = start(store, environment), start(store, environment)
    killed(victim, store)
    other.communicate()
    assert other.returncode == 0
    assert table_of(store).stdout == whole[1]
    assert len(store.read_text().splitlines()) == len(ResultStore(store)) == 15


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_in_order(whole, store, number, code):
    load = calibration.load_logits

    def stopped(run):
        if run.split == 1:
            signal.raise_signal(number)
        return load(run)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(calibration, "load_logits", stopped)
            result = call(*SMALL, store=store)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout) == (code, "")
    told = result.stderr.splitlines()[-1]
    assert told == f"stopped; 5 rows are in {store}; the same command continues"
    assert table_of(store).stdout == whole[1]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_stored_rows_are_shown_or_written_without_running(whole, tmp_path):
    before, out = whole[0].read_bytes(), tmp_path / "tables" / "digits.md"
    shown = [*SMALL, "--show", "--format", "markdown"]
    result = call(*shown, store=whole[0])
    assert (result.exit_code, "# digits" in result.stdout) == (0, True)
    assert call(*shown, "--out", out, store=whole[0]).exit_code == 0
    assert "| graph | backbone |" in out.read_text()
    assert whole[0].read_bytes() == before


@pytest.mark.parametrize(
    ("more", "would", "left_out"),
    [
        (["gcn", "--runs", "3"], ("15 rows in 3 units", "s0-f0-i0: 5 rows"), ""),
        (["gcn", "--runs", "1", "--methods", "temperature"], ("1 row in 1 unit;", ": 1 row\n"), ""),
        (["gcn,mlp", "--cached-only"], ("15 rows in 3 units", "s0-f0-i0: 5 rows"), "85 rows"),
    ],
)
def test_dry_run_tells_and_runs_nothing(whole, store, more, would, left_out):
    result = call("digits", "--dry-run", "--backbones", *more, store=store)
    assert result.exit_code == 0
    assert all(words in result.stdout for words in (f"would run {would[0]}", would[1]))
    told = f"left out: {left_out} whose backbone is not trained yet; " if left_out else ""
    assert result.stderr.startswith(told)
    assert bool(result.stderr) == bool(told)
    assert not store.exists()


ONE = ["digits", "--backbones", "gcn", "--runs", "1"]


def broken(*_):
    raise RuntimeError("not today")


def test_a_failing_method_is_told_and_the_rest_is_made(cache, store, monkeypatch):
    monkeypatch.setattr(TemperatureScaling, "_fit", broken)
    result = call(*ONE, store=store)
    assert result.exit_code == 1
    assert "temperature: RuntimeError: not today" in result.stderr
    assert "simi-mailbox-oracle" in result.stdout
    assert len(ResultStore(store)) == 4
    for one in (result, call(*ONE, store=store)):
        assert "1 run failed; the others are stored" in one.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "did you mean 'table1'? choices: table1, table1-5"),
        (["table1", "--datasets", "Kora"], "did you mean 'Cora'? choices: Cora, Citeseer"),
        (["table1", "--backbones", "transformer"], "choices: gcn, gat"),
        (["table1", "--methods", "gat"], "did you mean 'gats'? choices: uncalibrated, temperature"),
        (["table1", "--datasets", ""], "'' names nothing"),
        (["table1", "--methods", " , "], "' , ' names nothing"),
    ],
)
def test_unknown_names_list_the_choices(arguments, message):
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_missing_data_are_told_and_left_out(cache, store):
    result = call("t2a", store=store)
    assert result.exit_code == 0
    assert "left out: Arxiv is not here" in result.stderr
    assert "Reddit2.npz" in result.stderr
    assert "t2a: large graphs" in result.stdout


def test_the_list_tells_of_every_table_what_is_done(whole):
    lines = call("list", store=whole[0]).stdout.splitlines()
    assert {"table1", "t2b", "ood", "twitch"} <= {line.split()[0] for line in lines if line}
    (digits,) = [line for line in lines if line.startswith(" digits ")]
    assert "0 of 10, 5 begun" in digits  # three runs of each with a GCN, none with an MLP


def test_the_default_store_is_in_results_if_there_is_such_a_folder(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert default_store() == cache / "results" / "rows.jsonl"
    (tmp_path / "results").mkdir()
    assert default_store() == Path("results") / "rows.jsonl"


def errors(result):
    """Lines of a message that is meant for people: no traceback, no usage."""
    assert isinstance(result.exception, SystemExit), result.exception
    return [line for line in result.stderr.splitlines() if line]


@pytest.mark.parametrize(
    ("option", "place", "message"),
    [
        ("--out", "/proc/table.md", "cannot write"),
        ("--out", "{0}", "cannot write"),
        ("--out", "{0}/file/table.md", "cannot write"),
        ("--store", "/proc/rows.jsonl", "cannot write the store {1}: "),
        ("--store", "{0}/file/rows.jsonl", "cannot write the store {1}: "),
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_the_work(
    cache, tmp_path, monkeypatch, option, place, message
):
    monkeypatch.setattr("simi_mailbox_bench.runner.run", broken)
    (tmp_path / "file").touch()
    place = place.format(tmp_path)
    result = call(*SMALL, "--store", tmp_path / "rows.jsonl", option, place)
    assert result.exit_code == 1
    (line,) = errors(result)
    assert line.startswith(f"Error: {message.format(tmp_path, place)}")
    assert str(Path(place).parent) in line


def test_stores_that_cannot_be_read_are_one_line(store):
    packed = store.with_name("rows.jsonl.gz")
    packed.write_bytes(b"no gzip")
    for arguments in (["digits", "--show"], ["list"], ["write"]):
        result = call(*arguments, store=store)
        (line,) = errors(result)
        assert (result.exit_code, f"Error: {packed} is no whole gzip file" in line) == (1, True)
    result = call("digits", "--show", store="rows.csv")
    assert errors(result)[0].startswith("Error: a result store is a .jsonl file")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits", "--show"], "no rows of this table in {}; `simi-mailbox bench digits` makes"),
        (["digits", "--show", "--runs", "1"], "no rows of this part of the table in {}; `simi"),
        (["write", "--out", "nowhere"], "no table has rows in {}"),
    ],
)
def test_an_empty_store_is_named(store, monkeypatch, arguments, message):
    monkeypatch.chdir(store.parent)
    result = call(*arguments, store=store)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = errors(result)
    assert line.startswith(f"Error: {message.format(store)}")
    assert not list(store.parent.iterdir())


def test_tables_are_written_or_the_folder_is_refused(whole, tmp_path):
    out = tmp_path / "new" / "tables"
    result = call("write", "--out", out, store=whole[0])
    assert result.exit_code == 0, result.output
    assert f"tables into {out}" in result.stdout
    written = {path.name for path in out.iterdir()}
    assert {"digits.csv", "index.csv", "table1.csv"} <= written
    assert {name for name in written if name.endswith(".md")} == {"digits.md"}
    result = call("write", "--out", "/proc/tables", store=whole[0])
    (line,) = errors(result)
    assert result.exit_code == 1
    assert line.startswith("Error: cannot write into /proc/tables")
