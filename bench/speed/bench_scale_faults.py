"""What happens to a calibration of shards when the machine does not hold?

    python bench/speed/bench_scale_faults.py            # about two minutes of one processor
    python bench/speed/bench_scale_faults.py --kills 50

The disk engine is given a disk that is too small (a tmpfs, for which one must be root); the
scheduler of a Dask cluster is killed in mid-job, and a worker of the next; the disk engine is
killed (SIGKILL) at random moments. Each time the same command is given again. Printed is what it
said, and whether the answer in the end is that of a quiet run, bit for bit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

NODES, CLASSES, DEGREE = 250_000, 8, 6


def make(folder: Path) -> None:
    """Shards of a graph of random edges."""
    rng = np.random.default_rng(0)
    for part in ("logits", "edges"):
        (folder / part).mkdir(parents=True)
    z = rng.normal(size=(NODES, CLASSES)).astype(np.float32) * 3
    for number, rows in enumerate(np.array_split(z, 4)):
        np.save(folder / "logits" / f"{number}.npy", rows)
    edges = rng.integers(0, NODES, size=(2, NODES * DEGREE // 2)).astype(np.int32)
    for number, some in enumerate(np.array_split(edges, 4, axis=1)):
        np.save(folder / "edges" / f"{number}.npy", some)
    np.save(folder / "labels.npy", (z / 2 + rng.gumbel(size=z.shape)).argmax(1))
    np.save(folder / "calibration.npy", rng.choice(NODES, 5000, replace=False))


def command(shards: Path, out: Path, *options: str) -> list[str]:
    arguments = ["calibrate", str(shards), "--out", str(out), "--memory", "1.16GB", *options]
    return [sys.executable, "-m", "simi_mailbox", *arguments]


def start(shards: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    given = command(shards, out, *options)
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    """Exit status and last line of a command."""
    said = process.communicate()[0].strip().splitlines()
    return f"exit {process.returncode}: {said[-1] if said else ''}"


def answer(out: Path) -> bytes:
    """All probabilities; a cluster cuts them into other shards than one process."""
    return b"".join(np.load(path).tobytes() for path in sorted((out / "probabilities").iterdir()))


def verdict(out: Path, expected: bytes) -> str:
    return "same bits" if answer(out) == expected else "ANOTHER ANSWER"


def killed(shards: Path, base: Path, expected: bytes, kills: int, usual: float) -> None:
    """Kill the disk engine at random moments; every second time what was begun anew, too."""
    rng, finished, others = random.Random(0), 0, 0
    for number in range(kills):
        out = base / "killed"
        shutil.rmtree(out, ignore_errors=True)
        for _ in range(1 + number % 2):
            process = start(shards, out, "--engine", "disk")
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(rng.uniform(0.2, 1.0) * usual)
                finished += 1
            process.kill()
            process.communicate()
        half = [p for p in out.rglob("*.npy") if not p.name.startswith(".") and not _whole(p)]
        process = start(shards, out, "--engine", "disk")
        said = ended(process)
        if process.returncode or half or answer(out) != expected:
            others += 1
            print(f"  {said}; half-written: {half}")
    print(f"kill -9, {kills} times ({finished} were over before): {others} with another answer")


def _whole(path: Path) -> bool:
    try:
        np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        return False
    return True


def full_disk(shards: Path, base: Path, expected: bytes) -> None:
    """Results and work on a disk that is too small, then on one that is not."""
    place = base / "small"
    place.mkdir()
    size = len(expected)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={3 * size}", "tmpfs", str(place)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        print("a full disk: not tried, only root may mount a tmpfs")
        return
    try:
        for more in (0, 40):
            remount = ["mount", "-o", f"remount,size={(3 + more) * size}", str(place)]
            subprocess.run(remount, check=True)
            said = ended(start(shards, place / "out", "--engine", "disk"))
            print(f"a {'full' if not more else 'larger'} disk: {said.replace(str(base), '…')}")
            if not more:
                assert not (place / "out" / "manifest.json").exists()
        print(f"  {verdict(place / 'out', expected)}")
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def cluster(base: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers as processes of their own: address, and processes."""
    note, quiet = base / f"scheduler-{time.time_ns()}.json", subprocess.DEVNULL
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    dask += ["--scheduler-file", str(note), "--port", "0", "--no-dashboard"]
    processes = [subprocess.Popen(dask, stdout=quiet, stderr=quiet)]
    try:
        while not note.exists():
            time.sleep(0.1)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file"]
        worker += [str(note), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        worker += ["--local-directory", str(base), "--death-timeout", "60"]
        processes += [
            subprocess.Popen(worker, stdout=quiet, stderr=quiet, cwd=base) for _ in range(workers)
        ]
        yield json.loads(note.read_text())["address"], processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def lost(shards: Path, base: Path, expected: bytes) -> None:
    """The scheduler dies; another one goes on, and loses a worker."""
    out = base / "dask"
    for victim in ("scheduler", "worker"):
        with cluster(base, 3) as (address, processes):
            process = start(shards, out, "--scheduler", address)
            place = out / ".work" / ("run" if victim == "scheduler" else "near")
            while process.poll() is None and not (place.exists() and len(list(place.iterdir()))):
                time.sleep(0.05)
            gone = processes[0 if victim == "scheduler" else -1]
            os.kill(gone.pid, signal.SIGKILL)
            print(f"a Dask {victim} killed: {ended(process)}")
    print(f"  {verdict(out, expected)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-faults-") as name:
        base = Path(name)
        shards = base / "shards"
        make(shards)
        began = time.perf_counter()
        print("quietly:", ended(start(shards, base / "quiet", "--engine", "disk")))
        usual, expected = time.perf_counter() - began, answer(base / "quiet")
        count = len(list((base / "quiet" / "probabilities").iterdir()))
        print(f"  {count} shards of results, {usual:.0f} s")
        full_disk(shards, base, expected)
        lost(shards, base, expected)
        killed(shards, base, expected, chosen.kills, usual)


if __name__ == "__main__":
    main()
