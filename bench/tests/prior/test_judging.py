"""Judged runs are rows like any others; what the table says of them."""

from dataclasses import replace

import numpy as np

from past_run import past_run
from simi_mailbox.calibrators import GATS
from simi_mailbox_bench.prior import write_run
from simi_mailbox_bench.prior.judging import METRICS, file_units, judged_methods, table
from simi_mailbox_bench.store import ResultStore


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
    text = table(store, [row["key"] for row in store.rows()])
    assert text.count("| Cora | GCN | temperature | 40.00 ± 0.00 | 3 |") == len(METRICS) - 2
    pair = "-9.00* [-11.48, -6.52] 3/3"  # ± 4.303 standard errors of 0.577
    assert f"| Cora | GCN | learned prior | 31.00 ± 0.82 | 3 | {pair} |" in text
    assert "| Cora | GAT | classes free | 0.3100 ± 0.0082 | 3 | -0.0900* [-0.1148, " in text


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
