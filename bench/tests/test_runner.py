"""The runner: everything done once, failures told, one process or several."""

import os
import signal

import pytest

from fake import FakeUnit
from simi_mailbox_bench import runner
from simi_mailbox_bench.store import ResultStore


def keys_in(path):
    return sorted(line.split('"')[3] for line in path.read_text().splitlines())


def expected(units):
    return sorted(unit.key(part) for unit in units for part in unit.items)


def test_plan_leaves_out_what_is_stored(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    units = [FakeUnit(0), FakeUnit(1)]
    for key in [*units[0].keys(), units[1].key("b")]:
        store.append({"key": key, "metrics": {}})
    planned = runner.plan(units, store)
    assert [unit.keys() for unit in planned.units] == [[units[1].key("a"), units[1].key("c")]]
    assert (planned.already, planned.rows) == (4, 2)


def test_running_twice_runs_once(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    units = [FakeUnit(i) for i in range(4)]
    told: list[str] = []
    report = runner.run(
        runner.plan(units, store), store, advance=lambda unit: told.append(unit.label)
    )
    assert (report.written, report.failures) == (12, [])
    assert told == [unit.label for unit in units]
    again = runner.plan(units, store)
    assert again.units == ()
    assert (again.already, runner.run(again, store).written) == (12, 0)
    assert keys_in(store.path) == expected(units)


def test_several_processes(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    units = [FakeUnit(i, broken="c" if i == 3 else "") for i in range(8)]
    report = runner.run(runner.plan(units, store), store, jobs=2)
    assert (report.written, len(report.failures)) == (23, 1)
    assert keys_in(store.path) == [key for key in expected(units) if key != units[3].key("c")]
    assert {row["metrics"]["threads"] for row in store.rows()} == {1}


class Fatal(FakeUnit):
    """Kills the process it runs in, as a system without memory does."""

    def measure(self, item, prepared):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_told_and_finished_rows_are_kept(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    runner.run(runner.plan([FakeUnit(0)], store), store)
    units = [FakeUnit(0), Fatal(1)]
    with pytest.raises(runner.WorkerLostError, match="a worker process was killed"):
        runner.run(runner.plan(units, store), store, jobs=2)
    assert keys_in(store.path) == expected([FakeUnit(0)])
