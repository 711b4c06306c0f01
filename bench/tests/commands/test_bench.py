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
from click.testing import CliRunner, Result

from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.commands.bench import bench
from simi_mailbox_bench.commands.running import default_store
from simi_mailbox_bench.store import ResultStore

DRIVER = Path(__file__).parents[1] / "driver.py"
SMALL = ["digits", "--backbones", "gcn", "--runs", "3"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(bench, list(arguments))


def start(store: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(DRIVER), *SMALL, "--store", str(store), "--format", "csv"]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def whole(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Store and CSV of an uninterrupted run."""
    store = tmp_path_factory.mktemp("whole") / "rows.jsonl"
    result = call(*SMALL, "--store", str(store), "--format", "csv")
    assert result.exit_code == 0, result.output
    return store, result.stdout


def test_an_uninterrupted_run_has_every_cell(whole: tuple[Path, str]) -> None:
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


def test_two_runners_and_a_kill_make_the_same_table(
    whole: tuple[Path, str], environment: dict[str, str], tmp_path: Path
) -> None:
    """One of two runners on one store is killed half-way; a third then finishes."""
    store = tmp_path / "rows.jsonl"
    victim, other = start(store, environment), start(store, environment)
    while not store.exists() or store.stat().st_size == 0:
        assert victim.poll() is None
        time.sleep(0.001)
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    _, finished = other.communicate(), other.returncode
    assert finished == 0
    result = call(*SMALL, "--store", str(store), "--format", "csv")
    assert result.stdout == whole[1]
    lines = store.read_text().splitlines()
    assert len(lines) == len(ResultStore(store)) == 15


def test_a_kill_in_the_middle_and_again_makes_the_same_table(
    whole: tuple[Path, str], environment: dict[str, str], tmp_path: Path
) -> None:
    store = tmp_path / "rows.jsonl"
    process = start(store, environment)
    while not store.exists() or store.stat().st_size == 0:
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert 0 < len(ResultStore(store)) < 15
    with store.open("ab") as file:
        file.write(b'{"key":"torn')  # as if the kill had come a moment later
    result = call(*SMALL, "--store", str(store), "--format", "csv")
    assert result.exit_code == 0
    assert result.stdout == whole[1]
    assert result.stderr.count("torn last line") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_in_order(
    whole: tuple[Path, str], tmp_path: Path, number: int, code: int
) -> None:
    from simi_mailbox_bench import calibration

    store, load = tmp_path / "rows.jsonl", calibration.load_logits

    def stopped(run: RunKey) -> object:
        if run.split == 1:
            signal.raise_signal(number)
        return load(run)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(calibration, "load_logits", stopped)
            result = call(*SMALL, "--store", str(store))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout) == (code, "")
    told = result.stderr.splitlines()[-1]
    assert told == f"stopped; 5 rows are in {store}; the same command continues"
    assert call(*SMALL, "--store", str(store), "--format", "csv").stdout == whole[1]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_stored_rows_are_shown_without_running(whole: tuple[Path, str], cache: Path) -> None:
    before = whole[0].read_bytes()
    result = call(*SMALL, "--store", str(whole[0]), "--show", "--format", "markdown")
    assert result.exit_code == 0
    assert "# digits" in result.stdout
    assert whole[0].read_bytes() == before


def test_dry_run_tells_and_runs_nothing(cache: Path, tmp_path: Path) -> None:
    store = tmp_path / "rows.jsonl"
    result = call(*SMALL, "--store", str(store), "--dry-run")
    assert result.exit_code == 0
    assert "would run 15 rows in 3 units" in result.stdout
    assert "digits/gcn/sparse/s0-f0-i0: 5 rows" in result.stdout
    assert not store.exists()


def test_only_banked_runs(whole: tuple[Path, str], tmp_path: Path) -> None:
    arguments = ["digits", "--backbones", "gcn,mlp", "--store", str(tmp_path / "rows.jsonl")]
    result = call(*arguments, "--cached-only", "--dry-run")
    assert "would run 15 rows in 3 units" in result.stdout
    assert "left out: 85 rows whose backbone is not trained yet" in result.stderr


def test_nothing_banked_is_told(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMI_MAILBOX_CACHE", str(tmp_path))
    store = tmp_path / "rows.jsonl"
    chosen = ["digits", "--backbones", "gcn", "--runs", "1", "--cached-only"]
    result = call(*chosen, "--store", str(store))
    assert result.exit_code == 0
    assert "left out: 5 rows whose backbone is not trained yet" in result.stderr
    assert not store.exists()


def test_a_failing_method_is_told_and_the_rest_is_made(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simi_mailbox.calibrators import TemperatureScaling

    def broken(self: object, data: object) -> None:
        raise RuntimeError("no fit today")

    monkeypatch.setattr(TemperatureScaling, "_fit", broken)
    store = tmp_path / "rows.jsonl"
    result = call("digits", "--backbones", "gcn", "--runs", "1", "--store", str(store))
    assert result.exit_code == 1
    assert "temperature: RuntimeError: no fit today" in result.stderr
    assert "1 run failed; the others are stored" in result.stderr
    assert len(ResultStore(store)) == 4
    assert "simi-mailbox-oracle" in result.stdout
    again = call("digits", "--backbones", "gcn", "--runs", "1", "--store", str(store))
    assert "1 run failed; the others are stored" in again.stderr


def test_where_every_run_fails_no_others_are_claimed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from simi_mailbox_bench import calibration

    def broken(run: object) -> None:
        raise RuntimeError("no logits today")

    monkeypatch.setattr(calibration, "load_logits", broken)
    result = call("digits", "--runs", "1", "--store", str(tmp_path / "rows.jsonl"))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "2 runs failed"


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
def test_unknown_names_list_the_choices(arguments: list[str], message: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_missing_data_are_told_and_left_out(cache: Path, tmp_path: Path) -> None:
    result = call("t2a", "--store", str(tmp_path / "rows.jsonl"))
    assert result.exit_code == 0
    assert "left out: Arxiv is not here" in result.stderr
    assert "Reddit2.npz" in result.stderr
    assert "t2a: large graphs" in result.stdout


def test_the_list_names_every_table_and_what_is_done(whole: tuple[Path, str]) -> None:
    result = call("list", "--store", str(whole[0]))
    assert result.exit_code == 0
    expected = (
        "digits table1 obs t2a t2b gc recent scaling sensitivity het1 het2 sparse mlp sage gin kde "
        "class nll brier"
    )
    assert set(expected.split()) <= set(result.stdout.split())
    (digits,) = [line for line in result.stdout.splitlines() if line.startswith(" digits ")]
    assert "0 of 10, 5 begun" in digits  # three runs of each with a GCN, none with an MLP


def test_the_default_store_is_in_results_if_there_is_such_a_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_store() == cache / "results" / "rows.jsonl"
    (tmp_path / "results").mkdir()
    assert default_store() == Path("results") / "rows.jsonl"


def test_out_writes_a_file(whole: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "tables" / "digits.tex"
    arguments = [*SMALL, "--store", str(whole[0]), "--format", "latex", "--out", str(out)]
    assert call(*arguments).exit_code == 0
    assert "\\begin{tabular}" in out.read_text()


def errors(result: Result) -> list[str]:
    """Lines of a message that is meant for people: no traceback, no usage."""
    assert isinstance(result.exception, SystemExit), result.exception
    return [line for line in result.stderr.splitlines() if line]


def never(*arguments: object, **options: object) -> None:
    raise AssertionError("work was begun")


@pytest.mark.parametrize("place", ["/proc/table.md", "{0}", "{0}/file/table.md"])
def test_a_bad_out_is_told_before_the_work(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("simi_mailbox_bench.runner.run", never)
    (tmp_path / "file").touch()
    out = place.format(tmp_path)
    result = call(*SMALL, "--store", str(tmp_path / "rows.jsonl"), "--out", out)
    assert result.exit_code == 1
    (line,) = errors(result)
    assert line.startswith("Error: cannot write")
    assert str(Path(out).parent) in line


@pytest.mark.parametrize("place", ["/proc", "{0}/file"])
def test_a_store_that_cannot_be_written_is_told_before_the_work(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr("simi_mailbox_bench.runner.run", never)
    (tmp_path / "file").touch()
    store = f"{place.format(tmp_path)}/rows.jsonl"
    result = call(*SMALL, "--store", store)
    assert result.exit_code == 1
    (line,) = errors(result)
    assert line.startswith(f"Error: cannot write the store {store}: ")


def test_stores_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(b"no gzip")
    for arguments in (["digits", "--show"], ["list"], ["write"]):
        result = call(*arguments, "--store", str(tmp_path / "rows.jsonl"))
        assert result.exit_code == 1
        (line,) = errors(result)
        assert f"Error: {tmp_path / 'rows.jsonl.gz'} is no whole gzip file" in line
    result = call("digits", "--show", "--store", str(tmp_path / "rows.csv"))
    assert errors(result)[0].startswith("Error: a result store is a .jsonl file")


def test_an_unreadable_line_is_told_once_with_its_number(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    store = tmp_path / "rows.jsonl"
    store.write_bytes(b'{"key":"x"}\n' + whole[0].read_bytes())
    for more in ([], ["--show"]):
        result = call(*SMALL, "--store", str(store), "--format", "csv", *more)
        assert result.exit_code == 0
        assert result.stdout == whole[1]
        (line,) = errors_of(result)
        assert line == 'rows.jsonl: skipped an unreadable line, number 1: b\'{"key":"x"}\''


def errors_of(result: Result) -> list[str]:
    return [line for line in result.stderr.splitlines() if "unreadable" in line]


def test_an_empty_store_is_named(tmp_path: Path) -> None:
    store = tmp_path / "rows.jsonl"
    result = call("digits", "--show", "--store", str(store))
    assert (result.exit_code, result.stdout) == (1, "")
    makes = f"in {store}; `simi-mailbox bench digits` makes them"
    assert errors(result) == [f"Error: no rows of this table {makes}"]
    result = call("digits", "--show", "--store", str(store), "--runs", "1")
    assert errors(result) == [f"Error: no rows of this part of the table {makes}"]
    result = call("write", "--store", str(store), "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert f"no table has rows in {store}" in errors(result)[0]
    assert not (tmp_path / "out").exists()


def test_tables_are_written_or_the_folder_is_refused(
    whole: tuple[Path, str], tmp_path: Path
) -> None:
    out = tmp_path / "new" / "tables"
    result = call("write", "--store", str(whole[0]), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert f"tables into {out}" in result.stdout
    written = {path.name for path in out.iterdir()}
    assert {"digits.csv", "index.csv", "table1.csv"} <= written
    assert {name for name in written if name.endswith(".md")} == {"digits.md"}
    result = call("write", "--store", str(whole[0]), "--out", "/proc/tables")
    assert result.exit_code == 1
    (line,) = errors(result)
    assert line.startswith("Error: cannot write into /proc/tables")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense", ""])
def test_a_scheduler_that_does_not_answer_is_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    pytest.importorskip("distributed", reason="the bench installs it")
    monkeypatch.setattr("simi_mailbox_bench.runner.PATIENCE", 0.2)
    store = str(tmp_path / "rows.jsonl")
    result = call(*SMALL, "--store", store, "--scheduler", address)
    assert result.exit_code == 1
    (line,) = errors(result)
    assert line.startswith(f"Error: no Dask scheduler answers at {address!r} (")
    assert "start one with `dask scheduler`" in line


def test_one_of_a_thing_is_singular(cache: Path, tmp_path: Path) -> None:
    arguments = ["--methods", "temperature", "--runs", "1", "--backbones", "gcn", "--dry-run"]
    result = call("digits", *arguments, "--store", str(tmp_path / "rows.jsonl"))
    assert "would run 1 row in 1 unit, about" in result.stdout
    assert "sparse/s0-f0-i0: 1 row, " in result.stdout
