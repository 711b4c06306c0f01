"""The tables as data: names that exist, printed numbers that are found, one set of rows."""

import importlib
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

from simi_mailbox_bench import datasets, methods, paper_tables, tables
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.backbones.settings import PUBLISHED, Settings
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables import Selection, get, names
from simi_mailbox_bench.tables.calibration import CalibrationTable

GRIDS = [table for table in map(get, names()) if isinstance(table, CalibrationTable)]


@pytest.mark.parametrize("table", GRIDS, ids=lambda table: table.name)
def test_every_name_is_known_and_every_setting_can_be_built(table):
    assert set(table.needs()) <= set(datasets.names())
    assert {column.method.name for column in table.columns} <= set(methods.names())
    assert len(set(table.methods)) == len(table.methods)
    assert table.baseline in table.methods
    for column, dataset in product(table.columns, table.needs()):
        backbone = (column.backbones or table.backbones)[0]
        run = RunKey(dataset, backbone, table.protocol, 1, 0, 1)
        built = column.method.build(run).get_params()
        assert column.method.identity(run)["settings"].keys() == built.keys()


@pytest.mark.parametrize("table", GRIDS, ids=lambda table: table.name)
def test_every_printed_number_has_its_cell(table):
    """All printed columns of the paper are claimed by a column of ours, under the same name."""
    cells = paper_tables.cells(table.name)
    claimed = {
        (dataset, backbone, column.printed)
        for dataset in table.datasets
        for backbone in table.backbones
        for column in table.columns
        if not column.backbones or backbone in column.backbones
    }
    if table.name == "released":  # shows the columns of table1 that it needs
        cells = {cell: number for cell, number in cells.items() if cell in claimed}
        assert {cell[2] for cell in cells} == {"UnCal.", "TS", "Simi-Mailbox"}
    assert set(cells) <= claimed


def test_printed_numbers_as_in_the_paper():
    assert paper_tables.cells("table1")["Citeseer", "gat", "Simi-Mailbox"].mean == 2.86
    assert paper_tables.cells("nll")["Physics", "gcn", "TS"].std == 0.0035
    assert paper_tables.cells("het2")["Tolokers", "gat", "UnCal."].mean == 4.73
    assert ("Physics", "sage", "DCGC") not in paper_tables.cells("recent")
    assert paper_tables.cells("sensitivity") == {}
    assert sum(len(paper_tables.cells(name)) for name in ("table1", "kde", "class")) == 3 * 112


def test_the_main_table_has_the_papers_runs_and_other_metrics_come_from_the_same_rows():
    found = [len(get("table1").runs_of(name, "gcn", None)) for name in ("Cora", "Citeseer", "CS")]
    assert found == [75, 75, 15]
    selection = Selection(("Cora",), ("gcn",), runs=2)
    keys = [[unit.keys() for unit in get(name).units(selection)] for name in ("table1", "nll")]
    assert keys[0] == keys[1]


def test_settings_and_revisions_tell_rows_apart(monkeypatch):
    run = RunKey("Cora", "gcn", "folds")
    plain, other = methods.Method.of("simi-mailbox"), methods.Method.of("simi-mailbox", n_groups=3)
    unit = CalibrationUnit(run, (plain,))
    keys = {unit.key(plain), unit.key(other), CalibrationUnit(run, (), "test-90").key(plain)}
    monkeypatch.setattr(methods.find("simi-mailbox"), "version", 99)
    keys.add(unit.key(plain))
    monkeypatch.setitem(PUBLISHED, "cora", Settings(epochs=12))
    keys.add(unit.key(plain))
    assert len(keys) == 5


def test_seeds_differ_between_runs_of_methods_that_draw():
    gats = methods.Method.of("gats")
    seeds = {gats.build(RunKey("Cora", "gcn", "folds", s, f, i)).seed
             for s in range(5) for f in range(3) for i in range(5)}  # fmt: skip
    assert len(seeds) == 75
    assert methods.Method.of("simi-mailbox").build(RunKey("Cora", "gcn", "folds", 3)).seed == 0


@pytest.fixture
def filled(tmp_path):
    """Invented rows of table1 for Cora with a GCN: five splits, two folds."""
    rng = np.random.default_rng(0)
    store = ResultStore(tmp_path / "rows.jsonl")
    values = {"temperature": rng.random((5, 2)) / 20, "simi-mailbox": rng.random((5, 2)) / 20}
    for name, array in values.items():
        method = methods.Method.of(name)
        for (split, fold), value in np.ndenumerate(array):
            run = RunKey("Cora", "gcn", "folds", split, fold)
            store.append(
                {
                    "key": CalibrationUnit(run, (method,)).key(method),
                    "metrics": {"ece": value, "nll": None},
                    "noise_floor": {"mean": 0.02, "std": 0.001},
                }
            )
    return store, values


