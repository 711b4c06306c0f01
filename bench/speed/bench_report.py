"""How long a report of a large graph takes and how large it is.

    python bench/speed/bench_report.py --nodes 170000 --classes 40

The target: 170,000 nodes and 40 classes in under 20 s, under 3 MB. Ends with status 1 if missed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from simi_mailbox.graph import Graph
from simi_mailbox.report import write_report

MOST_SECONDS, MOST_BYTES = 20.0, 3_000_000


def problem(
    nodes: int, classes: int, degree: int, seed: int
) -> tuple[np.ndarray, Graph, np.ndarray]:
    """Logits, graph and labels: neighbours share classes, and the model is over-confident."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, nodes)
    order = np.argsort(y, kind="stable")
    place = np.empty(nodes, dtype=np.int64)
    place[order] = np.arange(nodes)
    source = rng.integers(0, nodes, nodes * degree // 2)
    near = order[(place[source] + rng.integers(1, 50, source.size)) % nodes]
    far = rng.integers(0, nodes, source.size)
    target = np.where(rng.random(source.size) < 0.7, near, far)
    logits = rng.normal(size=(nodes, classes)).astype(np.float32)
    logits[np.arange(nodes), y] += rng.gamma(2.0, 1.2, nodes).astype(np.float32)
    return 1.8 * logits, Graph.from_edges(np.stack([source, target]), nodes), y


def main() -> int:
    """Make one report and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=170_000)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--degree", type=int, default=14)
    parser.add_argument("--methods", default="temperature,simi-mailbox")
    parser.add_argument("--keep", type=Path, help="write the report here instead of discarding it")
    options = parser.parse_args()
    logits, graph, y = problem(options.nodes, options.classes, options.degree, seed=0)
    order = np.random.default_rng(1).permutation(options.nodes)
    cut = options.nodes // 6
    with tempfile.TemporaryDirectory() as folder:
        started, cpu = time.perf_counter(), time.process_time()
        path = write_report(
            options.keep or Path(folder) / "report.html",
            logits=logits,
            graph=graph,
            y=y,
            calibration=order[:cut],
            test=order[cut:],
            methods=options.methods.split(","),
            title=f"{options.nodes:,} nodes, {options.classes} classes",
        )
        seconds, size = time.perf_counter() - started, path.stat().st_size
        cpu = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{options.nodes:,} nodes, {graph.num_entries:,} entries, {options.classes} classes, "
        f"judged on {options.nodes - cut:,}: {seconds:.1f} s ({cpu:.1f} s of processor), "
        f"{size / 1e6:.2f} MB, peak memory {peak:.0f} MB"
    )
    return int(cpu > MOST_SECONDS or size > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
