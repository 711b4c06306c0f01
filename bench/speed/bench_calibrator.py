"""Fit and predict at the size of ogbn-arxiv: the exact solver against Adam, and peak memory.

    python bench/speed/bench_calibrator.py            # Adam's time from 60 epochs, scaled up
    python bench/speed/bench_calibrator.py --full     # all 2,000 epochs
    python bench/speed/bench_calibrator.py --beside ../older/src    # without Numba, two versions

All run in one process on the same data, by the clock, as the README calls them: edges in, and
probabilities of all nodes out; what counts are ratios, on an idle machine. Memory is what is held
at once beyond logits, labels and graph, after a first run that loads and compiles: of ``fit``
alone, and of both with the returned probabilities, which are 1.0 × the logits. The C library is
told to give back what is freed (it would keep it for later). ``--beside`` names the source of
another version, that which ``git worktree add ../older 71e7c11`` leaves: processes of both take
turns, without Numba.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from simi_mailbox import Graph, SimiMailbox, SimiMailboxPaper, TemperatureScaling
from simi_mailbox.adam import adam_path
from simi_mailbox.mailbox import mailbox
from simi_mailbox.temperature import ConfidenceCurve, CrossEntropy, PaperLoss

NODES, EDGES, CLASSES, LABELLED, GROUPS = 169_343, 1_157_799, 40, 29_799, 15
EPOCHS = 2000
Method = SimiMailbox | SimiMailboxPaper | TemperatureScaling


def make_problem(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random logits on a graph with heavy-tailed degrees, labels at temperature two."""
    rng = np.random.default_rng(seed)
    weight = rng.pareto(1.5, NODES) + 1
    ends = rng.choice(NODES, EDGES, p=weight / weight.sum()), rng.integers(0, NODES, EDGES)
    logits = (rng.normal(size=(NODES, CLASSES)) * 2).astype(np.float32)
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)
    mask = rng.choice(NODES, LABELLED, replace=False)
    return logits, y, np.stack(ends), mask


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Wall-clock time, best of a few runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak_above_start(work: Callable[[], object]) -> int:
    """Bytes by which the process grew at most while ``work`` ran (Linux)."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # gives back what was freed, or it would hide a peak
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = _status("VmRSS")
    result = work()
    peak = _status("VmHWM")
    del result
    return peak - before


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def beside(other: Path, rounds: int = 4) -> None:
    """Compare with another version in processes that take turns."""
    ours = Path(__file__).resolve().parents[2] / "src"
    found: dict[Path, list[float]] = {other.resolve(): [], ours: []}
    for _ in range(rounds):
        for source, times in found.items():
            env = {**os.environ, "PYTHONPATH": str(source)}
            command = [sys.executable, __file__, "--once"]
            done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
            times.append(float(done.stdout))
    theirs, mine = (min(times) for times in found.values())
    print(f"SimiMailbox, there  {theirs:8.3f} s")
    print(f"SimiMailbox, here   {mine:8.3f} s   {mine / theirs:.2f} ×")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="run all of Adam's epochs")
    parser.add_argument("--memory", action="store_true", help="peak memory alone")
    parser.add_argument("--beside", type=Path, help="source of another version")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.beside:
        beside(args.beside)
        return
    epochs = EPOCHS if args.full else 60
    # M_MMAP_THRESHOLD: the C library gives larger arrays back when they are freed
    if not args.once:
        ctypes.CDLL("libc.so.6").mallopt(-3, 1 << 16)
    logits, y, edges, mask = make_problem()
    z, graph = torch.from_numpy(logits), Graph.from_edges(edges, NODES)

    def fit(calibrator: Method) -> object:
        return calibrator.fit(logits, y, graph=graph, mask=mask)

    def run(calibrator: Method) -> object:
        fit(calibrator)
        return calibrator.predict_proba(logits, graph=graph)

    def call(calibrator: Method) -> object:
        """The README's call: edges as they come."""
        calibrator.fit(logits, y, graph=edges, mask=mask)
        return calibrator.predict_proba(logits, graph=edges)

    def anew(calibrator: Method) -> None:
        for known in ("memory", "_fingerprint", "degree"):
            graph.__dict__.pop(known, None)
        run(calibrator)

    if args.once:
        print(seconds(lambda: anew(SimiMailbox(n_groups=GROUPS))))
        return
    print(f"{graph}, {CLASSES} classes, {torch.get_num_threads()} threads")
    for method in (SimiMailbox, SimiMailboxPaper):
        run(method(n_groups=GROUPS))
        for work, bar in ((fit, 1.0), (run, 2.0)):
            for known in ("memory", "_fingerprint", "degree"):
                graph.__dict__.pop(known, None)  # found anew
            peak = peak_above_start(lambda m=method, w=work: w(m(n_groups=GROUPS)))
            limit = f"   (bar: {bar:.0f} ×)" if method is SimiMailbox else ""
            print(
                f"{method.__name__:17} {'fit' if work is fit else 'fit + predict':14} "
                f"peak memory beyond the inputs {peak / 1e6:6.1f} MB = "
                f"{peak / logits.nbytes:.2f} × the logits{limit}"
            )
    if args.memory:
        return
    print(f"mailbox alone                      {seconds(lambda: mailbox(z, graph)):8.3f} s")
    times = {}
    for calibrator in (
        TemperatureScaling(),
        SimiMailbox(n_groups=GROUPS),
        SimiMailboxPaper(n_groups=GROUPS),
    ):
        name = type(calibrator).__name__
        times[name] = seconds(lambda c=calibrator: call(c))
        print(f"{name:20} fit + predict  {times[name]:8.3f} s")
    ratio = times["SimiMailbox"] / times["TemperatureScaling"]
    print(f"ratio SimiMailbox / TemperatureScaling      {ratio:8.1f} ×   (bar: 4 ×)")

    def fit_cost(prior: str | None) -> float:
        start = time.process_time()
        SimiMailbox(prior=prior).fit(logits, y, graph=graph, mask=mask)
        return time.process_time() - start

    costs = np.array([[fit_cost("learned"), fit_cost(None)] for _ in range(4)])
    median, least = (reduce(costs, axis=0) for reduce in (np.median, np.min))
    print(
        f"CPU time of fit, with / without prior   {median[0] / median[1]:.2f} by medians, "
        f"{least[0] / least[1]:.2f} by minima   (bar: 1.10)"
    )

    fitted = SimiMailboxPaper(n_groups=GROUPS, solver="exact", selection="none")
    groups = torch.from_numpy(fitted.fit(logits, y, graph=graph, mask=mask).groups_)
    index = torch.from_numpy(mask)
    curve = ConfidenceCurve(z, groups, GROUPS)
    ce = CrossEntropy(z[index], torch.from_numpy(y)[index], groups[index], GROUPS)
    loss = PaperLoss(curve, ce, np.full(GROUPS, 0.5), 50.0)
    start = time.perf_counter()
    next(islice(adam_path(loss), epochs - 1, None))
    adam = (time.perf_counter() - start) * EPOCHS / epochs
    how = "measured" if epochs == EPOCHS else f"{epochs} epochs, scaled up"
    print(f"Adam, {EPOCHS} epochs ({how})  {adam:8.1f} s")
    for name in ("SimiMailbox", "SimiMailboxPaper"):
        print(f"ratio Adam / {name:17}     {adam / times[name]:8.0f} ×   (bar: 200 ×)")


if __name__ == "__main__":
    main()