def test_a_cell_against_brute_force(filled):
    store, values = filled
    result = get("table1").result(store, Selection(("Cora",), ("gcn",)))
    base, ours = (result.line("Cora", "gcn", name) for name in values)
    assert ours.summary.mean == pytest.approx(100 * values["simi-mailbox"].mean())
    assert ours.summary.std == pytest.approx(100 * values["simi-mailbox"].std())
    assert (ours.summary.runs, ours.summary.splits, ours.floor) == (10, 5, pytest.approx(2.0))
    means = [100 * (a - b).mean() for a, b in zip(*reversed(values.values()), strict=True)]
    assert ours.paired.difference == pytest.approx(np.mean(means))
    assert ours.paired.lower == sum(mean < 0 for mean in means)
    assert base.paired is None
    assert ours.deviation == pytest.approx((ours.summary.mean - 1.97) / 0.44)


def test_a_run_on_other_logits_is_not_compared_and_a_remark_says_so(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    for number, name in enumerate(("temperature", "gats", "vector")):
        method = methods.Method.of(name)
        for split in range(3):
            run = RunKey("Cora", "gcn", "folds", split)
            logits = "other" if (name, split) == ("gats", 2) else "these"
            told = {} if name == "vector" else {"logits": logits}  # as older rows are
            key = CalibrationUnit(run, ()).key(method)
            store.append({"key": key, "metrics": {"ece": 0.01 * (number + split)}, **told})
    result = get("table1").result(store, Selection(("Cora",), ("gcn",)))
    pairs = {line.method: line.paired for line in result.lines if line.paired}
    assert {name: pair.splits for name, pair in pairs.items()} == {"gats": 2}
    assert result.remarks == (
        "Measured on other logits than temperature, and not compared: vector on Cora GCN (3 runs); "
        "gats on Cora GCN (1 run).",
    )


def test_captions_say_what_was_measured_and_name_the_paper_only_for_its_tables(filled):
    result = get("table1").result(filled[0], Selection(("Cora", "Photo"), ("gcn",)))
    assert result.caption[-2:] == ("10 runs per cell; the paper makes 75.", "Not measured: Photo.")
    assert [line.method for line in result.measured().lines] == ["temperature", "simi-mailbox"]
    sparse, cora = get("sparse"), Selection(("Cora",), ("gcn",))
    assert len(sparse.units(cora)) == 15  # more splits than the paper has
    lines = [line for line in result.lines if line.dataset == "Cora"]
    assert sparse.captions(lines)[-1] == "10 runs per cell; the paper makes 10."
    for name, runs, told in (
        ("registry", None, "5 runs per cell."),
        ("registry", 1, "1 run per cell."),
        ("table1", 1, "1 run per cell; the paper makes 75."),
    ):
        part = get(name).result(filled[0], Selection(("Cora",), ("gcn",), runs=runs))
        assert part.caption[-1] == told


def test_every_table_is_listed_once_and_found_where_it_is_listed():
    assert len(set(names())) == len(names())
    homes = {home for home, _ in tables.HOMES}
    there = [
        table.name
        for home in homes
        for table in importlib.import_module(f"simi_mailbox_bench.tables.{home}").TABLES
    ]
    assert sorted(there) == sorted(names())
    assert [get(name).name for name in names()] == names()


def test_one_table_is_shown_without_loading_what_others_need(tmp_path):
    """No posterior networks, detectors or self-training for a cell of table1."""
    method = methods.Method.of("temperature")
    run = RunKey("Cora", "gcn", "folds")
    store = ResultStore(tmp_path / "rows.jsonl")
    store.append({"key": CalibrationUnit(run, ()).key(method), "metrics": {"ece": 0.03}})
    code = """
import sys
from simi_mailbox_bench.commands.bench import bench
cell = ["--datasets", "Cora", "--backbones", "gcn", "--methods", "temperature"]
bench(["table1", "--show", *cell, "--store", sys.argv[1]], standalone_mode=False)
print(*sorted(name for name in sys.modules if name.startswith("simi_mailbox_bench")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(store.path)], capture_output=True, text=True, check=True
    )
    assert "3.00" in done.stdout
    loaded = {part for name in done.stdout.splitlines()[-1].split() for part in name.split(".")}
    assert {"tables", "calibration"} <= loaded
    assert not loaded & {"gpn", "ood", "selftraining", "timing"}
