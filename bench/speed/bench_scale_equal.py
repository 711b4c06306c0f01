"""Do blocks give what memory gives? On graphs of the main table, with cached logits.

    python bench/speed/bench_scale_equal.py Cora Citeseer Pubmed Computers Photo CS Physics

Each graph is written as shards, with training nodes and the GNN's hidden layer, and calibrated in
five blocks by ``engine="memory"``, ``"disk"`` and ``"dask"`` (a cluster of two processes); then a
fifth of the other labels become known, and the fitted calibrator is applied. Printed are, over the
engines, the largest relative difference of a group's temperature, the largest difference of a
probability at the fit and after it, and how many nodes are in another group.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from simi_mailbox import SimiMailbox
from simi_mailbox.calibrators import SimiMailboxFree
from simi_mailbox.scale import Calibrated, apply, calibrate, tiles
from simi_mailbox_bench.backbones.cached_runs import RunCache, RunKey
from simi_mailbox_bench.datasets import load


def main() -> None:
    from distributed import LocalCluster

    warnings.simplefilter("ignore")
    print("| graph | backbone | method | temperatures | probabilities | known later | groups |")
    print("|---|---|---|--:|--:|--:|--:|")
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster:
        for graph in sys.argv[1:]:
            for backbone in ("gcn", "gat"):
                for method in (SimiMailbox, SimiMailboxFree):
                    compare(graph, backbone, method, cluster.scheduler_address)


def compare(graph: str, backbone: str, method: type[SimiMailbox], scheduler: str) -> None:
    run, data = RunCache().get(RunKey(graph, backbone)), load(graph)
    split, z = run.split, np.asarray(run.logits, dtype=np.float32)
    hidden, y = np.asarray(run.hidden), np.asarray(data.y)
    given: dict[str, Any] = {"graph": data.graph, "train_mask": split.train, "hidden": hidden}
    cal = method().fit(z, y, mask=split.val, **given)
    rest = np.setdiff1d(np.arange(len(z)), np.concatenate([split.train, split.val]))
    later = (rest[::5], y[rest[::5]])
    expected = cal.predict_proba(z, **given), cal.predict_proba(z, known=later, **given)
    tiles.LARGEST_BLOCK = -(-len(z) // 5)
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shards = {"logits": z, "hidden": hidden, "edges": data.graph.edge_index().numpy()}
        for part, array in shards.items():
            (folder / part).mkdir()
            np.save(folder / part / "0.npy", array)
        for part, array in {"labels": y, "calibration": split.val, "train": split.train}.items():
            np.save(folder / f"{part}.npy", np.asarray(array))
        for engine in ("memory", "disk", "dask"):
            who: dict[str, Any] = {"engine": engine}
            who["scheduler"] = scheduler if engine == "dask" else None
            done = calibrate(folder, folder / engine, calibrator=method(), **who)
            again = apply(done.calibrator, folder, folder / f"{engine}-later", known=later, **who)
            ratio = done.calibrator.temperatures_ / cal.temperatures_
            differences = [
                np.abs(_read(one, "probabilities") - probs).max()
                for one, probs in zip((done, again), expected, strict=True)
            ]
            different = (_read(done, "groups") != cal.groups_).sum()
            found.append([np.abs(ratio - 1).max(), *differences, different])
    *sizes, different = np.max(found, axis=0)
    shown = " | ".join(f"{size:.1e}" for size in sizes)
    print(f"| {graph} | {backbone} | {method.name} | {shown} | {different:.0f} |", flush=True)


def _read(done: Calibrated, part: str) -> Any:
    return np.concatenate([np.load(file) for file in sorted((done.out / part).iterdir())])


if __name__ == "__main__":
    main()
