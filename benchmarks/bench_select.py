"""Does choosing pay? `select` against always taking the default, on banked runs of the main table.

    python benchmarks/bench_select.py [splits]

The default's prior never saw the graph's family; labels of test nodes are read by the metrics only.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from simi_mailbox import SimiMailbox, metrics, prior, select
from simi_mailbox.data import load
from simi_mailbox.models import LogitBank, RunKey, settings_for

GRAPHS = ("Cora", "Citeseer", "Pubmed", "Photo", "Computers", "CS", "Physics")
OTHERS = ("temperature", "ensemble-temperature")


def main(splits: int) -> None:
    """Print what was chosen, and what choosing changed on the test nodes."""
    from simi_mailbox import calibrators

    warnings.simplefilter("ignore")
    changes, bank = [], LogitBank()
    print(f"{'setting':16} split  {'chosen':22} NLL: default -> chosen   ECE: default -> chosen")
    for name in GRAPHS:
        graph = load(name)
        for backbone in ("gcn", "gat"):
            for split in range(splits):
                run = bank.find(RunKey(name, backbone, split=split), settings_for(name))
                if run is None:
                    print(f"{name} {backbone}: split {split} is not banked")
                    continue
                default = SimiMailbox(prior=prior.leave_out(name))
                rivals = {"simi-mailbox": default}
                rivals |= {other: calibrators.get(other)() for other in OTHERS}
                given = {"graph": graph.graph, "mask": run.split.val}
                choice = select(run.logits, graph.y, methods=rivals, repeats=1, **given)
                test, y = run.split.test, graph.y
                found = []
                for cal in (default.fit(run.logits, y, **given), choice.calibrator):
                    inputs = {"graph": graph.graph} if "graph" in cal.needs else {}
                    probs = np.asarray(cal.predict_proba(run.logits, **inputs))[test]
                    found.append((metrics.nll(probs, y[test]), metrics.ece(probs, y[test])))
                (nll, ece), (new_nll, new_ece) = found
                changes.append((name, new_nll - nll, new_ece - ece))
                told = f"{nll:.4f} -> {new_nll:.4f}        {100 * ece:.2f} -> {100 * new_ece:.2f}"
                print(f"{name + ' ' + backbone:16} {split:5}  {choice.name:22} {told}", flush=True)
    moved = [row for row in changes if row[1] != 0]
    means = np.mean([row[1:] for row in changes], axis=0)
    print(f"{len(changes)} runs, another method chosen in {len(moved)}")
    print(f"mean change: NLL {means[0]:+.5f}, ECE {100 * means[1]:+.3f} points")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
