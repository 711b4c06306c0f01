"""What one calibration costs on real graphs, in processor seconds of one thread.

    OMP_NUM_THREADS=1 python bench/speed/bench_fit.py

Trained GCNs of the run cache; as the README calls them: edges in, probabilities of all nodes out.
The best of three, after one to warm up. GATS is fitted to its own stop, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simi_mailbox import calibrators
from simi_mailbox_bench.backbones.cached_runs import RunCache, load_logits, runs

GRAPHS = ("Cora", "Computers", "Physics")
METHODS = {"temperature": 3, "simi-mailbox": 3, "gats": 1}


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Processor time, best of a few runs, after one to warm up if there are several."""
    times = []
    for _ in range(repeats + (repeats > 1)):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times[repeats > 1 :])


@dataclass(frozen=True)
class Work:
    """Fit and predict once."""

    method: str
    source: Any

    def __call__(self) -> object:
        data, split, logits = self.source.dataset, self.source.split, self.source.logits
        edges = data.graph.edge_index()
        more = {"train_mask": split.train} if self.method == "gats" else {}
        cal = calibrators.get(self.method)()
        cal.fit(logits, data.y, graph=edges, mask=split.val, **more)
        return cal.predict_proba(logits, graph=edges)


def main() -> None:
    """Print one line for each graph."""
    print(f"{'graph':10} {'nodes':>7} {'edges':>8}  " + "  ".join(f"{m:>12}" for m in METHODS))
    for name in GRAPHS:
        run = runs(name, "gcn", "folds", 1)[0]
        if run not in RunCache():
            print(f"{name:10} not cached: simi-mailbox bench table1-5 --datasets {name}")
            continue
        source = load_logits(run)
        took = [seconds(Work(method, source), times) for method, times in METHODS.items()]
        graph = source.dataset.graph
        told = "  ".join(f"{t:10.2f} s" for t in took)
        print(f"{name:10} {graph.num_nodes:7,} {graph.num_entries // 2:8,}  {told}", flush=True)


if __name__ == "__main__":
    main()
