"""What happens to a calibration of shards when the machine does not hold?

    python bench/speed/bench_scale_faults.py            # about two minutes of one processor
    python bench/speed/bench_scale_faults.py --kills 100 --only-kills

The disk engine is given a disk that is too small (a tmpfs, for which one must be root); the
scheduler of a Dask cluster is killed in mid-job, and a worker of the next; the disk engine is
killed (SIGKILL) at random moments, also while it clears up, and twenty runs start on one folder.
Each time the same command is given again. Printed is what it said, and whether the answer in the
end is that of a quiet run, bit for bit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
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


def make(folder: Path, nodes: int = NODES) -> None:
    """Shards of a graph of random edges."""
    rng = np.random.default_rng(0)
    for part in ("logits", "edges"):
        (folder / part).mkdir(parents=True)
    z = rng.normal(size=(nodes, CLASSES)).astype(np.float32) * 3
    for number, rows in enumerate(np.array_split(z, 4)):
        np.save(folder / "logits" / f"{number}.npy", rows)
    edges = rng.integers(0, nodes, size=(2, nodes * DEGREE // 2)).astype(np.int32)
    for number, some in enumerate(np.array_split(edges, 4, axis=1)):
        np.save(folder / "edges" / f"{number}.npy", some)
    np.save(folder / "labels.npy", (z / 2 + rng.gumbel(size=z.shape)).argmax(1))
    np.save(folder / "calibration.npy", rng.choice(nodes, min(5000, nodes // 4), replace=False))


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


def forked(shards: Path, out: Path) -> multiprocessing.process.BaseProcess:
    """A run in a process of its own that need not import anything; small blocks, so many files."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(shards, out))
    process.start()
    return process


def _run(shards: Path, out: Path) -> None:
    from simi_mailbox import scale

    scale.tiles.LARGEST_BLOCK = 512
    try:
        scale.calibrate(shards, out, engine="disk")
    except BlockingIOError as error:
        sys.exit(75 if "another run works in" in str(error) else 1)


def killed(base: Path, kills: int) -> None:
    """Kill the disk engine at random moments, every third time while it clears up in the end."""
    import simi_mailbox.scale.run  # forks need not import it  # noqa: F401

    shards = base / "small-graph"
    make(shards, 6_000)
    forked(shards, base / "expected").join()  # compiles what is compiled
    shutil.rmtree(base / "expected")
    began, process = time.perf_counter(), forked(shards, base / "expected")
    while not (base / "expected" / "manifest.json").exists():
        time.sleep(1e-4)
    usual = time.perf_counter() - began
    process.join()
    clearing, expected = time.perf_counter() - began - usual, answer(base / "expected")
    print(f"a run of {usual:.1f} s, of which it clears up for {clearing:.2f} s")
    rng, over, in_the_end, wrong = random.Random(0), 0, 0, 0
    for number in range(kills):
        out = base / "killed"
        shutil.rmtree(out, ignore_errors=True)
        for _ in range(1 + number % 2):  # every second time what was begun anew, too
            process = forked(shards, out)
            if number % 3:
                process.join(rng.uniform(0.02, 1.0) * usual)
            else:
                while process.is_alive() and not (out / "manifest.json").exists():
                    time.sleep(1e-4)
                time.sleep(rng.uniform(0.0, clearing))
            over += not process.is_alive()
            process.kill()
            process.join()
        in_the_end += (out / "manifest.json").exists() and (out / ".simi-mailbox").exists()
        half = [p for p in out.rglob("*.npy") if not p.name.startswith(".") and not _whole(p)]
        process = forked(shards, out)
        process.join(60 + 20 * usual)
        stuck = process.is_alive()
        process.kill()
        process.join()
        if (
            stuck
            or process.exitcode
            or half
            or (out / ".simi-mailbox").exists()
            or answer(out) != expected
        ):
            wrong += 1
            print(f"  kill {number}: exit {process.exitcode}, stuck: {stuck}, half-written: {half}")
    print(
        f"kill -9, {kills} times ({in_the_end} left a folder that was being cleared, {over} runs "
        f"were over before): {wrong} with another answer or stuck"
    )
    together(shards, base, expected, 20)


def together(shards: Path, base: Path, expected: bytes, count: int) -> None:
    """Many starts on one folder: one runs, the others say so."""
    out = base / "together"
    started = [forked(shards, out) for _ in range(count)]
    for process in started:
        process.join()
    codes = [process.exitcode for process in started]
    print(
        f"{count} starts on one folder: {codes.count(0)} ran, {codes.count(75)} said that another "
        f"run works there, {count - codes.count(0) - codes.count(75)} failed; "
        f"{verdict(out, expected)}"
    )


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
            place = out / ".simi-mailbox" / ("run" if victim == "scheduler" else "near")
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
    parser.add_argument("--only-kills", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-faults-") as name:
        base = Path(name)
        if chosen.only_kills:
            killed(base, chosen.kills)
            return
        shards = base / "shards"
        make(shards)
        began = time.perf_counter()
        print("quietly:", ended(start(shards, base / "quiet", "--engine", "disk")))
        usual, expected = time.perf_counter() - began, answer(base / "quiet")
        count = len(list((base / "quiet" / "probabilities").iterdir()))
        print(f"  {count} shards of results, {usual:.0f} s")
        full_disk(shards, base, expected)
        lost(shards, base, expected)
        killed(base, chosen.kills)


if __name__ == "__main__":
    main()
