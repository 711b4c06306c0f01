"""Do stored rows come out again? Re-runs some of them and prints the largest difference.

    python bench/speed/bench_rows.py --store results/rows.jsonl --rows 30 --datasets Digits,Cora

A trained network is not the same to the last bit on every processor, so a row is re-run only if it
was measured on the very logits that are cached here; rows that do not tell their logits (older
ones) are counted. Methods take turns. Ends with 1 if a metric differs by more than 1e-9.
"""

from __future__ import annotations

import argparse
import functools
from collections import Counter, defaultdict
from itertools import chain, islice, zip_longest
from typing import Any

import torch

from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey, digest
from simi_mailbox_bench.calibration import CalibrationUnit
from simi_mailbox_bench.methods import Method
from simi_mailbox_bench.store import ResultStore, Row

TOLERANCE = 1e-9
PLACE = ("dataset", "backbone", "protocol", "split", "fold", "init")


@functools.cache
def cached_digest(run: RunKey) -> str:
    found = RunCache().find(run) if run in RunCache() else None
    return "" if found is None else digest(found.logits)


def run_of(row: Row) -> RunKey:
    return RunKey(*(row[name] for name in PLACE))


def again(row: Row) -> Any:
    """The row as this code measures it."""
    method = Method.of(row["method"], **row["settings"])
    unit = CalibrationUnit(run_of(row), (method,), row["evaluation"], row["measure"])
    (made,) = unit.execute(lambda key: False)
    return made


def difference(old: Row, new: Any) -> float:
    """Largest difference of a metric; infinite where one is missing or could not be made."""
    if not isinstance(new, dict):
        print(f"failed: {new.label}: {new.error}")
        return float("inf")
    pairs = [(old["metrics"][name], new["metrics"].get(name)) for name in old["metrics"]]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    lost = any((a is None) != (b is None) for a, b in pairs)
    return float("inf") if lost else max((abs(a - b) for a, b in known), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--store", default="results/rows.jsonl")
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--datasets", default="Digits,Cora")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = options.datasets.split(",")
    rows = [
        row
        for row in ResultStore(options.store).rows()
        if row.get("dataset") in wanted and "evaluation" in row and row["backbone"] != "gpn"
    ]
    count: Counter[str] = Counter()
    by_method: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if "logits" not in row:
            count["that do not tell their logits"] += 1
        elif cached_digest(run_of(row)) != row["logits"]:
            count["on logits that are not cached here"] += 1
        else:
            by_method[row["method"]].append(row)
    turns = chain.from_iterable(zip_longest(*by_method.values()))
    worst: dict[str, float] = defaultdict(float)
    done: Counter[str] = Counter()
    for row in islice((row for row in turns if row is not None), options.rows):
        worst[row["method"]] = max(worst[row["method"]], difference(row, again(row)))
        done[row["method"]] += 1
    for method, largest in sorted(worst.items()):
        print(f"{method:24s} {done[method]:3d} rows, largest difference {largest:.3g}")
    for reason, number in count.items():
        print(f"left out: {number} rows {reason}")
    total = max(worst.values(), default=0.0)
    print(f"{done.total()} rows over {len(done)} methods, largest difference {total:.3g}")
    return 1 if total > TOLERANCE else 0


if __name__ == "__main__":
    raise SystemExit(main())
