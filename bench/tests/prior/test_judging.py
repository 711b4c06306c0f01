"""Judged runs are rows like any others; what the table says of them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from past_run import past_run
from simi_mailbox.calibrators import GATS
from simi_mailbox_bench.prior import write_run
from simi_mailbox_bench.prior.judging import METRICS, file_units, judged_methods, marks, table
from simi_mailbox_bench.store import ResultStore

RESULTS = Path(__file__).parents[3] / "results"


@given(st.lists(st.floats(0.0001, 1.0), min_size=1, max_size=30))
def test_stars_follow_holm(p_values):
    # Adjusted as its definition says: the largest of (m − rank) p over the smaller ones.
    ordered = sorted(p_values)
    found = marks(p_values)
    for p, mark in zip(p_values, found, strict=True):
        last = max(i for i, other in enumerate(ordered) if other == p)
        first = min(i for i, other in enumerate(ordered) if other == p)
        adjusted = [
            max((len(ordered) - i) * ordered[i] for i in range(k + 1)) for k in (first, last)
        ]
        if max(adjusted) < 0.05:
            assert mark == "**"
        elif min(adjusted) >= 0.05:
            assert mark == ("*" if p < 0.05 else "")


def test_the_table_counts_and_averages(tmp_path):
    store = ResultStore(tmp_path / "rows.jsonl")
    for backbone in ("gcn", "gat"):
        for split in range(3):
            for method in judged_methods("learned"):
                prior = dict(method.overrides).get("prior")
                value = 0.4 if prior is None else 0.3 + 0.01 * split
                row = {
                    "key": f"{backbone} {split} {method.name} {prior}",
                    "dataset": "Cora",
                    "backbone": backbone,
                    "fold": 0,
                    "init": 0,
                    "split": split,
                    "method": method.name,
                    "settings": {"prior": prior},
                    "metrics": dict.fromkeys(METRICS, value),
                }
                store.append(row)
    text = table(store)
    assert "| Cora GCN | 3 | 40.00 | 40.00 | 40.00 | 31.00 | 31.00 | -9.00 ± 0.58** |" in text
    assert "-22.5 %; better in 2 of 2" in text
    errors, accuracy = text.split("### ACCURACY in %")
    assert "free − temperature" in accuracy
    assert "free − temperature" not in errors
    assert "-9.00 points; better in 0 of 2" in accuracy  # of accuracy, more is better
    assert (
        "| Cora GCN | 3 | 0.4000 | 0.4000 | 0.4000 | 0.3100 | 0.3100 | -0.0900 ± 0.0058** |" in text
    )


@pytest.mark.parametrize(("folder", "main"), [("prior", None), ("unseen", ())])
def test_the_published_tables_are_what_their_rows_say(folder, main):
    published = (RESULTS / folder / "table.md").read_text(encoding="utf-8")
    store = ResultStore(RESULTS / folder / "rows.jsonl")
    made = table(store) if main is None else table(store, main=main)
    assert published[published.index("One star") :] == made


def test_methods_that_stop_early_do_so_on_the_training_nodes(tmp_path, monkeypatch):
    """The hold-out handed to GATS decides when it stops: without it, half of the labels would."""
    train = np.arange(500, 560)
    run = replace(past_run(0, n=600, labels=100), train=train)
    write_run(run, tmp_path / "run.npz")
    seen = []
    fit = GATS.fit

    def keep(self, logits, y, **given):
        seen.append(given["early_stopping_mask"])
        return fit(self.set_params(epochs=1), logits, y, **given)

    monkeypatch.setattr(GATS, "fit", keep)
    (unit,) = file_units([tmp_path / "run.npz"], "learned", ["gats"])
    rows = list(unit.execute(lambda key: False))
    assert [row["method"] for row in rows][-1] == "gats"
    assert [held.tolist() for held in seen] == [train.tolist()]


def test_a_file_that_changed_is_judged_again(tmp_path):
    run = past_run(0, n=600, labels=100)
    keys = []
    for y in (run.y, np.roll(run.y, 1)):
        write_run(replace(run, y=y), tmp_path / "run.npz")
        (unit,) = file_units([tmp_path / "run.npz"], "learned")
        keys.append(set(unit.keys()))
    assert not keys[0] & keys[1]
