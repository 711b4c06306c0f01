"""How far single probabilities move when nothing that matters has changed.

    python bench/speed/bench_stability.py            # cached GCNs on Cora, Computers and Photo

The largest change of any probability of `SimiMailbox` by noise of 1e-4 on the logits, another seed
of k-means, and logits rounded to float16; first split, predictions preserved and not. Where
predictions are preserved, nodes whose prediction has turned (two logits that float16 makes equal)
are left out: what is preserved there is another class. Their number is printed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import torch

from simi_mailbox import CalibrationWarning, SimiMailbox
from simi_mailbox_bench.backbones.cached_runs import CachedRun, RunCache, RunKey

GRAPHS = ("Cora", "Computers", "Photo")
BARS = {"noise of 1e-4": 0.02, "another seed": 0.03, "float16": 0.01}


def probabilities(run: CachedRun, keep_classes: bool, z: np.ndarray, seed: int) -> np.ndarray:
    """Of all nodes, with the README's inputs."""
    calibrator = SimiMailbox(keep_classes=keep_classes, seed=seed)
    calibrator.fit(z, run.dataset.y, graph=run.dataset.graph, mask=run.split.val)
    return calibrator.predict_proba(z, graph=run.dataset.graph)


def variants(run: CachedRun, repeats: int = 3) -> Iterator[tuple[str, np.ndarray, int]]:
    """What is changed; logits and seed then."""
    z = run.logits.numpy()
    for seed in range(1, repeats + 1):
        noise = np.random.default_rng(seed).normal(size=z.shape) * 1e-4
        yield "noise of 1e-4", (z + noise).astype(z.dtype), 0
        yield "another seed", z, seed
    yield "float16", z.astype(np.float16).astype(z.dtype), 0


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CalibrationWarning)
    cache = RunCache()
    for graph in GRAPHS:
        run = cache.find(RunKey(graph, "gcn", "folds", 0))
        if run is None:
            print(f"{graph}: no cached run")
            continue
        for keep in (True, False):
            before = probabilities(run, keep, run.logits.numpy(), 0)
            worst = dict.fromkeys(BARS, 0.0)
            predicted, turned = run.logits.argmax(dim=1).numpy(), 0
            for name, z, seed in variants(run):
                change = np.abs(probabilities(run, keep, z, seed) - before).max(axis=1)
                other = (z.argmax(axis=1) != predicted) & keep
                turned = max(turned, int(other.sum()))
                worst[name] = max(worst[name], float(change[~other].max()))
            shown = "  ".join(f"{n} {worst[n]:.4f} (bar {bar})" for n, bar in BARS.items())
            mode = "preserved" if keep else "free"
            print(f"{graph:10} {mode:10} {shown}  left out: {turned}", flush=True)


if __name__ == "__main__":
    main()
