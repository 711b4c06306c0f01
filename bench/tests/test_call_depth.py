"""How many files one cell of a table passes through: training, calibration, metrics, the store."""

from pathlib import Path

from tests.test_call_depth import footprint

import simi_mailbox
import simi_mailbox_bench
from simi_mailbox_bench import runner
from simi_mailbox_bench.backbones.cached_runs import RunKey
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.store import ResultStore

SOURCES = tuple(str(Path(part.__file__).parent) for part in (simi_mailbox, simi_mailbox_bench))
MOST_FILES = 35


def measure(folder, init):
    unit = CalibrationUnit(
        RunKey("Digits", "gcn", "sparse", init=init), (Method.of("simi-mailbox"),)
    )
    store = ResultStore(folder / f"{init}.jsonl")
    return runner.run(runner.plan([unit], store), store)


def test_a_cell_is_short_to_follow(cache, tmp_path):
    measure(tmp_path, 0)  # what is only done once, such as imports, is no part of a cell
    reports = []
    files, _ = footprint(lambda: reports.append(measure(tmp_path, 1)), *SOURCES)
    assert reports[0].written == 1
    assert len(files) <= MOST_FILES, sorted(files)
    assert {Path(file).name for file in files} >= {"training.py", "evidence.py", "store.py"}
