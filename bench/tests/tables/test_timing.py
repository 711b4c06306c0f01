"""The time table, on a small graph of exactly the size asked for."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simi_mailbox_bench import runner
from simi_mailbox_bench.methods import find
from simi_mailbox_bench.store import ResultStore
from simi_mailbox_bench.tables import Selection, get, timing
from simi_mailbox_bench.tables.timing import SIZES, LargeSize, make_large

SMALL = LargeSize(300, 2000, 4, 150, 100)


def test_sizes_are_those_of_the_graphs() -> None:
    from simi_mailbox_bench.datasets.catalogue import find

    for name, size in SIZES.items():
        entry = find(name)
        assert (size.nodes, size.entries, size.classes) == (
            entry.nodes,
            entry.entries,
            entry.classes,
        )


def test_a_synthetic_graph_has_exactly_its_size() -> None:
    made = make_large(SMALL, seed=3)
    assert (made.graph.num_nodes, made.graph.num_entries) == (300, 2000)
    assert made.logits.shape == (300, 4)
    assert (len(made.train), len(made.val)) == (150, 100)
    assert not set(made.train) & set(made.val)
    rows, columns = made.graph.rows().numpy(), made.graph.indices.numpy()
    assert (made.y[rows] == made.y[columns]).mean() > 0.5
    assert 0.5 < (made.logits.argmax(axis=1) == made.y).mean() < 0.97
    assert np.array_equal(make_large(SMALL, seed=3).logits, made.logits)


def test_every_method_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(timing.SIZES, "Arxiv", SMALL)
    store = ResultStore(tmp_path / "rows.jsonl")
    table, selection = get("t2b"), Selection(datasets=("Arxiv",), runs=1)
    report = runner.run(runner.plan(table.units(selection), store), store)
    assert report.failures == []
    result = table.result(store, selection)
    assert result.methods() == list(table.methods)
    assert all(line.summary is not None and line.summary.mean > 0 for line in result.lines)
    gats = result.line("Arxiv size", "synthetic", "gats")
    assert gats is not None
    assert gats.printed is not None
    assert gats.printed.mean == 48.89
    assert table.units(selection)[0].pending(store) is None
    by_wall = get("t2b-wall").result(store, selection)
    assert by_wall.methods() == list(table.methods)
    for line, other in zip(result.lines, by_wall.lines, strict=True):
        assert line.printed == other.printed
        assert line.summary is not None
        assert other.summary is not None
        assert other.summary.mean > 0
    epochs, each = (get(f"t2b-{name}").result(store, selection) for name in ("epochs", "per-epoch"))
    for method in ("cagcn", "gats", "simi-mailbox-paper"):
        counted, one, whole = (
            table.line("Arxiv size", "synthetic", method).summary.mean  # type: ignore[union-attr]
            for table in (epochs, each, result)
        )
        assert counted > 100, method  # patience allows no earlier stop
        assert counted * one == pytest.approx(whole, rel=1e-3)


def test_a_fit_that_waits_takes_wall_clock_time_but_no_processor_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Waits(find("temperature")):
        def fit(self, *args: Any, **kwargs: Any) -> Any:
            time.sleep(0.3)
            return super().fit(*args, **kwargs)

    monkeypatch.setattr(timing, "find", lambda name: Waits)
    unit = timing.TimingUnit("Arxiv", (("temperature", 0),))
    metrics = unit.measure(("temperature", 0), make_large(SMALL))["metrics"]
    assert metrics["wall"] >= 0.3
    assert metrics["wall"] - metrics["seconds"] >= 0.25
