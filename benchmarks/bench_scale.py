"""Graphs beyond memory, from shards to shards, in a process that the system holds to its memory.

    python benchmarks/bench_scale.py                               # 10⁷ nodes, 10⁸ directed edges
    python benchmarks/bench_scale.py --nodes 40_000_000            # four times that
    python benchmarks/bench_scale.py --growth --memory 1.25GB      # 1, 2, 4, 8, 16 × 10⁵ nodes

The graph is drawn in blocks and written as shards (float32 logits, int32 edges); then a fresh
process whose address space is limited (RLIMIT_AS) calibrates it with ``engine="disk"``. Ten edges
leave every node on average, seven of them to nodes of its own class.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

DEGREE, CLASSES, SHARD = 10, 16, 1_000_000
CALIBRATION = 100_000


def make(folder: Path, nodes: int, seed: int = 0) -> None:
    """Shards of a graph: class of node i is i mod K; logits are too sure by a factor of two."""
    rng = np.random.default_rng(seed)
    for part in ("logits", "edges"):
        (folder / part).mkdir(parents=True)
    labels = np.empty(nodes, dtype=np.int16)
    for number, start in enumerate(range(0, nodes, SHARD)):
        count = min(SHARD, nodes - start)
        own = (np.arange(start, start + count) % CLASSES).astype(np.int16)
        z = rng.standard_normal((count, CLASSES), dtype=np.float32)
        z[np.arange(count), own] += 1.5
        noise = rng.gumbel(size=z.shape).astype(np.float32)
        labels[start : start + count] = (2.0 * z + noise).argmax(1)
        np.save(folder / "logits" / f"{number:05d}.npy", 4.0 * z)
        # Half the degree starts here, and each edge is written both ways.
        source = np.repeat(np.arange(start, start + count), DEGREE // 2)
        other = rng.integers(0, nodes, len(source))
        alike = other // CLASSES * CLASSES + source % CLASSES
        target = np.where(rng.random(len(source)) < 0.7, np.minimum(alike, nodes - 1), other)
        pairs = np.stack([source, target]).astype(np.int32)
        both = np.concatenate([pairs, pairs[::-1]], axis=1)
        np.save(folder / "edges" / f"{number:05d}.npy", both[:, rng.permutation(both.shape[1])])
    np.save(folder / "labels.npy", labels)
    some = rng.choice(nodes, min(CALIBRATION, nodes // 10), replace=False)
    np.save(folder / "calibration.npy", np.sort(some))


def run(folder: Path, out: Path, memory: str, limit: int) -> dict[str, float]:
    """Calibrate in this process, which cannot have more than ``limit`` bytes."""
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    from simi_mailbox.scale import calibrate

    times: dict[str, float] = {}
    last = [time.perf_counter(), ""]

    def progress(step: str, done: int, total: int) -> None:
        now = time.perf_counter()
        if last[1]:
            times[last[1]] = times.get(last[1], 0.0) + now - last[0]
        last[:] = [now, step]

    start = time.process_time()
    done = calibrate(folder, out, engine="disk", memory=memory, progress=progress)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **done.facts,
        "processor_seconds": time.process_time() - start,
        "peak_resident": used.ru_maxrss * 1024,
        "peak_address_space": _status("VmPeak"),
        "steps": {step: round(seconds, 1) for step, seconds in times.items()},
    }


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def measure(nodes: int, memory: str, limit: int, where: str | None, keep: bool) -> dict[str, float]:
    """Make the shards, calibrate them in a process of its own, and remove everything."""
    base = Path(tempfile.mkdtemp(dir=where, prefix="bench-scale-"))
    try:
        start = time.perf_counter()
        make(base / "shards", nodes)
        made = time.perf_counter() - start
        case = json.dumps([str(base / "shards"), str(base / "out"), memory, limit])
        command = [sys.executable, __file__, "--case", case]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(done.returncode)
        return {"seconds_to_make": round(made, 1), **json.loads(done.stdout)}
    finally:
        if not keep:
            shutil.rmtree(base)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--limit", type=float, default=2e9, help="RLIMIT_AS in bytes; 0 for none")
    parser.add_argument("--where", help="folder for shards and results")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.case:
        folder, out, memory, limit = json.loads(chosen.case)
        print(json.dumps(run(Path(folder), Path(out), memory, int(limit))))
        return
    sizes = [100_000 * 2**k for k in range(5)] if chosen.growth else [chosen.nodes]
    seconds = []
    for nodes in sizes:
        found = measure(nodes, chosen.memory, int(chosen.limit), chosen.where, chosen.keep)
        seconds.append(found["processor_seconds"])
        print(json.dumps({**found, "load": os.getloadavg()[0]}), flush=True)
    if len(sizes) > 1:
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        print(f"processor time grows like nodes to the power of {slope:.2f}")


if __name__ == "__main__":
    main()
