"""The time table, on a small graph of exactly the size asked for."""

import time

import numpy as np
import pytest

from simi_mailbox_bench import runner
from simi_mailbox_bench.methods import find
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables import Selection, get, timing
from simi_mailbox_bench.tables.timing import LargeSize, make_large

SMALL = LargeSize(300, 2000, 4, 150, 100)


def test_a_synthetic_graph_has_exactly_its_size():
    made = make_large(SMALL, seed=3)
    assert (made.graph.num_nodes, made.graph.num_entries) == (300, 2000)
    assert made.logits.shape == (300, 4)
    assert (len(made.train), len(made.val)) == (150, 100)
    assert not set(made.train) & set(made.val)
    rows, columns = made.graph.rows().numpy(), made.graph.indices.numpy()
    assert (made.y[rows] == made.y[columns]).mean() > 0.5
    assert 0.5 < (made.logits.argmax(axis=1) == made.y).mean() < 0.97
    assert np.array_equal(make_large(SMALL, seed=3).logits, made.logits)


def test_every_method_is_timed(tmp_path, monkeypatch):
    monkeypatch.setitem(timing.SIZES, "Arxiv", SMALL)
    store = ResultStore(tmp_path / "rows.jsonl")
    table, selection = get("t2b"), Selection(datasets=("Arxiv",), runs=1)
    report = runner.run(runner.plan(table.units(selection), store), store)
    assert report.failures == []
    assert table.units(selection)[0].pending(store) is None
    whole, wall, epochs, each = (
        get(f"t2b{name}").result(store, selection)
        for name in ("", "-wall", "-epochs", "-per-epoch")
    )
    for line, other in zip(whole.lines, wall.lines, strict=True):
        assert line.printed == other.printed
        assert min(line.summary.mean, other.summary.mean) > 0
    assert whole.methods() == wall.methods() == list(table.methods)
    assert whole.line("Arxiv size", "synthetic", "gats").printed.mean == 48.89
    for method in ("cagcn", "gats", "simi-mailbox-paper"):
        place = "Arxiv size", "synthetic", method
        counted, one, all_of_it = (t.line(*place).summary.mean for t in (epochs, each, whole))
        assert counted > 100, method  # patience allows no earlier stop
        assert counted * one == pytest.approx(all_of_it, rel=1e-3)


def test_a_fit_that_waits_takes_wall_clock_time_but_no_processor_time(monkeypatch):
    class Waits(find("temperature")):
        def fit(self, *args, **kwargs):
            time.sleep(0.3)
            return super().fit(*args, **kwargs)

    monkeypatch.setattr(timing, "find", lambda name: Waits)
    unit = timing.TimingUnit("Arxiv", ("temperature",))
    metrics = unit.measure("temperature", make_large(SMALL))["metrics"]
    assert metrics["wall"] >= 0.3
    assert metrics["wall"] - metrics["seconds"] >= 0.25
