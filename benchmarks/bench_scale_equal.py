"""Do blocks give what the default gives in memory? On graphs of the main table, with banked logits.

    python benchmarks/bench_scale_equal.py cora citeseer pubmed computers photo cs physics

Each graph is written as shards and calibrated in five blocks by ``engine="memory"`` and
``engine="disk"``. Printed are the largest relative difference of a group's temperature, the largest
difference of a probability, and how many nodes are in another group.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from simi_mailbox import SimiMailbox
from simi_mailbox.data import load
from simi_mailbox.models.bank import LogitBank, RunKey
from simi_mailbox.scale import calibrate, plan


def main() -> None:
    warnings.simplefilter("ignore")
    print("| graph | backbone | engine | temperatures | probabilities | groups |")
    print("|---|---|---|--:|--:|--:|")
    for graph in sys.argv[1:]:
        for backbone in ("gcn", "gat"):
            compare(graph, backbone)


def compare(graph: str, backbone: str) -> None:
    run, data = LogitBank().get(RunKey(graph, backbone)), load(graph)
    split, z = run.split, np.asarray(run.logits, dtype=np.float32)
    given = {"graph": data.graph, "train_mask": split.train}
    cal = SimiMailbox().fit(z, data.y, mask=split.val, **given)
    probs = cal.predict_proba(z, **given)
    plan.LARGEST_BLOCK = -(-len(z) // 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("logits", "edges"):
            (folder / part).mkdir()
        np.save(folder / "logits" / "0.npy", z)
        np.save(folder / "edges" / "0.npy", data.graph.edge_index().numpy())
        np.save(folder / "labels.npy", np.asarray(data.y))
        np.save(folder / "calibration.npy", np.asarray(split.val))
        np.save(folder / "train.npy", np.asarray(split.train))
        for engine in ("memory", "disk"):
            done = calibrate(folder, folder / engine, engine=engine)  # type: ignore[arg-type]
            read = [
                np.concatenate([np.load(f) for f in sorted((done.out / part).iterdir())])
                for part in ("probabilities", "groups")
            ]
            ratio = done.calibrator.temperatures_ / cal.temperatures_
            print(
                f"| {graph} | {backbone} | {engine} | {np.abs(ratio - 1).max():.1e} "
                f"| {np.abs(read[0] - probs).max():.1e} | {(read[1] != cal.groups_).sum()} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
