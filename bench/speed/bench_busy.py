"""How much slower `fit` is on a machine whose cores are all taken: every trained method on Cora.

    python bench/speed/bench_busy.py

One process per core does nothing but count. A fit that needs one core then gets about half of
one; a fit whose threads wait for each other gets far less. Ratios of wall times in one run; at most
4 is asked for.
Wants an otherwise idle machine, and a cached GCN on Cora (or trains one).
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
import warnings

from simi_mailbox import calibrators
from simi_mailbox_bench.backbones import RunCache, RunKey, settings_for

METHODS = (
    "simi-mailbox",
    "simi-mailbox-paper",
    "cagcn",
    "gats",
    "gets",
    "dcgc",
    "wats",
    "simcalib",
    "lccal",
)
REPEATS = 3
LIMIT = 4.0


def count() -> None:
    """Keep a core busy."""
    number = 0
    while True:
        number += 1


def seconds(name: str, run, graph) -> float:
    """Median wall time of a fit with default settings."""
    method = calibrators.get(name)
    offered = {"graph": graph.graph, "features": graph.x, "forward": run.forward}
    inputs = {key: offered[key] for key in method.required_inputs}
    if "forward" in inputs:
        inputs["forward"] = run.forward()
    if method.holdout:
        inputs["early_stopping_mask"] = run.split.train
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        method().fit(run.logits, graph.y, mask=run.split.val, **inputs)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """Measure idle and busy, print ratios, fail beyond the limit."""
    from simi_mailbox_bench.datasets import load

    warnings.simplefilter("ignore")
    graph = load("Cora")
    run = RunCache().get(RunKey("Cora", "gcn"), settings_for("Cora"))
    names = sys.argv[1:] or METHODS
    idle = {name: seconds(name, run, graph) for name in names}
    workers = [
        multiprocessing.Process(target=count, daemon=True) for _ in range(os.cpu_count() or 1)
    ]
    for worker in workers:
        worker.start()
    busy = {name: seconds(name, run, graph) for name in names}
    for worker in workers:
        worker.terminate()
    print(f"{'method':20} {'idle':>8} {'busy':>8}  ratio (load before: {os.getloadavg()[0]:.1f})")
    for name in names:
        print(f"{name:20} {idle[name]:7.2f}s {busy[name]:7.2f}s  {busy[name] / idle[name]:.1f}")
    worst = max(busy[name] / idle[name] for name in names)
    sys.exit(f"{worst:.1f} times slower than idle" if worst > LIMIT else 0)


if __name__ == "__main__":
    main()
