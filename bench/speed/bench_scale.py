"""Graphs beyond memory, from shards to shards, in a process that the system holds to its memory.

    python bench/speed/bench_scale.py                                   # 10⁷ nodes, 10⁸ edges
    python bench/speed/bench_scale.py --nodes 10_000_000 40_000_000     # and four times that
    python bench/speed/bench_scale.py --growth --memory 1.25GB          # 1, 2, 4, 8, 16 × 10⁵ nodes
    python bench/speed/bench_scale.py --nodes 3_000_000 --all           # all inputs, classes move

The graph is drawn in blocks and written as shards (float32 logits, int32 edges); then a new
process whose address space is limited (RLIMIT_AS) calibrates it with ``engine="disk"``. Ten edges
leave every node on average, seven of them to nodes of its own class. Printed are what it took, the
processor time of every pass, from these the costs of an edge, an entry and a number, and from
those the plan for papers100M in ``docs/scale.md``.
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
from typing import Any

import numpy as np

from simi_mailbox.scale.tiles import Plan, read_size

DEGREE, CLASSES, SHARD = 10, 16, 1_000_000
CALIBRATION, WIDTH = 100_000, 64


def make(folder: Path, nodes: int, width: int = 0, seed: int = 0) -> None:
    """Shards of a graph: class of node i is i mod K; logits are overconfident by a factor of two.

    ``width`` is that of a hidden layer, which then comes with training labels.
    """
    rng = np.random.default_rng(seed)
    for part in ("logits", "edges", *(["hidden"] if width else [])):
        (folder / part).mkdir(parents=True)
    labels, turn = np.empty(nodes, dtype=np.int16), rng.normal(size=(CLASSES, width))
    for number, start in enumerate(range(0, nodes, SHARD)):
        count = min(SHARD, nodes - start)
        own = (np.arange(start, start + count) % CLASSES).astype(np.int16)
        z = rng.standard_normal((count, CLASSES), dtype=np.float32)
        z[np.arange(count), own] += 1.5
        noise = rng.gumbel(size=z.shape).astype(np.float32)
        labels[start : start + count] = (2.0 * z + noise).argmax(1)
        np.save(folder / "logits" / f"{number:05d}.npy", 4.0 * z)
        if width:
            x = z @ turn.astype(np.float32) + rng.standard_normal((count, width), dtype=np.float32)
            np.save(folder / "hidden" / f"{number:05d}.npy", x.astype(np.float16))
        # Half the degree starts here, and each edge is written both ways.
        source = np.repeat(np.arange(start, start + count), DEGREE // 2)
        other = rng.integers(0, nodes, len(source))
        alike = other // CLASSES * CLASSES + source % CLASSES
        target = np.where(rng.random(len(source)) < 0.7, np.minimum(alike, nodes - 1), other)
        pairs = np.stack([source, target]).astype(np.int32)
        both = np.concatenate([pairs, pairs[::-1]], axis=1)
        np.save(folder / "edges" / f"{number:05d}.npy", both[:, rng.permutation(both.shape[1])])
    np.save(folder / "labels.npy", labels)
    some = rng.choice(nodes, 2 * min(CALIBRATION, nodes // 10), replace=False)
    np.save(folder / "calibration.npy", np.sort(some[::2]))
    if width:
        np.save(folder / "train.npy", np.sort(some[1::2]))


def run(folder: Path, out: Path, memory: str, limit: int) -> dict[str, Any]:
    """Calibrate in this process, which cannot have more than ``limit`` bytes."""
    if limit:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    from simi_mailbox import SimiMailbox
    from simi_mailbox.scale import calibrate

    times: dict[str, float] = {}
    last = [time.process_time(), ""]

    def progress(step: str, done: int, total: int) -> None:
        now = time.process_time()
        if last[1]:
            times[last[1]] = times.get(last[1], 0.0) + now - last[0]
        last[:] = [now, step]

    start = time.process_time()
    method = SimiMailbox(keep_classes=not (folder / "hidden").exists())
    given = {"engine": "disk", "memory": memory, "progress": progress}
    done = calibrate(folder, out, calibrator=method, **given)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **done.facts,
        "edges": sum(np.load(f, mmap_mode="r").shape[1] for f in (folder / "edges").iterdir()),
        "processor_seconds": time.process_time() - start,
        "peak_resident": used.ru_maxrss * 1024,
        "peak_address_space": _status("VmPeak"),
        "steps": {step: round(seconds, 2) for step, seconds in times.items()},
    }


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def measure(
    nodes: int, memory: str, limit: int, where: str | None, width: int, ready: Path | None
) -> dict[str, Any]:
    """Make the shards, calibrate them in a process of its own, and remove everything.

    Shards that are ``ready``, or made there, stay.
    """
    base = Path(tempfile.mkdtemp(dir=where, prefix="bench-scale-"))
    shards = base / "shards" if ready is None else ready / str(nodes)
    try:
        if not (shards / "calibration.npy").exists():
            make(shards, nodes, width)
        case = json.dumps([str(shards), str(base / "out"), memory, limit])
        command = [sys.executable, __file__, "--case", case]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(done.returncode)
        return dict(json.loads(done.stdout))
    finally:
        shutil.rmtree(base)


def costs(found: dict[str, Any]) -> dict[str, float]:
    """Processor seconds of an edge as given, of an entry of the graph, and of a number."""
    steps = dict(found["steps"])
    sorting, merging, marking = (steps.pop(s) for s in ("sorting edges", "cutting tiles", "graph"))
    looking = steps.pop("neighbours") + steps.pop("two steps away")
    labels = steps.pop("labels two steps away")
    entries, numbers = found["entries"], found["nodes"] * found["classes"]
    return {
        "sorting, per edge as given": sorting / found["edges"],
        "merging into tiles, per entry": merging / entries,
        "fingerprint of the graph, per entry": marking / entries,
        "neighbours' predictions, per entry and class": looking / entries / (found["classes"] + 1),
        "neighbours' labels, per entry": labels / entries,
        "everything else, per node and class": sum(steps.values()) / numbers,
    }


def show_plan(each: dict[str, float]) -> None:
    """What papers100M would take by these costs: computed, not measured."""
    nodes, classes, edges = 111_059_956, 172, 1_615_685_872
    entries = 2 * edges
    sort, merge, mark, look, second, rest = each.values()
    hours = {
        "sorting": sort * edges,
        "merging": merge * entries,
        "fingerprint (one process)": mark * entries,
        "neighbours' predictions": look * entries * (classes + 1),
        "neighbours' labels": second * entries,
        "everything else": rest * nodes * classes,
    }
    print(f"papers100M: {nodes:,} nodes, {classes} classes, {entries:,} entries")
    for name, seconds in {**hours, "all": sum(hours.values())}.items():
        print(f"  {name:<38}{seconds:>9,.0f} s of one processor")
    for memory in ("16GB", "64GB"):
        plan = Plan.of(nodes, classes, read_size(memory))
        bands = plan.bands(classes + 1, 8 * (classes + 1))
        read = len(bands) * nodes * (classes + 1) * 4 + 8 * entries
        print(
            f"  {memory}: {len(plan.blocks)} blocks of {plan.rows:,} nodes in {len(bands)} bands, "
            f"{read / 1e12:.2f} TB read by the first neighbour pass"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000_000])
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--limit", type=float, default=2e9, help="RLIMIT_AS in bytes; 0 for none")
    parser.add_argument("--where", help="folder for shards and results")
    parser.add_argument("--ready", type=Path, help="folder for shards that are made once, and kept")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--all", action="store_true", help="training labels, hidden layer, free")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.case:
        folder, out, memory, limit = json.loads(chosen.case)
        print(json.dumps(run(Path(folder), Path(out), memory, int(limit))))
        return
    sizes = [100_000 * 2**k for k in range(5)] if chosen.growth else chosen.nodes
    seconds, width = [], WIDTH if chosen.all else 0
    for nodes in sizes:
        found = measure(nodes, chosen.memory, int(chosen.limit), chosen.where, width, chosen.ready)
        seconds.append(found["processor_seconds"])
        print(json.dumps({**found, "load": os.getloadavg()[0]}), flush=True)
    for name, cost in costs(found).items():
        print(f"{name:<40}{cost * 1e9:>9.1f} ns")
    show_plan(costs(found))
    if len(sizes) > 1:
        every, last = (np.polyfit(np.log(sizes[-k:]), np.log(seconds[-k:]), 1)[0] for k in (9, 3))
        print(f"processor time grows like nodes to the power of {every:.2f}", end="")
        print(f", over the last three sizes {last:.2f}")


if __name__ == "__main__":
    main()
